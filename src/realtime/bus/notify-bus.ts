// The bus over LISTEN and NOTIFY, always in transactions of our own: NOTIFY takes a lock of the whole database at commit,
// which no statement of a caller may pay for. An instance that is alone sends nothing but its beat.
//
// Each instance has a new name after each start and numbers what it sends: a hole in the numbers means that something was
// lost. Topics are spread over sixteen channels, and what is sent about one topic keeps its order.
import { randomBytes, randomUUID } from 'node:crypto';
import type { FeatureContext } from '../../http/feature.ts';
import { isObject } from '../gateway/message.ts';
import { listen, type Listener } from '../../postgres/listen.ts';
import type { ConnectionSettings } from '../../postgres/connection.ts';
import { sql } from '../../postgres/sql.ts';
import type { Tally } from '../tally.ts';
import type { Bus, BusMessage, InstanceReport, Outgoing, RoomState } from './bus.ts';

const TOPIC_CHANNELS = 16;
const PEERS_CHANNEL = 'svc_rt_peers';
const CHANNELS = [...Array.from({ length: TOPIC_CHANNELS }, (_, at) => `svc_rt_${at}`), PEERS_CHANNEL];
/** PostgreSQL's limit is 8,000 bytes. */
const LARGEST_PAYLOAD = 7_900;
/** A larger message travels in a row. */
const LARGEST_MESSAGE = 7_500;
const BEAT_EVERY_MS = 5_000;
const SILENT_AFTER_MS = 15_000;
const SETTLE_MS = 100;
const BYE_MS = 1_000;
const HELLO_EVERY_MS = 1_000;
/** Rows of large messages are read within milliseconds. */
const KEEP_ROWS = '1 minute';
const LOOK_FOR_ROWS_MS = 120_000;
/** What waits while the database does not answer. */
const MOST_WAITING = 10_000;

type Envelope = { readonly from: string; readonly number: number; readonly messages: readonly Wire[] };

type Wire =
  | Outgoing
  | { readonly kind: 'hello' | 'beat' | 'bye' }
  | { readonly kind: 'state'; readonly rooms: readonly RoomState[] }
  | { readonly kind: 'row'; readonly id: string }
  | { readonly kind: 'ask'; readonly question: string }
  | { readonly kind: 'answer'; readonly question: string; readonly report: InstanceReport };

type Waiting = { readonly channel: string; readonly text: string };

export type NotifyBusOptions = {
  readonly context: FeatureContext;
  /** Of the connection that listens; past any pooler. */
  readonly listener: ConnectionSettings;
  readonly tally: Tally;
  readonly beatEveryMs?: number;
  readonly silentAfterMs?: number;
};

type Peer = { heardAt: number; readonly numbers: Map<string, number> };

export class NotifyBus implements Bus {
  readonly #options: NotifyBusOptions;
  readonly #context: FeatureContext;
  readonly #name = randomBytes(9).toString('base64url');
  readonly #peers = new Map<string, Peer>();
  readonly #numbers = new Map<string, number>();
  #waiting: Waiting[] = [];
  #isSending = false;
  /** When the last row for a large message was written, by `performance.now()`. */
  #wroteRowAt = Number.NEGATIVE_INFINITY;
  #listener: Listener | undefined;
  #beat: NodeJS.Timeout | undefined;
  #isClosed = false;
  #starting: Promise<void> | undefined;
  #heardOwnHello: (() => void) | undefined;
  #receive: (message: BusMessage) => void = () => {};
  #forget: (instance: string) => void = () => {};
  #lost: () => void = () => {};
  #state: () => readonly RoomState[] = () => [];
  #report: (() => InstanceReport) | undefined;
  /** By question. */
  readonly #asked = new Map<string, (report: InstanceReport) => void>();
  /** Rows are read one after another, so that what follows a large message does not overtake it. */
  #reading: Promise<void> | undefined;

  constructor(options: NotifyBusOptions) {
    this.#options = options;
    this.#context = options.context;
  }

  get peers(): number {
    return this.#peers.size;
  }

  onMessage(receive: (message: BusMessage) => void): void {
    this.#receive = receive;
  }

  onPeerGone(forget: (instance: string) => void): void {
    this.#forget = forget;
  }

  onLost(lost: () => void): void {
    this.#lost = lost;
  }

  state(read: () => readonly RoomState[]): void {
    this.#state = read;
  }

  report(read: () => InstanceReport): void {
    this.#report = read;
  }

