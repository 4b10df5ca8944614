// Rate limits: token buckets in PostgreSQL, shared by all instances, with one statement per request. Also the pause
// between two mails to one address, limit applies whether or not the address has an account.
import { createHash } from 'node:crypto';
import { clientNetwork } from '../lib/ip-address.ts';
import { sql, type Sql } from '../postgres/sql.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { problems } from './problem.ts';
import type { AuthSettings, LimitMode } from './settings.ts';
import type { Origin } from './audit.ts';

export type Bucket = {
  readonly name: string;
  /** Tokens that are refilled in `perSeconds`. */
  readonly rate: number;
  readonly perSeconds: number;
  /** Maximum number of tokens in the bucket. */
  readonly burst: number;
  /** Tokens that this caller must leave for others. */
  readonly reserved?: number;
};

const FIVE_MINUTES = 300;
const bucket = (name: string, rate: number, perSeconds: number, burst: number): Bucket => ({
  name,
  rate,
  perSeconds,
  burst,
});

/** docs/auth.md has the same table. A test compares them. */
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
  // Wrong passwords. The limit by account and address prevents locking other people out. The limit by account alone
  // only stops guessing from many addresses.
  passwordAccount: bucket('password_account', 1, 30, 10),
  passwordEverywhere: bucket('password_everywhere', 1, 30, 100),
  mfaFactor: bucket('mfa_factor', 10, 900, 10),
  // Wrong mailed codes. The second bucket never rejects the network that requested the code; see
  // `codeAttempt`.
  codeNetwork: bucket('code_network', 10, FIVE_MINUTES, 10),
  codeMailbox: bucket('code_mailbox', 100, 3600, 100),
  mailRecipient: bucket('mail_recipient', 10, 3600, 10),
} as const satisfies Record<string, Bucket>;

const GAP_SECONDS = 60;
/** Mails per mailbox that are reserved for networks that recently redeemed a mail of it. */
const RESERVED_MAILS = 2;
const MAX_TRUSTED_NETWORKS = 5;
export const TRUSTED_NETWORK_DAYS = 30;
const DAY_MS = 86_400_000;

export type MailGapKind = 'confirmation' | 'recovery' | 'email_change' | 'reauthentication';

