// Sends the queued messages of this instance as signed notifications. Large messages are written as rows.
import type { FeatureContext } from '../../http/feature.ts';
import { sql } from '../../postgres/sql.ts';
import type { RealtimeCounters } from '../counters.ts';
import type { Envelopes } from './envelope.ts';
import { encode, pack, type OverflowRow, type QueuedMessage, type Wire } from './wire.ts';

/** Messages that wait while the database does not respond. */
const MAX_QUEUED_MESSAGES = 10_000;
/** Receivers read the rows of large messages within milliseconds. */
const ROW_RETENTION = '1 minute';
const ROW_CLEANUP_MS = 120_000;

export type OutboxOptions = {
  readonly context: FeatureContext;
  readonly counters: RealtimeCounters;
  readonly envelopes: Envelopes;
  /** Name of this instance. */
  readonly name: string;
};

export class Outbox {
  readonly #options: OutboxOptions;
  /** Number of the last notification, by channel. */
  readonly #numbers = new Map<string, number>();
  #queue: QueuedMessage[] = [];
  #isSending = false;
  /** Time at which the last row was written, by `performance.now()`. */
  #wroteRowAt = Number.NEGATIVE_INFINITY;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  enqueue(channel: string, message: Wire): void {
    if (this.#queue.length >= MAX_QUEUED_MESSAGES) {
      // Receivers detect the missing number.
      this.#nextNumber(channel);
      return;
    }
    this.#queue.push({ channel, text: encode(message) });
    if (!this.#isSending) setImmediate(() => void this.send());
  }

  /** Sends the queue. Messages that are queued while a statement runs are sent by the next statement. */
  async send(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    while (this.#queue.length > 0) {
      const batch = this.#queue;
      this.#queue = [];
      await this.#sendBatch(batch);
    }
    this.#isSending = false;
  }

  /** Removes old rows if rows were written recently. */
  async removeRows(): Promise<void> {
    if (performance.now() - this.#wroteRowAt >= ROW_CLEANUP_MS) return;
    const { owner, log } = this.#options.context;
    try {
      await owner.query(sql`delete from realtime.overflow where at < now() - ${ROW_RETENTION}::interval`);
    } catch (error) {
      log.debug({ err: error }, 'rows of large broadcasts could not be removed');
    }
  }

  async #sendBatch(batch: readonly QueuedMessage[]): Promise<void> {
    const { context, counters, envelopes, name } = this.#options;
    const { payloads: packed, rows } = pack(batch);
    const payloads = packed.map(({ channel, texts }) => ({
      channel,
      payload: envelopes.seal(channel, name, this.#nextNumber(channel), texts),
    }));
    counters.bus.add('sent', payloads.length);
    counters.bus.add('overflow', rows.length);
    try {
      if (rows.length > 0) await this.#writeRows(rows);
      await context.owner.query(sql`
          select pg_catalog.pg_notify(c, p)
          from unnest(
            ${payloads.map(({ channel }) => channel)}::text[],
            ${payloads.map(({ payload }) => payload)}::text[]) t(c, p)`);
    } catch (error) {
      context.log.debug({ err: error }, 'other instances could not be notified');
    }
  }

  async #writeRows(rows: readonly OverflowRow[]): Promise<void> {
    this.#wroteRowAt = performance.now();
    await this.#options.context.owner.query(sql`
      insert into realtime.overflow (id, body)
      select * from unnest(${rows.map(({ id }) => id)}::uuid[], ${rows.map(({ body }) => body)}::text[])`);
  }

  #nextNumber(channel: string): number {
    const number = (this.#numbers.get(channel) ?? 0) + 1;
    this.#numbers.set(channel, number);
    return number;
  }
}
