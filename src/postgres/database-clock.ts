// The database's time, which all instances share. One instance issues tokens and sessions and another checks them.
// With different clocks, a fresh token would be in the future and a valid refresh would look like a replay.
import type { Log } from '../log/log.ts';
import type { Queryable } from './owner-database.ts';
import { sql } from './sql.ts';

const INTERVAL_MS = 30_000;
const SAMPLES = 3;
/** Below this the machine's own clock is good enough, without the jitter of measuring. */
const NOTICEABLE_MS = 1_000;
const WORTH_A_WARNING_MS = 10_000;

export class DatabaseClock {
  readonly #db: Queryable;
  readonly #log: Log;
  readonly #local: () => number;
  #offsetMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(db: Queryable, log: Log, local: () => number = Date.now) {
    this.#db = db;
    this.#log = log;
    this.#local = local;
  }

  readonly now = (): Date => new Date(this.#local() + this.#offsetMs);

  /** Measures the offset, and repeats that until `close`. */
  async start(): Promise<void> {
    await this.measure();
    this.#timer = setInterval(() => {
      // While the database is away, the last offset applies.
      this.measure().catch(() => {});
    }, INTERVAL_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async measure(): Promise<void> {
    let best = { offset: 0, roundTrip: Infinity };
    for (let sample = 0; sample < SAMPLES; sample++) {
      const sent = this.#local();
      const [row] = await this.#db.query<{ ms: number }>(
        sql`select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms`,
      );
      const received = this.#local();
      const roundTrip = received - sent;
      if (row && roundTrip < best.roundTrip) best = { offset: row.ms - (sent + received) / 2, roundTrip };
    }
    const offset = Math.abs(best.offset) > NOTICEABLE_MS + best.roundTrip ? Math.round(best.offset) : 0;
    const moved = Math.abs(offset - this.#offsetMs);
    this.#offsetMs = offset;
    if (moved > WORTH_A_WARNING_MS && offset !== 0) {
      this.#log.warn(
        { offsetSeconds: Math.round(offset / 1000) },
        'the clock of this machine and the one of the database differ; the database’s is used',
      );
    }
  }
}
