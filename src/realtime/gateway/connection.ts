// One socket: its channels by topic, its limits, and its end.
import type { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import type { Caller } from '../../identity/caller.ts';
import type { ChannelSocket } from '../channel/channel-socket.ts';
import { Channel } from '../channel/channel.ts';
import { callerKey } from '../../lib/limits/caller-key.ts';
import { TokenBucket } from '../../lib/limits/token-bucket.ts';
import { joinTooLarge, tooManyChannels, tooManyJoins } from '../problem.ts';
import type { Services } from '../channel/services.ts';
import {
  readBinary,
  readText,
  UnreadableFrame,
  writeText,
  type ClientMessage,
  type Version,
} from '../protocol/message.ts';
import { Writer } from '../protocol/writer.ts';

export type Admission = {
  readonly version: Version;
  readonly caller: Caller;
  /** Address of the client. */
  readonly address: string;
  readonly headers: Readonly<Record<string, string>>;
};

/** Close codes of the WebSocket protocol. */
export const CLOSE = {
  normal: 1000,
  goingAway: 1001,
  unreadable: 1003,
  restart: 1012,
  overload: 1013,
} as const;

const JOINS_PER_SECOND = 10;
/** Room for a token and several ten thousand characters of filters. */
const MAX_JOIN_BYTES = 64 * 1024;
/** Limit of refused joins. Clients repeat refused joins after the reply. A faster client ignores the replies. */
const REFUSED_JOINS = { perSecond: 100, burst: 1_000 };
/** A burst may have the broadcasts of this many seconds. */
const BURST_SECONDS = 3;
const PRESENCE_SECONDS = 10;
/** The first refusals have a short delay, because a client may join before it has its token. */
const PROMPT_REFUSALS = 3;
const REFUSAL_DELAY_MS = { first: 100, later: 5_000 };
/** Timeout of the closing handshake. */
const CLOSE_TIMEOUT_MS = 2_000;

export class Connection implements ChannelSocket {
  readonly #services: Services;
  readonly #ws: WebSocket;
  readonly version: Version;
  readonly caller: Caller;
  readonly address: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly writer: Writer;
  readonly #channels = new Map<string, Channel>();
  readonly #messages = new TokenBucket();
  readonly #presence = new TokenBucket();
  readonly #joins = new TokenBucket();
  readonly #refusedJoins = new TokenBucket();
  #refusals = 0;
  #bindings = 0;
  #closedWith: number | undefined;
  /** Time of the last message, by `performance.now()`. */
  lastSeenAt = performance.now();

  constructor(services: Services, ws: WebSocket, socket: Duplex, admission: Admission) {
    this.#services = services;
    this.#ws = ws;
    this.version = admission.version;
    this.caller = admission.caller;
    this.address = admission.address;
    this.headers = admission.headers;
    this.writer = new Writer(socket, {
      skipping: () => this.#forEachChannel((channel) => channel.warnSkippedMessages()),
      caughtUp: () => this.#forEachChannel((channel) => channel.caughtUp()),
      full: () => this.close(CLOSE.overload, 'The connection is too slow'),
    });
    ws.on('message', (data, isBinary) => this.#receive(data, isBinary));
    // `ws` closes the socket with the right code after an invalid frame.
    ws.on('error', () => {});
  }

  get channels(): Iterable<Channel> {
    return this.#channels.values();
  }

  tryConsumeMessage(): boolean {
    const { messages } = this.#services.settings().limits;
    return this.#messages.tryConsume(messages, messages * BURST_SECONDS);
  }

  tryConsumePresence(): boolean {
    const { presence } = this.#services.settings().limits;
    return this.#presence.tryConsume(presence / PRESENCE_SECONDS, presence);
  }

  nextBindingId(): number {
    this.#bindings += 1;
    return this.#bindings;
  }

  async waitForTurn(caller: Caller): Promise<void> {
    const isAdmitted = await this.#services.joins.admit(callerKey(caller, this.address));
    if (!isAdmitted) throw tooManyJoins();
  }

  refusalDelay(): number {
    this.#refusals += 1;
    return this.#refusals > PROMPT_REFUSALS ? REFUSAL_DELAY_MS.later : REFUSAL_DELAY_MS.first;
  }

  onClosed(channel: Channel): void {
    if (this.#channels.get(channel.topic) === channel) this.#channels.delete(channel.topic);
  }

  /** Code with which the server has closed the socket. */
  get closedWith(): number | undefined {
    return this.#closedWith;
  }

  /** Ends all channels and closes the socket. The client gets the code if it reads the queued frames in time. */
  close(code: number, reason: string): void {
    this.#closedWith ??= code;
    this.ended();
    this.#ws.close(code, reason);
    setTimeout(() => this.#ws.terminate(), CLOSE_TIMEOUT_MS).unref();
  }

  /** Ends all channels after the socket has closed. */
  ended(): void {
    for (const channel of this.#channels.values()) channel.end();
  }

  terminate(): void {
    this.#ws.terminate();
  }

  notifyDraining(): void {
    this.#forEachChannel((channel) => channel.notifyDraining());
  }

  #forEachChannel(work: (channel: Channel) => void): void {
    for (const channel of this.#channels.values()) work(channel);
  }

  #receive(data: RawData, isBinary: boolean): void {
    this.lastSeenAt = performance.now();
    try {
      const bytes = toBytes(data);
      if (isBinary && this.version === 1) throw new UnreadableFrame('version 1 has no binary frames');
      const message = isBinary ? readBinary(bytes) : readText(bytes.toString(), this.version);
      this.#dispatch(message, bytes.length);
    } catch (error) {
      if (!(error instanceof UnreadableFrame)) throw error;
      this.close(CLOSE.unreadable, `Unreadable message: ${error.message}`);
    }
  }

  #dispatch(message: ClientMessage, bytes: number): void {
    const { topic, event, ref } = message;
    if (topic === 'phoenix' && event === 'heartbeat') {
      this.#reply(message, 'ok', '{}');
      return;
    }
    if (event === 'phx_join' && topic.startsWith('realtime:')) {
      this.#join(message, bytes);
      return;
    }
    const channel = this.#channels.get(topic);
    // After a second join of the topic, messages for the first join are dropped.
    const isCurrent = channel && (message.joinRef === null || message.joinRef === channel.joinRef);
    if (channel && isCurrent) channel.receive(message);
    else if (event === 'phx_leave') this.#reply(message, 'ok', '{}');
    else if (ref !== null) this.#reply(message, 'error', '{"reason":"unmatched topic"}');
  }

  #join(message: ClientMessage, bytes: number): void {
    const { limits } = this.#services.settings();
    const before = this.#channels.get(message.topic);
    if (before) before.close();
    const isTooFast = !this.#joins.tryConsume(JOINS_PER_SECOND, limits.channels);
    const open = [...this.#channels.values()].filter((channel) => !channel.isRefused);
    const isFull = open.length >= limits.channels;
    // Counts refused joins per socket, because a new join replaces the refused channel.
    const { perSecond, burst } = REFUSED_JOINS;
    if ((isTooFast || isFull) && !this.#refusedJoins.tryConsume(perSecond, burst)) {
      this.close(CLOSE.overload, 'Too many joins');
      return;
    }
    const channel = new Channel(this.#services, this, message);
    this.#channels.set(message.topic, channel);
    void channel.join(message.ref, () => {
      if (bytes > MAX_JOIN_BYTES) throw joinTooLarge(MAX_JOIN_BYTES);
      if (isFull) throw tooManyChannels();
      if (isTooFast) throw tooManyJoins();
    });
  }

  #reply({ joinRef, ref, topic }: ClientMessage, status: 'ok' | 'error', response: string): void {
    const payload = `{"status":"${status}","response":${response}}`;
    this.writer.send(writeText({ joinRef, ref, topic, event: 'phx_reply', payload }, this.version));
  }
}

function toBytes(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}
