// Sessions and users whose access tokens are refused before they expire, after a sign-out, a ban or a deletion. The
// rows are written in the transaction that ends the access. The notification of `session-ends.ts` makes every instance
// read them. Each process caches them in two sets, so a request needs two lookups.
import type { Log } from '../log/log.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import type { Claims } from './claims.ts';

type Ended = { session_id: string | null; user_id: string };

/** Interval for reading rows while the connection for notifications is down. */
const POLL_MS = 1_000;
/** Interval for reading all rows, which removes expired rows and adds rows of lost notifications. */
const RELOAD_EVERY_MS = 60_000;
/** Overlap of incremental reads, for rows of transactions that committed late. */
const OVERLAP_SECONDS = 180;
const MANY_ENTRIES = 100_000;

export type EndedSessionsOptions = {
  readonly db: OwnerDatabase;
  readonly log: Log;
  /** True while notifications arrive. Rows are polled otherwise. */
  readonly isListening: () => boolean;
  /**
   * If false, tokens are accepted until they expire. Rows are still read, so that a reload takes effect immediately.
   */
  readonly isEnabled: () => boolean;
};

export class EndedSessions {
  readonly #options: EndedSessionsOptions;
  #sessions = new Set<string>();
  #users = new Set<string>();
  /** Start of the last complete read. */
  #loadedAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #loading: Promise<void> | undefined;
  #loadsAgain = false;

  constructor(options: EndedSessionsOptions) {
    this.#options = options;
  }

  /** Returns true if this token must be refused although it has not expired. */
  has({ sessionId, sub }: Pick<Claims, 'sessionId' | 'sub'>): boolean {
    if (!this.#options.isEnabled()) return false;
    if (sub !== null && this.#users.has(sub)) return true;
    return sessionId !== null && this.#sessions.has(sessionId);
  }

  /** Reads all rows and starts to follow changes. Throws if the database does not respond. */
  async start(): Promise<void> {
    await this.#readAll();
    this.#timer = setInterval(() => {
      if (this.#isDue() || !this.#options.isListening()) this.wake();
    }, POLL_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Reads all rows again after a reconnection, because notifications may be lost. */
  reload(): void {
    this.#loadedAt = Number.NEGATIVE_INFINITY;
    this.wake();
  }

  /** Returns true if all rows must be read. A failed complete read stays due. */
  #isDue(): boolean {
    return performance.now() - this.#loadedAt >= RELOAD_EVERY_MS;
  }

  /** Reads new rows. While a read is running, one more is queued. */
  wake(): void {
    this.#loadsAgain = this.#loading !== undefined;
    this.#loading ??= this.#load().finally(() => {
      this.#loading = undefined;
      if (this.#loadsAgain) this.wake();
    });
  }

  /** Keeps the cached rows while the database does not respond. */
  async #load(): Promise<void> {
    try {
      if (this.#isDue()) await this.#readAll();
      else await this.#readNew();
    } catch (error) {
      this.#options.log.debug({ err: error }, 'could not read ended sessions');
    }
  }

  async #readAll(): Promise<void> {
    const startedAt = performance.now();
    const rows = await this.#options.db.query<Ended>(
      sql`select session_id, user_id from auth.ended_sessions where until > now()`,
    );
    this.#sessions = new Set(rows.flatMap(({ session_id }) => session_id ?? []));
    this.#users = new Set(rows.filter(({ session_id }) => session_id === null).map(({ user_id }) => user_id));
    this.#loadedAt = startedAt;
    if (rows.length > MANY_ENTRIES)
      this.#options.log.warn(
        { entries: rows.length },
        'many sessions ended within the lifetime of an access token; a shorter auth.jwt_expiry saves memory',
      );
  }

  /** Reads all rows of users, because they are few and lifting a ban deletes a row. */
  async #readNew(): Promise<void> {
    const rows = await this.#options.db.query<Ended>(sql`
      select session_id, user_id from auth.ended_sessions
      where until > now() and (session_id is null or ended_at > now() - make_interval(secs => ${OVERLAP_SECONDS}))`);
    for (const { session_id } of rows) if (session_id !== null) this.#sessions.add(session_id);
    this.#users = new Set(rows.filter(({ session_id }) => session_id === null).map(({ user_id }) => user_id));
  }
}