const ALL = 'all';
const allMails = (perHour: number): Bucket => bucket('mail_instance', perHour, 3600, perHour);
/** Limits a single caller to a tenth. The rest is for other callers. */
const mailsPerCaller = (perHour: number): Bucket => {
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

  /** Takes a token from the bucket of the caller's address. Throws if the bucket is empty. */
  async byAddress(limit: Bucket, from: Origin): Promise<void> {
    if (countsAddress(this.#settings().limits, from)) await this.#consume(limit, networkKey(from), from);
  }

  /**
   * Takes a token from the bucket of a user, session or account. Throws if the bucket is empty. Counts local
   * requests too:
   * behind a proxy, all requests come from this machine.
   */
  async byKey(limit: Bucket, key: string, from: Origin): Promise<void> {
    if (this.#settings().limits !== 'off') await this.#consume(limit, key, from);
  }

  /**
   * Returns a token that `byKey` took. Limits on failures count every attempt first, so that parallel ones
   * count too.
   */
  async refund(limit: Bucket, key: string): Promise<void> {
    if (this.#settings().limits !== 'off') await this.#refund(limit, key);
  }

  /** Returns a token that `byAddress` took. */
  async refundAddress(limit: Bucket, from: Origin): Promise<void> {
    if (countsAddress(this.#settings().limits, from)) await this.#refund(limit, networkKey(from));
  }

  /**
   * Counts a typed code before it is checked. Throws if this network has entered too many wrong codes for
   * this mailbox.
   * `onlyRequester` is true if all networks together entered too many wrong codes: then only the network that
   * requested a
   * code may enter it. `refund` returns the tokens after a right code.
   */
  async codeAttempt(mailbox: string, from: Origin): Promise<CodeAttempt> {
    if (this.#settings().limits === 'off') return { onlyRequester: false, refund: () => Promise.resolve() };
    const here = `${mailbox} ${clientNetwork(from.client.address)}`;
    await this.#consume(BUCKETS.codeNetwork, here, from);
    const wait = await consumeToken(this.#db, BUCKETS.codeMailbox, mailbox, from.now);
    return {
      onlyRequester: wait > 0,
      refund: async () => {
        await this.#refund(BUCKETS.codeNetwork, here);
        if (wait === 0) await this.#refund(BUCKETS.codeMailbox, mailbox);
      },
    };
  }

  async #consume(limit: Bucket, key: string, from: Origin): Promise<void> {
    const wait = await consumeToken(this.#db, limit, key, from.now);
    if (wait > 0) throw problems.tooManyRequests(wait);
  }

  async #refund(limit: Bucket, key: string): Promise<void> {
    await this.#db.query(sql`
      update auth.rate_limits set tokens = least(${limit.burst}::float8, tokens + 1)
      where bucket = ${limit.name} and key = ${hashed(key)}`);
  }

  /**
   * Charges a request for a mail: the pause since the last mail of that kind, the recipient's limit, and the
   * caller's
   * share. Charges whether or not the address has an account. Runs in the transaction that queues the mail,
   * so that a
   * rejected request costs nothing. The pause belongs to the caller's network and to `gapOf`: the mailbox, or
   * the account
   * whose address changes. So a stranger cannot make the owner wait.
   */
  async mailRequest(
    db: Queryable,
    from: Origin,
    kind: MailGapKind,
    to: string,
    gapOf: string = to,
  ): Promise<void> {
    const { limits, mailsPerHour } = this.#settings();
    if (limits === 'off') return;
    await checkMailGap(db, from, kind, gapOf);
    const instance = allMails(mailsPerHour);
    // Reauthentication needs a session, so its caller is the owner.
    const isOwner = (await isTrustedNetwork(db, to, from)) || kind === 'reauthentication';
    const recipient = isOwner
      ? BUCKETS.mailRecipient
      : { ...BUCKETS.mailRecipient, reserved: RESERVED_MAILS };
    let wait = await consumeToken(db, recipient, to, from.now);
    if (wait === 0 && countsAddress(limits, from)) {
      wait =
        (await consumeToken(db, mailsPerCaller(mailsPerHour), networkKey(from), from.now)) ||
        // Reads the bucket only: the token is taken when a mail is queued, not when it is requested.
        secondsUntilToken(instance, await readTokens(db, instance, ALL, from.now));
    }
    if (wait > 0) throw problems.tooManyMails(wait);
  }

  /** Takes a token from the limit of the whole instance, for a mail that is queued. */
  async mailSent(db: Queryable, from: Origin): Promise<void> {
    const { limits, mailsPerHour } = this.#settings();
    if (!countsAddress(limits, from)) return;
    const wait = await consumeToken(db, allMails(mailsPerHour), ALL, from.now);
    if (wait > 0) throw problems.tooManyMails(wait);
  }

  /**
   * Ends the pause. A redeemed secret shows who owns the mailbox, so the next mail of that kind need not
   * wait.
   */
  async endMailGap(db: Queryable, kind: MailGapKind, email: string): Promise<void> {
    await db.query(sql`
      delete from auth.email_throttle where email_hash = ${hashed(email)} and split_part(kind, ' ', 1) = ${kind}`);
  }

  /** Records that a mail to this mailbox was redeemed from this network. */
  async trustNetwork(db: Queryable, from: Origin, mailbox: string): Promise<void> {
    const emailHash = hashed(mailbox);
    await db.query(sql`
      insert into auth.trusted_networks (email_hash, network_hash, seen_at)
      values (${emailHash}, ${networkHash(from)}, ${from.now})
      on conflict (email_hash, network_hash) do update set seen_at = excluded.seen_at`);
    await db.query(sql`
      delete from auth.trusted_networks where email_hash = ${emailHash} and network_hash in (
        select network_hash from auth.trusted_networks where email_hash = ${emailHash}
        order by seen_at desc, network_hash offset ${MAX_TRUSTED_NETWORKS})`);
  }
}

export type CodeAttempt = {
  readonly onlyRequester: boolean;
  readonly refund: () => Promise<void>;
};

/** Identifies the network of a client without storing its address. */
export function networkHash({ client }: Origin): string {
  return hashed(clientNetwork(client.address));
}

async function isTrustedNetwork(db: Queryable, mailbox: string, from: Origin): Promise<boolean> {
  const since = new Date(from.now.getTime() - TRUSTED_NETWORK_DAYS * DAY_MS);
  const [row] = await db.query(sql`
    select 1 from auth.trusted_networks
    where email_hash = ${hashed(mailbox)} and network_hash = ${networkHash(from)} and seen_at > ${since}`);
  return row !== undefined;
}

/** Returns whether limits by address apply. `auto` exempts a local program only if it is not a proxy. */
function countsAddress(mode: LimitMode, { client }: Origin): boolean {
  return mode === 'on' || (mode === 'auto' && client.via !== 'local');
}

/** Returns the network of the client: the owner of one IPv6 address has all 2^64 addresses of its network. */
function networkKey({ client }: Origin): string {
  return clientNetwork(client.address);
}

async function checkMailGap(db: Queryable, from: Origin, kind: MailGapKind, email: string): Promise<void> {
  const { now } = from;
  const kindHere = `${kind} ${networkHash(from)}`;
  const cutoff = new Date(now.getTime() - GAP_SECONDS * 1000);
  const emailHash = hashed(email);
  const [row] = await db.query(sql`
    insert into auth.email_throttle as t (email_hash, kind, sent_at) values (${emailHash}, ${kindHere}, ${now})
    on conflict (email_hash, kind) do update set sent_at = excluded.sent_at where t.sent_at <= ${cutoff}
    returning 1`);
  if (row) return;
  const [last] = await db.query<{ sent_at: Date }>(
    sql`select sent_at from auth.email_throttle where email_hash = ${emailHash} and kind = ${kindHere}`,
  );
  const passed = last ? (now.getTime() - last.sent_at.getTime()) / 1000 : 0;
  throw problems.mailTooSoon(Math.max(1, Math.ceil(GAP_SECONDS - passed)));
}

/** Takes a token and returns 0, or changes nothing and returns the seconds until there is a token. */
async function consumeToken(db: Queryable, limit: Bucket, key: string, now: Date): Promise<number> {
  const refilled = refill(limit, now);
  const needed = 1 + (limit.reserved ?? 0);
  const [taken] = await db.query(sql`
    insert into auth.rate_limits as r (bucket, key, tokens, updated_at)
    values (${limit.name}, ${hashed(key)}, ${limit.burst - 1}::float8, ${now})
    on conflict (bucket, key) do update
      set tokens = ${refilled} - 1, updated_at = greatest(r.updated_at, excluded.updated_at)
      where ${refilled} >= ${needed}::float8
    returning 1`);
  // At least 1: a token may have been refilled since, but this request was rejected.
  return taken ? 0 : Math.max(1, secondsUntilToken(limit, await readTokens(db, limit, key, now)));
}

async function readTokens(db: Queryable, limit: Bucket, key: string, now: Date): Promise<number> {
  const [row] = await db.query<{ tokens: number }>(sql`
    select ${refill(limit, now)} as tokens from auth.rate_limits r
    where r.bucket = ${limit.name} and r.key = ${hashed(key)}`);
  return row?.tokens ?? limit.burst;
}

function refill(limit: Bucket, now: Date): Sql {
  return sql`least(${limit.burst}::float8, r.tokens + ${limit.rate / limit.perSeconds}::float8
    * greatest(0, extract(epoch from ${now}::timestamptz - r.updated_at))::float8)`;
}

function secondsUntilToken(limit: Bucket, tokens: number): number {
  const missing = 1 + (limit.reserved ?? 0) - tokens;
  return missing <= 0 ? 0 : Math.max(1, Math.ceil((missing * limit.perSeconds) / limit.rate));
}

/** Hashes a key, so that the table of counters does not contain readable email and IP addresses. */
function hashed(key: string): string {
  return createHash('sha256').update(key).digest('base64url');
}
