// Rate limits: token buckets in PostgreSQL, shared by all instances, one statement each; and the pause between two mails
// to one address, which is kept whether or not the address has an account.
import { createHash } from 'node:crypto';
import { networkOf } from '../lib/ip-address.ts';
import { sql, type Sql } from '../postgres/sql.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { problems } from './problem.ts';
import type { AuthSettings, LimitMode } from './settings.ts';
import type { Origin } from './audit.ts';

export type Bucket = {
  readonly name: string;
  /** Tokens that come back in `perSeconds`. */
  readonly rate: number;
  readonly perSeconds: number;
  /** Most tokens the bucket holds. */
  readonly burst: number;
};

const FIVE_MINUTES = 300;
const bucket = (name: string, rate: number, perSeconds: number, burst: number): Bucket => ({
  name,
  rate,
  perSeconds,
  burst,
});

/** docs/auth.md has the same table; a test compares them. */
export const BUCKETS = {
  signup: bucket('signup', 30, FIVE_MINUTES, 30),
  otp: bucket('otp', 30, FIVE_MINUTES, 30),
  recover: bucket('recover', 30, FIVE_MINUTES, 30),
  resend: bucket('resend', 30, FIVE_MINUTES, 30),
  userUpdate: bucket('user_update', 30, FIVE_MINUTES, 30),
  token: bucket('token', 150, FIVE_MINUTES, 30),
  refreshSession: bucket('refresh_session', 150, FIVE_MINUTES, 150),
  refreshAddress: bucket('refresh_address', 1800, FIVE_MINUTES, 600),
  verify: bucket('verify', 30, FIVE_MINUTES, 30),
  anonymous: bucket('anonymous', 30, 3600, 30),
  mfa: bucket('mfa', 15, 60, 30),
  // Wrong passwords. By account and address, so that nobody can lock somebody else out; by account alone only against
  // guessing from many addresses.
  passwordAccount: bucket('password_account', 1, 30, 10),
  passwordEverywhere: bucket('password_everywhere', 1, 30, 100),
  mfaFactor: bucket('mfa_factor', 10, 900, 10),
  mailRecipient: bucket('mail_recipient', 10, 3600, 10),
} as const satisfies Record<string, Bucket>;

const GAP_SECONDS = 60;

export type MailGapKind = 'confirmation' | 'recovery' | 'email_change' | 'reauthentication';

const ALL = 'all';
const allMails = (perHour: number): Bucket => bucket('mail_instance', perHour, 3600, perHour);
/** A single caller may use a tenth; the rest is for everybody else. */
const callersMails = (perHour: number): Bucket => {
  const share = Math.max(10, Math.ceil(perHour / 10));
  return bucket('mail_caller', share, 3600, share);
};

export type LimitSettings = Pick<AuthSettings, 'limits' | 'mailsPerHour'>;

export class Limiter {
  readonly #db: OwnerDatabase;
  readonly #settings: () => LimitSettings;

  constructor(db: OwnerDatabase, settings: () => LimitSettings) {
    this.#db = db;
    this.#settings = settings;
  }

