// A channel without a socket, for the dashboard. It passes the messages of its member to a function. Policies apply as
// for other members, limits of sockets do not.
import { Duplex } from 'node:stream';
import { ANON, type Caller } from '../../identity/caller.ts';
import type { ChannelSocket } from '../channel/channel-socket.ts';
import { Channel } from '../channel/channel.ts';
import type { Services } from '../channel/services.ts';
import { Writer } from '../protocol/writer.ts';

/** Message as a client receives it. */
export type InspectedMessage = {
  readonly event: string;
  readonly payload: unknown;
  /** Size of the frame's content. */
  readonly bytes: number;
};

export type InspectRequest = {
  /** Has no prefix `realtime:`. */
  readonly topic: string;
  readonly isPrivate: boolean;
  /** Undefined joins with the publishable key. */
  readonly token: string | undefined;
  /** Tables whose changes are requested. An undefined `table` requests the whole schema. */
  readonly tables: ReadonlyArray<{ readonly schema: string; readonly table: string | undefined }>;
  readonly onMessage: (message: InspectedMessage) => void;
  /** Called after the last message. */
  readonly onEnd: () => void;
};

const REF = '1';

export class ChannelInspector implements ChannelSocket {
  readonly version = 2;
  readonly caller: Caller = ANON;
  readonly address = undefined;
  readonly headers = {};
  readonly writer: Writer;
  readonly channel: Channel;
  readonly #onEnd: () => void;
  #bindings = 0;

  constructor(services: Services, { topic, isPrivate, token, tables, onMessage, onEnd }: InspectRequest) {
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

  /** Sets a new token of the same caller. */
  renew(token: string): void {
    this.channel.receive({
      joinRef: REF,
      ref: null,
      topic: this.channel.topic,
      event: 'access_token',
      payload: { access_token: token },
    });
  }

  tryConsumeMessage(): boolean {
    return true;
  }

  tryConsumePresence(): boolean {
    return true;
  }

  nextBindingId(): number {
    this.#bindings += 1;
    return this.#bindings;
  }

  waitForTurn(): Promise<void> {
    return Promise.resolve();
  }

  refusalDelay(): number {
    return 0;
  }

  onClosed(): void {
    // The channel sends its last message right after this call.
    setImmediate(this.#onEnd);
  }
}

const BINARY = 0x2;
const BINARY_HEAD = 5;

/** Parses a frame that svc has encoded. See `frame.ts` and `message.ts`. */
function readFrame(frame: Buffer): InspectedMessage {
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
