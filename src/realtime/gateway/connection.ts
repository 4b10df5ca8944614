// One socket: its channels by topic, its limits, its end.
import type { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import type { Caller } from '../../identity/caller.ts';
import { Channel, type Host } from '../channel/channel.ts';
import { Rate } from '../channel/rate.ts';
import { joinTooLarge, tooManyChannels, tooManyJoins } from '../problem.ts';
import type { Services } from '../services.ts';
import {
  readBinary,
  readText,
  UnreadableFrame,
  writeText,
  type ClientMessage,
  type Version,
} from './message.ts';
import { Writer } from './writer.ts';

export type Admission = {
  readonly version: Version;
  readonly caller: Caller;
  readonly headers: Readonly<Record<string, string>>;
};

/** Of the WebSocket protocol. */
export const CLOSE = {
  normal: 1000,
  goingAway: 1001,
  unreadable: 1003,
  restart: 1012,
  overload: 1013,
} as const;

const JOINS_PER_SECOND = 10;
/** A token, and some ten thousand characters of filters. */
const LARGEST_JOIN = 64 * 1024;
/** Clients with more channels than they may have come back for each. Whoever joins so often does not wait for answers. */
const MOST_WAITING_REFUSALS = 1_000;
/** So many seconds' worth of broadcasts may come at once. */
const BURST_SECONDS = 3;
const PRESENCE_SECONDS = 10;
/** The first refusals are answered soon: a client that joins before it has its token asks again with it. */
const PROMPT_REFUSALS = 3;
const REFUSAL_MS = { first: 100, later: 5_000 };
/** A closing handshake that the other side does not answer. */
const CLOSE_WITHIN_MS = 2_000;

export class Connection implements Host {
  readonly #services: Services;
  readonly #ws: WebSocket;
  readonly version: Version;
  readonly caller: Caller;
  readonly headers: Readonly<Record<string, string>>;
  readonly writer: Writer;
  readonly #channels = new Map<string, Channel>();
  readonly #messages = new Rate();
  readonly #presence = new Rate();
  readonly #joins = new Rate();
  #refusals = 0;
  #bindings = 0;
  #closedWith: number | undefined;
  /** By `performance.now()`. */
  heardAt = performance.now();

  constructor(services: Services, ws: WebSocket, socket: Duplex, admission: Admission) {
    this.#services = services;
    this.#ws = ws;
    this.version = admission.version;
    this.caller = admission.caller;
    this.headers = admission.headers;
    this.writer = new Writer(socket, {
      skipping: () => this.#eachChannel((channel) => channel.tellSkipping()),
      caughtUp: () => this.#eachChannel((channel) => channel.caughtUp()),
      full: () => this.close(CLOSE.overload, 'The connection is too slow'),
    });
    ws.on('message', (data, isBinary) => this.#receive(data, isBinary));
    // What is wrong with a frame closes the socket with the right code by itself.
    ws.on('error', () => {});
  }

  get channels(): Iterable<Channel> {
    return this.#channels.values();
  }

  takeMessage(): boolean {
    const { messages } = this.#services.settings().limits;
    return this.#messages.take(messages, messages * BURST_SECONDS);
  }

  takePresence(): boolean {
    const { presence } = this.#services.settings().limits;
    return this.#presence.take(presence / PRESENCE_SECONDS, presence);
  }

  nextBindingId(): number {
    this.#bindings += 1;
    return this.#bindings;
  }

  refusalDelay(): number {
    this.#refusals += 1;
    return this.#refusals > PROMPT_REFUSALS ? REFUSAL_MS.later : REFUSAL_MS.first;
  }

  forget(channel: Channel): void {
    if (this.#channels.get(channel.topic) === channel) this.#channels.delete(channel.topic);
  }

  /** Why this side has closed it; undefined while it has not. */
  get closedWith(): number | undefined {
    return this.#closedWith;
  }

  /** Ends all channels; the other side learns the code, if it reads what comes before it in time. */
  close(code: number, reason: string): void {
    this.#closedWith ??= code;
    this.ended();
    this.#ws.close(code, reason);
    setTimeout(() => this.#ws.terminate(), CLOSE_WITHIN_MS).unref();
  }

  /** The socket is gone. */
  ended(): void {
    for (const channel of this.#channels.values()) channel.end();
  }

  terminate(): void {
    this.#ws.terminate();
  }

  tellDraining(): void {
    this.#eachChannel((channel) => channel.tellDraining());
  }

  #eachChannel(work: (channel: Channel) => void): void {
    for (const channel of this.#channels.values()) work(channel);
  }

  #receive(data: RawData, isBinary: boolean): void {
    this.heardAt = performance.now();
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
      this.#answer(message, 'ok', '{}');
      return;
    }
    if (event === 'phx_join' && topic.startsWith('realtime:')) {
      this.#join(message, bytes);
      return;
    }
    const channel = this.#channels.get(topic);
    // A message of a channel that was joined again since then is for the one that is gone.
    const isCurrent = channel && (message.joinRef === null || message.joinRef === channel.joinRef);
    if (channel && isCurrent) channel.receive(message);
    else if (event === 'phx_leave') this.#answer(message, 'ok', '{}');
    else if (ref !== null) this.#answer(message, 'error', '{"reason":"unmatched topic"}');
  }

  #join(message: ClientMessage, bytes: number): void {
    const { limits } = this.#services.settings();
    const before = this.#channels.get(message.topic);
    if (before) before.close();
    const isTooFast =
      !this.#joins.take(JOINS_PER_SECOND, limits.channels) ||
      !this.#services.joins.take(limits.joins, limits.joins);
    const open = [...this.#channels.values()].filter((channel) => !channel.isRefused);
    const isFull = open.length >= limits.channels;
    if (this.#channels.size >= limits.channels + MOST_WAITING_REFUSALS) {
      this.close(CLOSE.overload, 'Too many joins');
      return;
    }
    const channel = new Channel(this.#services, this, message);
    this.#channels.set(message.topic, channel);
    void channel.join(message.ref, () => {
      if (bytes > LARGEST_JOIN) throw joinTooLarge(LARGEST_JOIN);
      if (isFull) throw tooManyChannels();
      if (isTooFast) throw tooManyJoins();
    });
  }

  #answer({ joinRef, ref, topic }: ClientMessage, status: 'ok' | 'error', response: string): void {
    const payload = `{"status":"${status}","response":${response}}`;
    this.writer.send(writeText({ joinRef, ref, topic, event: 'phx_reply', payload }, this.version));
  }
}

function toBytes(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}