  /** Takes a token from the bucket of the caller's address; throws when it is empty. */
  async byAddress(which: Bucket, from: Origin): Promise<void> {
    if (countsAddress(this.#settings().limits, from)) await this.#take(which, keyOf(from), from);
  }

  /**
   * Takes a token from the bucket of a user, session or account; throws when it is empty. Counted wherever the request
   * comes from: behind a proxy, this machine is everybody.
   */
  async byKey(which: Bucket, key: string, from: Origin): Promise<void> {
    if (this.#settings().limits !== 'off') await this.#take(which, key, from);
  }

  /** Returns a token that `byKey` took. Limits on failures count every attempt first, so that parallel ones count too. */
  async refund(which: Bucket, key: string): Promise<void> {
    if (this.#settings().limits !== 'off') await this.#giveBack(which, key);
  }

  /** Returns a token that `byAddress` took. */
  async refundAddress(which: Bucket, from: Origin): Promise<void> {
    if (countsAddress(this.#settings().limits, from)) await this.#giveBack(which, keyOf(from));
  }

  async #take(which: Bucket, key: string, from: Origin): Promise<void> {
    const wait = await takeToken(this.#db, which, key, from.now);
    if (wait > 0) throw problems.tooManyRequests(wait);
  }

  async #giveBack(which: Bucket, key: string): Promise<void> {
    await this.#db.query(sql`
      update auth.rate_limits set tokens = least(${which.burst}::float8, tokens + 1)
      where bucket = ${which.name} and key = ${hashed(key)}`);
  }

  /**
   * Charges a request for a mail: the pause since the last mail of that kind, the recipient's limit, and the caller's
   * share. Charged whether or not the address has an account, and in the transaction that queues the mail, so that a
   * refused request costs nothing. The pause belongs to `gapOf`: the mailbox, or the account whose address changes.
   */
  async mailRequest(
    db: Queryable,
    from: Origin,
    kind: MailGapKind,
    to: string,
    gapOf: string = to,
  ): Promise<void> {
    const { limits, mailsPerHour } = this.#settings();
    if (limits !== 'off') await checkMailGap(db, kind, gapOf, from.now);
    if (limits === 'off') return;
    const instance = allMails(mailsPerHour);
    let wait = await takeToken(db, BUCKETS.mailRecipient, to, from.now);
    if (wait === 0 && countsAddress(limits, from)) {
      wait =
        (await takeToken(db, callersMails(mailsPerHour), keyOf(from), from.now)) ||
        // Only read: the token is taken when a mail is queued, not for asking.
        secondsUntilOne(instance, await readTokens(db, instance, ALL, from.now));
    }
    if (wait > 0) throw problems.tooManyMails(wait);
  }

  /** Takes a token from the limit of the whole instance, for a mail that goes out. */
  async mailSent(db: Queryable, from: Origin): Promise<void> {
    const { limits, mailsPerHour } = this.#settings();
    if (!countsAddress(limits, from)) return;
    const wait = await takeToken(db, allMails(mailsPerHour), ALL, from.now);
    if (wait > 0) throw problems.tooManyMails(wait);
  }

  /** Redeeming a mailed secret shows who owns the mailbox: the next mail of that kind need not wait. */
  async endMailGap(db: Queryable, kind: MailGapKind, email: string): Promise<void> {
    await db.query(
      sql`delete from auth.email_throttle where email_hash = ${hashed(email)} and kind = ${kind}`,
    );
  }
}

/** A program of this machine is spared only where it is proven that nobody stands behind it. */
function countsAddress(mode: LimitMode, { client }: Origin): boolean {
  return mode === 'on' || (mode === 'auto' && client.via !== 'local');
}

/** Whoever has one IPv6 address has the 2^64 of its network. */
function keyOf({ client }: Origin): string {
  return networkOf(client.address);
}

async function checkMailGap(db: Queryable, kind: MailGapKind, email: string, now: Date): Promise<void> {
  const cutoff = new Date(now.getTime() - GAP_SECONDS * 1000);
  const emailHash = hashed(email);
  const [row] = await db.query(sql`
    insert into auth.email_throttle as t (email_hash, kind, sent_at) values (${emailHash}, ${kind}, ${now})
    on conflict (email_hash, kind) do update set sent_at = excluded.sent_at where t.sent_at <= ${cutoff}
    returning 1`);
  if (row) return;
  const [last] = await db.query<{ sent_at: Date }>(
    sql`select sent_at from auth.email_throttle where email_hash = ${emailHash} and kind = ${kind}`,
  );
  const passed = last ? (now.getTime() - last.sent_at.getTime()) / 1000 : 0;
  throw problems.mailTooSoon(Math.max(1, Math.ceil(GAP_SECONDS - passed)));
}

/** Takes a token. 0 when there was one, else the seconds until there is; then nothing was changed. */
async function takeToken(db: Queryable, which: Bucket, key: string, now: Date): Promise<number> {
  const refilled = refill(which, now);
  const [taken] = await db.query(sql`
    insert into auth.rate_limits as r (bucket, key, tokens, updated_at)
    values (${which.name}, ${hashed(key)}, ${which.burst - 1}::float8, ${now})
    on conflict (bucket, key) do update
      set tokens = ${refilled} - 1, updated_at = greatest(r.updated_at, excluded.updated_at)
      where ${refilled} >= 1
    returning 1`);
  // At least 1: a token may have come back since, but this request was refused.
  return taken ? 0 : Math.max(1, secondsUntilOne(which, await readTokens(db, which, key, now)));
}

async function readTokens(db: Queryable, which: Bucket, key: string, now: Date): Promise<number> {
  const [row] = await db.query<{ tokens: number }>(sql`
    select ${refill(which, now)} as tokens from auth.rate_limits r
    where r.bucket = ${which.name} and r.key = ${hashed(key)}`);
  return row?.tokens ?? which.burst;
}

function refill(which: Bucket, now: Date): Sql {
  return sql`least(${which.burst}::float8, r.tokens + ${which.rate / which.perSeconds}::float8
    * greatest(0, extract(epoch from ${now}::timestamptz - r.updated_at))::float8)`;
}

function secondsUntilOne(which: Bucket, tokens: number): number {
  return tokens >= 1 ? 0 : Math.max(1, Math.ceil(((1 - tokens) * which.perSeconds) / which.rate));
}

/** Email and IP addresses are not kept readable in a table of counters. */
function hashed(key: string): string {
  return createHash('sha256').update(key).digest('base64url');
}
