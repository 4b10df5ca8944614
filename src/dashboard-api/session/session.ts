// Dashboard sessions, stored in PostgreSQL so that every instance can find them. Only a digest of the token is
// stored, keyed by the secret key and the keyring: a new secret key ends every session at once.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { databaseFailure } from '../../postgres/pg-error.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { databaseFailed } from '../problem.ts';

const COOKIE = 'svc_dashboard';
/** Time after its last use at which a session ends. `MAX_AGE_SECONDS` limits it in any case. */
const IDLE_SECONDS = 12 * 3600;
const MAX_AGE_SECONDS = 7 * 24 * 3600;
/** Minimum time between two updates of `last_seen_at`. */
const TOUCH_AFTER_MS = 60_000;
const TOKEN_BYTES = 32;
const TOKEN_FORM = /^[\w-]{43}$/;

export type DashboardSession = {
  readonly hash: Buffer;
  /** Token that every change must send as `x-svc-csrf`. */
  readonly csrf: string;
};

export class DashboardSessions {
  readonly #owner: OwnerDatabase;
  readonly #now: () => Date;
  readonly #hash: (token: string) => Buffer;
  readonly #csrf: (hash: Buffer) => string;

  constructor({ owner, keyring, keys, now }: Pick<DashboardContext, 'owner' | 'keyring' | 'keys' | 'now'>) {
    this.#owner = owner;
    this.#now = now;
    const digest = createHash('sha256').update(keys.secret).digest('base64url');
    const tokenMac = keyring.mac('dashboard session');
    const csrfMac = keyring.mac('dashboard csrf');
    this.#hash = (token) => tokenMac(`${digest} ${token}`);
    this.#csrf = (hash) => csrfMac(hash.toString('base64url')).toString('base64url');
  }

  async open(): Promise<{ token: string; session: DashboardSession }> {
    const token = randomBytes(TOKEN_BYTES).toString('base64url');
    const hash = this.#hash(token);
    const now = this.#now();
    await this.#owner.query(sql`delete from svc_meta.dashboard_sessions where expires_at <= ${now}`);
    await this.#owner.query(sql`
      insert into svc_meta.dashboard_sessions (token_hash, created_at, last_seen_at, expires_at)
      values (${hash}, ${now}, ${now}, ${after(now, IDLE_SECONDS)})`);
    return { token, session: { hash, csrf: this.#csrf(hash) } };
  }

  async find(token: string | undefined): Promise<DashboardSession | undefined> {
    if (token === undefined) return undefined;
    try {
      return await this.#find(token);
    } catch (error) {
      const failure = databaseFailure(error);
      throw failure ? databaseFailed(failure, error) : error;
    }
  }

  async end({ hash }: DashboardSession): Promise<void> {
    await this.#owner.query(sql`delete from svc_meta.dashboard_sessions where token_hash = ${hash}`);
  }

  async #find(token: string): Promise<DashboardSession | undefined> {
    const hash = this.#hash(token);
    const now = this.#now();
    const [row] = await this.#owner.query<{ created_at: Date; last_seen_at: Date }>(
      sql`select created_at, last_seen_at from svc_meta.dashboard_sessions
        where token_hash = ${hash} and expires_at > ${now}`,
      'dashboard_session',
    );
    if (!row) return undefined;
    if (now.getTime() - row.last_seen_at.getTime() > TOUCH_AFTER_MS) {
      const last = after(row.created_at, MAX_AGE_SECONDS);
      await this.#owner.query(sql`
        update svc_meta.dashboard_sessions
        set last_seen_at = ${now}, expires_at = least(${after(now, IDLE_SECONDS)}::timestamptz, ${last}::timestamptz)
        where token_hash = ${hash}`);
    }
    return { hash, csrf: this.#csrf(hash) };
  }
}

/** Returns the session token of a Cookie header, or undefined if it is missing or malformed. */
export function readCookie(header: string | undefined): string | undefined {
  for (const pair of (header ?? '').split(';')) {
    const at = pair.indexOf('=');
    if (at < 0 || pair.slice(0, at).trim() !== COOKIE) continue;
    const value = pair.slice(at + 1).trim();
    if (TOKEN_FORM.test(value)) return value;
  }
  return undefined;
}

/** `secure`: true if the browser uses https. Over plain http the browser would drop a secure cookie. */
export function writeCookie(token: string | null, secure: boolean): string {
  const life = token === null ? 0 : IDLE_SECONDS;
  const attributes = `Path=/dashboard; Max-Age=${life}; HttpOnly; SameSite=Strict`;
  return `${COOKIE}=${token ?? ''}; ${attributes}${secure ? '; Secure' : ''}`;
}

export function isCsrfToken(presented: string | string[] | undefined, { csrf }: DashboardSession): boolean {
  if (typeof presented !== 'string') return false;
  const given = Buffer.from(presented);
  const wanted = Buffer.from(csrf);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

function after(time: Date, seconds: number): Date {
  return new Date(time.getTime() + seconds * 1000);
}
