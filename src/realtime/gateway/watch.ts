// A channel without a socket, for the dashboard: what its member would be sent is handed over. Everything else is as for
// any other member, policies included.
import { Duplex } from 'node:stream';
import { ANON, type Caller } from '../../identity/caller.ts';
import { Channel, type Host } from '../channel/channel.ts';
import type { Services } from '../services.ts';
import { Writer } from './writer.ts';

/** A message as a client would get it. */
export type WatchedMessage = {
  readonly event: string;
  readonly payload: unknown;
  /** Of the frame. */
  readonly bytes: number;
};

export type WatchRequest = {
  /** Without `realtime:`. */
  readonly topic: string;
  readonly isPrivate: boolean;
  /** Undefined: as whoever has the publishable key. */
  readonly token: string | undefined;
  /** Changes of these tables; `table` undefined is the whole schema. */
  readonly tables: ReadonlyArray<{ readonly schema: string; readonly table: string | undefined }>;
  readonly onMessage: (message: WatchedMessage) => void;
  /** After the last message. */
  readonly onEnd: () => void;
};

const REF = '1';

export class Watch implements Host {
  readonly version = 2;
  readonly caller: Caller = ANON;
  readonly headers = {};
  readonly writer: Writer;
  readonly channel: Channel;
  readonly #onEnd: () => void;
  #bindings = 0;

  constructor(services: Services, { topic, isPrivate, token, tables, onMessage, onEnd }: WatchRequest) {
    this.#onEnd = onEnd;
    const inbox = new Duplex({
      read() {},
      write(frame: Buffer, _encoding, done) {
        onMessage(readFrame(frame));
        done();
      },
    });
    this.writer = new Writer(inbox, { skipping() {}, caughtUp() {}, full() {} });
    this.channel = new Channel(services, this, {
      joinRef: REF,
      ref: REF,
      topic: `realtime:${topic}`,
      event: 'phx_join',
      payload: {
        ...(token === undefined ? {} : { access_token: token }),
        config: {
          private: isPrivate,
          broadcast: { self: false, ack: false },
          presence: { key: '', enabled: true },
          postgres_changes: tables.map(({ schema, table }) => ({
            event: '*',
            schema,
            ...(table === undefined ? {} : { table }),
          })),
        },
      },
    });
  }

  async join(): Promise<void> {
    await this.channel.join(REF, () => {});
  }

  /** A new token of the same caller. */
  renew(token: string): void {
    this.channel.receive({
      joinRef: REF,
      ref: null,
      topic: this.channel.topic,
      event: 'access_token',
      payload: { access_token: token },
    });
  }

  takeMessage(): boolean {
    return true;
  }

  takePresence(): boolean {
    return true;
  }

  nextBindingId(): number {
    this.#bindings += 1;
    return this.#bindings;
  }

  refusalDelay(): number {
    return 0;
  }

  forget(): void {
    // What is said at the end comes right after this.
    setImmediate(this.#onEnd);
  }
}

const BINARY = 0x2;
const BINARY_HEAD = 5;

/** One of ours: see frame.ts and message.ts. */
function readFrame(frame: Buffer): WatchedMessage {
  const short = (frame[1] ?? 0) & 0x7f;
  const content = frame.subarray(short < 126 ? 2 : short === 126 ? 4 : 10);
  const bytes = content.length;
  if (((frame[0] ?? 0) & 0x0f) === BINARY) {
    const [, topicLength = 0, eventLength = 0, metaLength = 0] = content;
    const at = BINARY_HEAD + topicLength;
    const event = content.subarray(at, at + eventLength).toString();
    const size = bytes - at - eventLength - metaLength;
    return { event: 'broadcast', payload: { type: 'broadcast', event, payload: `${size} bytes` }, bytes };
  }
  const [, , , event, payload] = JSON.parse(content.toString()) as unknown[];
  return { event: String(event), payload, bytes };
}
