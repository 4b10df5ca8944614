// Writes the frames of one channel to its socket.
import { writeText } from '../protocol/message.ts';
import type { ChannelSocket } from './channel-socket.ts';

export type ReplyStatus = 'ok' | 'error';

export class ChannelFrames {
  readonly #socket: Pick<ChannelSocket, 'writer' | 'version'>;
  /** Includes the prefix `realtime:`. */
  readonly topic: string;
  readonly joinRef: string | null;

  constructor(
    socket: Pick<ChannelSocket, 'writer' | 'version'>,
    { topic, joinRef }: { readonly topic: string; readonly joinRef: string | null },
  ) {
    this.#socket = socket;
    this.topic = topic;
    this.joinRef = joinRef;
  }

  /** `response`: text of a JSON object. */
  reply(ref: string | null, status: ReplyStatus, response: string): void {
    this.#send('phx_reply', `{"status":"${status}","response":${response}}`, ref);
  }

  rejectWith(ref: string | null, reason: string): void {
    this.reply(ref, 'error', JSON.stringify({ reason }));
  }

  /** `payload`: text of a JSON object. */
  push(event: string, payload: string): void {
    this.#send(event, payload, null);
  }

  system(extension: 'system' | 'postgres_changes', status: ReplyStatus, message: string): void {
    const channel = this.topic.replace(/^realtime:/, '');
    this.push('system', JSON.stringify({ channel, extension, status, message }));
  }

  /** The client does not join again by itself after `phx_close`. After `phx_error` it does, a second later. */
  end(event: 'phx_close' | 'phx_error'): void {
    this.#send(event, '{}', this.joinRef);
  }

  #send(event: string, payload: string, ref: string | null): void {
    const { writer, version } = this.#socket;
    writer.send(writeText({ joinRef: this.joinRef, ref, topic: this.topic, event, payload }, version));
  }
}
