// The bus over LISTEN and NOTIFY. NOTIFY locks the whole database at commit, so it runs in separate transactions and
// never in the statement of a caller. An instance without peers sends only its heartbeat.
//
// Each instance has a new name after each start and numbers its notifications. A hole in the numbers means that
// notifications were lost. Topics are spread over sixteen channels. Messages of one topic keep their order.
import { randomBytes, randomUUID } from 'node:crypto';
import type { FeatureContext } from '../../http/feature.ts';
import type { ConnectionSettings } from '../../postgres/connection.ts';
import { listen, type Listener } from '../../postgres/listen.ts';
import { sql } from '../../postgres/sql.ts';
import type { RealtimeCounters } from '../counters.ts';
import type { Bus, BusMessage, InstanceReport, Outgoing, RoomState } from './bus.ts';
import { Envelopes } from './envelope.ts';
import { Outbox } from './outbox.ts';
import { Peers } from './peers.ts';
import { CHANNELS, decode, PEERS_CHANNEL, sha256, topicChannel, type Wire } from './wire.ts';

const HEARTBEAT_INTERVAL_MS = 5_000;
const MAX_SILENCE_MS = 15_000;
const SETTLE_MS = 100;
const LEAVE_TIMEOUT_MS = 1_000;
const HELLO_INTERVAL_MS = 1_000;
const WARN_INTERVAL_MS = 60_000;

export type NotifyBusOptions = {
  readonly context: FeatureContext;
  /** Settings of the listening connection, which must not use a pooler. */
  readonly listener: ConnectionSettings;
  readonly counters: RealtimeCounters;
  readonly heartbeatIntervalMs?: number;
  readonly silentAfterMs?: number;
};

export class NotifyBus implements Bus {
  readonly #options: NotifyBusOptions;
  readonly #context: FeatureContext;
  readonly #name = randomBytes(9).toString('base64url');
  readonly #envelopes: Envelopes;
  readonly #peers = new Peers();
  readonly #outbox: Outbox;
  #listener: Listener | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  #isClosed = false;
  #starting: Promise<void> | undefined;
  #warnedAt = Number.NEGATIVE_INFINITY;
  #onOwnHello: (() => void) | undefined;
  #receive: (message: BusMessage) => void = () => {};
  #forget: (instance: string) => void = () => {};
  #lost: () => void = () => {};
  #state: () => readonly RoomState[] = () => [];
  #report: (() => InstanceReport) | undefined;
  /** Keyed by id of the request. */
  readonly #reportRequests = new Map<string, (report: InstanceReport) => void>();
  /** Pending reads of rows. Later messages wait for them, so that the order is kept. */
  #reading: Promise<void> | undefined;

