// How often something may be done. Token buckets in PostgreSQL, one statement each, so that several instances
// share them; and the waiting time between two mails to one address, kept whether or not the address is known.
import { createHash } from 'node:crypto';
import { sql, type Sql } from '../postgres/sql.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { tooManyMails, tooManyRequests } from './problem.ts';
import type { LimitMode } from './settings.ts';

export type Bucket = {
  readonly name: string;
  /** What comes back, and in which time. */
  readonly rate: number;
  readonly perSeconds: number;
  /** How much can be saved up. */
  readonly burst: number;
  /** Counted for callers on this very machine too. */
  readonly always?: true;
};

/** Who asks, and when. */
export type Origin = { readonly ip: string; readonly now: Date };

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
  // Wrong passwords. By account and address, so that nobody can lock another person out from elsewhere; by account
  // alone only against guessing from many addresses.
  passwordAccount: bucket('password_account', 1, 30, 10),
  passwordEverywhere: bucket('password_everywhere', 1, 30, 100),
  mfaFactor: { ...bucket('mfa_factor', 10, 900, 10), always: true },
  mailRecipient: bucket('mail_recipient', 10, 3600, 10),
} as const satisfies Record<string, Bucket>;

const GAP_SECONDS = 60;

export type MailGapKind = 'confirmation' | 'recovery' | 'email_change' | 'reauthentication';

export type MailRequest = {
  readonly kind: MailGapKind;
  /** Whose waiting time it is: the mailbox, or the account whose address changes. */
  readonly gapOf: string;
  readonly to: string;
};

const ALL = 'all';
const allMails = (perHour: number): Bucket => bucket('mail_instance', perHour, 3600, perHour);
/** One caller uses up a tenth: the rest stays for everybody else. */
const callersMails = (perHour: number): Bucket => {
  const share = Math.max(10, Math.ceil(perHour / 10));
  return bucket('mail_caller', share, 3600, share);
};

export class Limiter {
  readonly #db: OwnerDatabase;
  readonly #mode: () => LimitMode;

  constructor(db: OwnerDatabase, mode: () => LimitMode) {
    this.#db = db;
    this.#mode = mode;
  }

  /** Takes one from the bucket of the caller's address; throws when it is empty. */
  async byAddress(which: Bucket, from: Origin): Promise<void> {
    await this.byKey(which, from.ip, from);
  }

  /** Takes one from the bucket of a user, session or account; throws when it is empty. */
  async byKey(which: Bucket, key: string, from: Origin): Promise<void> {
    if (!this.#counts(which, from)) return;
    const wait = await takeToken(this.#db, which, key, from.now);
    if (wait > 0) throw tooManyRequests(wait);
  }

  /** Gives back what was taken ahead: limits on failures count every try first, so that tries in parallel count. */
  async refund(which: Bucket, key: string, from: Origin): Promise<void> {
    if (!this.#counts(which, from)) return;
    await this.#db.query(sql`
      update auth.rate_limits set tokens = least(${which.burst}::float8, tokens + 1)
      where bucket = ${which.name} and key = ${hashed(key)}`);
  }

  #counts(which: Bucket, from: Origin): boolean {
    const mode = this.#mode();
    if (mode === 'off') return false;
    return mode === 'on' || which.always === true || !isLoopback(from.ip);
  }

  /**
   * What a request for a mail costs: the waiting time between two of a kind to an address, the allowance of that
   * mailbox, and the caller's share. Asked whether or not anybody has the address, and in the transaction that queues
   * the mail, so that a request that is refused costs nothing.
   */
  async mailRequest(db: Queryable, order: MailRequest, from: Origin, mailsPerHour: number): Promise<void> {
    await this.#mailGap(db, order.kind, order.gapOf, from.now);
    if (!this.#countsMails(from)) return;
    const wait =
      (await takeToken(db, BUCKETS.mailRecipient, order.to, from.now)) ||
      (await takeToken(db, callersMails(mailsPerHour), from.ip, from.now)) ||
      // Only looked at: what empties it is the mail that is queued, not the question for one.
      secondsUntilOne(allMails(mailsPerHour), await readTokens(db, allMails(mailsPerHour), ALL, from.now));
    if (wait > 0) throw tooManyMails(wait, false);
  }

  /** Takes one from the instance's own allowance, for a mail that goes out. */
  async mailSent(db: Queryable, from: Origin, mailsPerHour: number): Promise<void> {
    if (!this.#countsMails(from)) return;
    const wait = await takeToken(db, allMails(mailsPerHour), ALL, from.now);
    if (wait > 0) throw tooManyMails(wait, false);
  }

  #countsMails(from: Origin): boolean {
    const mode = this.#mode();
    return mode === 'on' || (mode === 'auto' && !isLoopback(from.ip));
  }

  async #mailGap(db: Queryable, kind: MailGapKind, email: string, now: Date): Promise<void> {
    if (this.#mode() === 'off') return;
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
    throw tooManyMails(Math.max(1, Math.ceil(GAP_SECONDS - passed)), true);
  }

  /** Whoever redeemed a mail's secret holds the mailbox: the next mail of that kind need not wait. */
  async endMailGap(db: Queryable, kind: MailGapKind, email: string): Promise<void> {
    await db.query(
      sql`delete from auth.email_throttle where email_hash = ${hashed(email)} and kind = ${kind}`,
    );
  }
}

/** 0 when one was taken, else the seconds until there is one. Refusing changes nothing. */
async function takeToken(db: Queryable, which: Bucket, key: string, now: Date): Promise<number> {
  const refilled = refill(which, now);
  const [taken] = await db.query(sql`
    insert into auth.rate_limits as r (bucket, key, tokens, updated_at)
    values (${which.name}, ${hashed(key)}, ${which.burst - 1}::float8, ${now})
    on conflict (bucket, key) do update
      set tokens = ${refilled} - 1, updated_at = greatest(r.updated_at, excluded.updated_at)
      where ${refilled} >= 1
    returning 1`);
  // Somebody may have given one back since: it was refused all the same.
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

/** Addresses of people are not kept readable in a table of counters. */
function hashed(key: string): string {
  return createHash('sha256').update(key).digest('base64url');
}

export function isLoopback(ip: string): boolean {
  return ip === '::1' || ip.startsWith('127.') || ip.startsWith('::ffff:127.');
}