  async ask(withinMs: number): Promise<{ answers: readonly InstanceReport[]; silent: number }> {
    const { size } = this.#peers;
    const answers: InstanceReport[] = [];
    if (size === 0) return { answers, silent: 0 };
    const question = randomUUID();
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, withinMs);
      this.#asked.set(question, (report) => {
        if (answers.push(report) < size) return;
        clearTimeout(late);
        resolve();
      });
      this.#post({ kind: 'ask', question });
    });
    this.#asked.delete(question);
    return { answers, silent: Math.max(0, size - answers.length) };
  }

  async start(): Promise<void> {
    this.#starting = this.#start();
    await this.#starting;
  }

  async #start(): Promise<void> {
    if (this.#isClosed) return;
    this.#listener = await listen(
      this.#options.listener,
      CHANNELS,
      {
        onNotification: (channel, payload) => this.#heard(channel, payload),
        onReconnect: () => {
          if (this.#peers.size > 0) {
            this.#options.tally.bus.add('holes');
            this.#lost();
          }
          this.#post({ kind: 'hello' });
        },
      },
      this.#context.log,
    );
    this.#beat = setInterval(() => this.#tick(), this.#options.beatEveryMs ?? BEAT_EVERY_MS).unref();
    // Notifications come in the order of their commits: with this one, all later ones are heard too.
    await new Promise<void>((resolve) => {
      this.#heardOwnHello = resolve;
      const again = (): void => {
        if (this.#isClosed) resolve();
        if (this.#heardOwnHello === undefined || this.#isClosed) return;
        this.#post({ kind: 'hello' });
        setTimeout(again, HELLO_EVERY_MS).unref();
      };
      again();
    });
    if (!this.#isClosed) await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  }

  publish(message: Outgoing): void {
    if (this.#peers.size === 0) return;
    this.#queue(`svc_rt_${hash(message.room.topic) % TOPIC_CHANNELS}`, message);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#beat);
    this.#heardOwnHello?.();
    await this.#starting;
    clearInterval(this.#beat);
    if (this.#listener) {
      this.#post({ kind: 'bye' });
      // A database that is away is not waited for.
      await Promise.race([this.#send(), new Promise((resolve) => setTimeout(resolve, BYE_MS).unref())]);
      await this.#listener.close();
    }
  }

  #tick(): void {
    this.#post({ kind: 'beat' });
    const silentSince = performance.now() - (this.#options.silentAfterMs ?? SILENT_AFTER_MS);
    for (const [name, { heardAt }] of this.#peers) if (heardAt < silentSince) this.#drop(name);
    if (performance.now() - this.#wroteRowAt < LOOK_FOR_ROWS_MS) void this.#removeRows();
  }

  async #removeRows(): Promise<void> {
    try {
      await this.#context.owner.query(
        sql`delete from realtime.overflow where at < now() - ${KEEP_ROWS}::interval`,
      );
    } catch (error) {
      this.#context.log.debug({ err: error }, 'rows of large broadcasts could not be removed');
    }
  }

  #drop(name: string): void {
    if (this.#peers.delete(name)) this.#forget(name);
  }

  #post(message: Wire): void {
    this.#queue(PEERS_CHANNEL, message);
  }

  #queue(channel: string, message: Wire): void {
    if (this.#waiting.length >= MOST_WAITING) {
      // Whoever misses it sees the hole.
      this.#nextNumber(channel);
      return;
    }
    this.#waiting.push({ channel, text: JSON.stringify(encode(message)) });
    if (!this.#isSending) setImmediate(() => void this.#send());
  }

  #nextNumber(channel: string): number {
    const number = (this.#numbers.get(channel) ?? 0) + 1;
    this.#numbers.set(channel, number);
    return number;
  }

  /** What gathers while a statement runs goes with the next one. */
  async #send(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    while (this.#waiting.length > 0) {
      const waiting = this.#waiting;
      this.#waiting = [];
      const rows: Array<{ id: string; body: string }> = [];
      const payloads = pack(waiting, rows).map(({ channel, texts }) => ({
        channel,
        payload: `[${JSON.stringify(this.#name)},${this.#nextNumber(channel)},[${texts.join(',')}]]`,
      }));
      const { bus } = this.#options.tally;
      bus.add('sent', payloads.length);
      bus.add('overflow', rows.length);
      try {
        if (rows.length > 0) {
          this.#wroteRowAt = performance.now();
          await this.#context.owner.query(sql`
            insert into realtime.overflow (id, body)
            select * from unnest(${rows.map(({ id }) => id)}::uuid[], ${rows.map(({ body }) => body)}::text[])`);
        }
        await this.#context.owner.query(sql`
          select pg_catalog.pg_notify(c, p)
          from unnest(${payloads.map(({ channel }) => channel)}::text[], ${payloads.map(({ payload }) => payload)}::text[]) t(c, p)`);
      } catch (error) {
        this.#context.log.debug({ err: error }, 'other instances could not be told about broadcasts');
      }
    }
    this.#isSending = false;
  }

  #heard(channel: string, payload: string): void {
    const envelope = readEnvelope(payload);
    if (!envelope) return;
    const { from, number, messages } = envelope;
    if (from === this.#name) {
      if (messages.some(({ kind }) => kind === 'hello')) {
        this.#heardOwnHello?.();
        this.#heardOwnHello = undefined;
      }
      return;
    }
    let peer = this.#peers.get(from);
    if (!peer) {
      peer = { heardAt: 0, numbers: new Map() };
      this.#peers.set(from, peer);
      // One that was frozen goes on where it stopped, and was forgotten meanwhile: who is present there?
      this.#post({ kind: 'hello' });
    }
    peer.heardAt = performance.now();
    const last = peer.numbers.get(channel);
    peer.numbers.set(channel, number);
    if (last !== undefined && number !== last + 1) {
      this.#options.tally.bus.add('holes');
      this.#lost();
      this.#post({ kind: 'hello' });
    }
    try {
      for (const message of messages) this.#inOrder(from, message);
    } catch (error) {
      // Nothing of ours: whoever may run SQL may notify.
      this.#context.log.debug({ err: error }, 'a notification of nobody that is known');
    }
  }

  #inOrder(from: string, message: Wire): void {
    if (message.kind !== 'row' && !this.#reading) {
      this.#take(from, message);
      return;
    }
    const before = this.#reading ?? Promise.resolve();
    const reading: Promise<void> = before
      .then(async () => this.#take(from, message.kind === 'row' ? await this.#readRow(message.id) : message))
      .catch((error: unknown) => {
        this.#context.log.debug({ err: error }, 'a large broadcast of another instance could not be read');
        this.#options.tally.bus.add('holes');
        this.#lost();
      })
      .finally(() => {
        if (this.#reading === reading) this.#reading = undefined;
      });
    this.#reading = reading;
  }

  async #readRow(id: string): Promise<Wire | undefined> {
    const [row] = await this.#context.owner.query<{ body: string }>(
      sql`select body from realtime.overflow where id = ${id}`,
    );
    return row && decode(JSON.parse(row.body) as unknown);
  }

  #take(from: string, message: Wire | undefined): void {
    switch (message?.kind) {
      case 'broadcast':
      case 'presence':
      case 'state':
        this.#receive({ ...message, from });
        break;
      case 'hello': {
        const rooms = this.#state();
        this.#post({ kind: 'beat' });
        if (rooms.length > 0) this.#post({ kind: 'state', rooms });
        break;
      }
      case 'ask':
        if (this.#report) {
          this.#post({ kind: 'answer', question: message.question, report: this.#report() });
        }
        break;
      case 'answer':
        this.#asked.get(message.question)?.(message.report);
        break;
      case 'bye':
        this.#drop(from);
        break;
      case 'beat':
      case 'row':
      case undefined:
        break;
    }
  }
}

/** Texts of one channel together, as many as a notification has room for; the large ones become rows. */
function pack(
  waiting: readonly Waiting[],
  rows: Array<{ id: string; body: string }>,
): ReadonlyArray<{ channel: string; texts: string[] }> {
  const payloads: Array<{ channel: string; texts: string[]; bytes: number }> = [];
  const open = new Map<string, (typeof payloads)[number]>();
  for (const { channel, text } of waiting) {
    let part = text;
    if (Buffer.byteLength(text) > LARGEST_MESSAGE) {
      const id = randomUUID();
      rows.push({ id, body: text });
      part = JSON.stringify({ kind: 'row', id });
    }
    const bytes = Buffer.byteLength(part) + 1;
    let payload = open.get(channel);
    // Name, number and brackets.
    if (!payload || payload.bytes + bytes > LARGEST_PAYLOAD - 100) {
      payload = { channel, texts: [], bytes: 0 };
      payloads.push(payload);
      open.set(channel, payload);
    }
    payload.texts.push(part);
    payload.bytes += bytes;
  }
  return payloads;
}

/** Bytes travel as base64. */
function encode(message: Wire): unknown {
  if (message.kind !== 'broadcast' || !('bytes' in message.broadcast.content)) return message;
  const { bytes } = message.broadcast.content;
  const content = { base64: Buffer.from(bytes).toString('base64') };
  return { ...message, broadcast: { ...message.broadcast, content } };
}

function decode(value: unknown): Wire | undefined {
  if (!isObject(value) || typeof value['kind'] !== 'string') return undefined;
  // Only instances of svc may notify here, and they write what `encode` makes.
  const message = value as unknown as Wire;
  if (message.kind !== 'broadcast') return message;
  const content: unknown = message.broadcast.content;
  if (!isObject(content) || typeof content['base64'] !== 'string') return message;
  const bytes = Buffer.from(content['base64'], 'base64');
  return { ...message, broadcast: { ...message.broadcast, content: { bytes } } };
}

function readEnvelope(payload: string): Envelope | undefined {
  try {
    const value = JSON.parse(payload) as unknown;
    if (!Array.isArray(value)) return undefined;
    const [from, number, messages] = value as unknown[];
    if (typeof from !== 'string' || typeof number !== 'number' || !Array.isArray(messages)) return undefined;
    return { from, number, messages: messages.flatMap((message) => decode(message) ?? []) };
  } catch {
    // Anybody who may connect may notify.
    return undefined;
  }
}

function hash(text: string): number {
  let value = 0;
  for (let at = 0; at < text.length; at++) value = (value * 31 + text.charCodeAt(at)) >>> 0;
  return value;
}