  constructor(options: NotifyBusOptions) {
    this.#options = options;
    this.#context = options.context;
    const { context, counters } = options;
    this.#envelopes = new Envelopes(context.keyring.macKeys('realtime bus'));
    this.#outbox = new Outbox({ context, counters, envelopes: this.#envelopes, name: this.#name });
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

  async collectReports(withinMs: number): Promise<{ answers: readonly InstanceReport[]; silent: number }> {
    const { size } = this.#peers;
    const answers: InstanceReport[] = [];
    if (size === 0) return { answers, silent: 0 };
    const question = randomUUID();
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, withinMs);
      this.#reportRequests.set(question, (report) => {
        if (answers.push(report) < size) return;
        clearTimeout(late);
        resolve();
      });
      this.#post({ kind: 'ask', question });
    });
    this.#reportRequests.delete(question);
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
        onNotification: (channel, payload) => this.#receiveNotification(channel, payload),
        onReconnect: () => {
          if (this.#peers.size > 0) {
            this.#options.counters.bus.add('holes');
            this.#lost();
          }
          this.#post({ kind: 'hello' });
        },
      },
      this.#context.log,
    );
    this.#heartbeat = setInterval(
      () => this.#tick(),
      this.#options.heartbeatIntervalMs ?? HEARTBEAT_INTERVAL_MS,
    ).unref();
    // Notifications arrive in the order of commits. After its own hello, the instance receives all later notifications.
    await new Promise<void>((resolve) => {
      this.#onOwnHello = resolve;
      const again = (): void => {
        if (this.#isClosed) resolve();
        if (this.#onOwnHello === undefined || this.#isClosed) return;
        this.#post({ kind: 'hello' });
        setTimeout(again, HELLO_INTERVAL_MS).unref();
      };
      again();
    });
    if (!this.#isClosed) await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  }

  publish(message: Outgoing): void {
    if (this.#peers.size === 0) return;
    this.#outbox.enqueue(topicChannel(message.room.topic), message);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#heartbeat);
    this.#onOwnHello?.();
    await this.#starting;
    clearInterval(this.#heartbeat);
    if (this.#listener) {
      this.#post({ kind: 'bye' });
      // A database that does not respond must not delay the shutdown.
      await Promise.race([
        this.#outbox.send(),
        new Promise((resolve) => setTimeout(resolve, LEAVE_TIMEOUT_MS).unref()),
      ]);
      await this.#listener.close();
    }
  }

  #tick(): void {
    this.#post({ kind: 'beat' });
    const silent = this.#peers.silentFor(this.#options.silentAfterMs ?? MAX_SILENCE_MS);
    for (const name of silent) this.#drop(name);
    void this.#outbox.removeRows();
  }

  #drop(name: string): void {
    if (this.#peers.remove(name)) this.#forget(name);
  }

  #post(message: Wire): void {
    this.#outbox.enqueue(PEERS_CHANNEL, message);
  }

  #receiveNotification(channel: string, payload: string): void {
    const envelope = this.#envelopes.open(channel, payload);
    if (!envelope) {
      this.#warnUnsigned();
      return;
    }
    const { from, number } = envelope;
    const messages = envelope.messages.flatMap((message) => decode(message) ?? []);
    if (from === this.#name) {
      if (messages.some(({ kind }) => kind === 'hello')) {
        this.#onOwnHello?.();
        this.#onOwnHello = undefined;
      }
      return;
    }
    const { isNew, hasHole } = this.#peers.record(from, channel, number);
    // An instance that was frozen and removed in the meantime resumes with its old state. The hello requests that
    // state.
    if (isNew) this.#post({ kind: 'hello' });
    if (hasHole) {
      this.#options.counters.bus.add('holes');
      this.#lost();
      this.#post({ kind: 'hello' });
    }
    try {
      for (const message of messages) this.#handleInOrder(from, message);
    } catch (error) {
      this.#context.log.debug({ err: error }, 'a message of another instance could not be read');
    }
  }

  #warnUnsigned(): void {
    const { bus } = this.#options.counters;
    bus.add('unsigned');
    const now = performance.now();
    if (now - this.#warnedAt < WARN_INTERVAL_MS) return;
    this.#warnedAt = now;
    this.#context.log.warn({ dropped: bus.get('unsigned') }, UNSIGNED);
  }

  #handleInOrder(from: string, message: Wire): void {
    if (message.kind !== 'row' && !this.#reading) {
      this.#handle(from, message);
      return;
    }
    const before = this.#reading ?? Promise.resolve();
    const reading: Promise<void> = before
      .then(async () => this.#handle(from, message.kind === 'row' ? await this.#readRow(message) : message))
      .catch((error: unknown) => {
        this.#context.log.debug({ err: error }, 'a large broadcast of another instance could not be read');
        this.#options.counters.bus.add('holes');
        this.#lost();
      })
      .finally(() => {
        if (this.#reading === reading) this.#reading = undefined;
      });
    this.#reading = reading;
  }

  async #readRow({ id, digest }: Extract<Wire, { kind: 'row' }>): Promise<Wire | undefined> {
    const [row] = await this.#context.owner.query<{ body: string }>(
      sql`select body from realtime.overflow where id = ${id}`,
    );
    if (row && sha256(row.body) !== digest) throw new Error('the row differs from the row that was sent');
    return row && decode(JSON.parse(row.body) as unknown);
  }

  #handle(from: string, message: Wire | undefined): void {
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
        this.#reportRequests.get(message.question)?.(message.report);
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

const UNSIGNED =
  'notifications on the channels svc_rt_* without a valid signature were dropped: they come from an SQL session, ' +
  'an instance of an earlier version, or an instance whose clock differs by two minutes';
