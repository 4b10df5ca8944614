// The time that all instances share. Tokens, sessions and limits are written by one instance and judged by another;
// when the clocks of their machines are apart, fresh tokens come from the future and an honest refresh looks like a
// stolen token used again. The database is the one clock they have in common.
import type { Log } from '../log/log.ts';
import type { Queryable } from './owner-database.ts';
import { sql } from './sql.ts';

const INTERVAL_MS = 30_000;
const SAMPLES = 3;
/** Nearer than this the machine's own clock is as good, and spares the jitter of measuring. */
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

  /** Measures, and goes on measuring until `close`. */
  async start(): Promise<void> {
    await this.measure();
    this.#timer = setInterval(() => {
      // The database may be away; until it is back the last measure holds.
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
