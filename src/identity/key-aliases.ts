// Keys of a former product that are temporarily accepted as the publishable key, so that existing clients keep working
// until they are replaced. Only digests are stored. No alias has the rights of the secret key.
import { createHash } from 'node:crypto';
import { DAY_MS } from '../lib/duration.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { looksLikeKey } from './api-key.ts';
import { SIGNING_KEYS_CHANNEL } from './signing-keys.ts';

/** Public properties of an alias. */
export type KeyAliasSummary = {
  /** Beginning of the digest. */
  readonly id: string;
  readonly accept_until: Date;
  readonly is_over: boolean;
  /** `YYYY-MM-DD`. Null if the alias was never used. */
  readonly last_used_on: string | null;
};

const MIN_KEY_LENGTH = 20;
const ID_LENGTH = 12;

export class KeyAliases {
  readonly #db: OwnerDatabase;
  readonly #now: () => number;
  readonly #onChange: () => void;
  /** End of acceptance in milliseconds since 1970, keyed by the digest of the key. */
  #until: ReadonlyMap<string, number> = new Map();
  /** Digests of presented keys, by their text. Not more than there are aliases. */
  readonly #seen = new Map<string, string>();
  /** Recorded day of the last use, by digest. */
  readonly #noted = new Map<string, number>();

  /**
   * `onChange` is called after aliases were added or removed. Caches of verified tokens must then be cleared.
   */
  constructor(
    db: OwnerDatabase,
    { now = () => Date.now(), onChange = () => {} }: { now?: () => number; onChange?: () => void } = {},
  ) {
    this.#db = db;
    this.#now = now;
    this.#onChange = onChange;
  }

  /** Returns true if the text is an alias that has not expired. */
  accepts(text: string): boolean {
    if (this.#until.size === 0) return false;
    const digest = this.#seen.get(text) ?? sha256Hex(text);
    const until = this.#until.get(digest);
    if (until === undefined || until <= this.#now()) return false;
    this.#seen.set(text, digest);
    this.#note(digest);
    return true;
  }

  async load(): Promise<void> {
    const rows = await this.#db.query<{ digest: string; until: number }>(sql`
      select encode(digest, 'hex') as digest, extract(epoch from accept_until)::float8 * 1000 as until
      from svc_meta.key_alias where accept_until > now()`);
    const isSame =
      rows.length === this.#until.size &&
      rows.every(({ digest, until }) => this.#until.get(digest) === until);
    if (isSame) return;
    this.#until = new Map(rows.map(({ digest, until }) => [digest, until]));
    this.#seen.clear();
    this.#onChange();
  }

  /** Records at most once a day that a client used the alias. */
  #note(digest: string): void {
    const day = Math.floor(this.#now() / DAY_MS);
    if (this.#noted.get(digest) === day) return;
    this.#noted.set(digest, day);
    this.#db
      .query(sql`
        update svc_meta.key_alias set last_used_on = current_date
        where digest = decode(${digest}, 'hex') and last_used_on is distinct from current_date`)
      // The next use records it.
      .catch(() => this.#noted.delete(digest));
  }

  /**
   * Accepts a key for a number of days, and replaces the end of a known key. Throws a Problem unless it is a
   * publishable key of a Supabase project.
   */
  async add(key: string, days: number): Promise<KeyAliasSummary> {
    refuseOthers(key);
    await this.#change(sql`
      insert into svc_meta.key_alias (digest, accept_until)
      values (decode(${sha256Hex(key)}, 'hex'), now() + make_interval(days => ${days}))
      on conflict (digest) do update set accept_until = excluded.accept_until`);
    const id = sha256Hex(key).slice(0, ID_LENGTH);
    const added = (await this.list()).find((alias) => alias.id === id);
    if (!added) throw new Error('the alias is gone');
    return added;
  }

  async list(): Promise<KeyAliasSummary[]> {
    return await this.#db.query<KeyAliasSummary>(sql`
      select left(encode(digest, 'hex'), ${ID_LENGTH}::int) as id, accept_until, accept_until <= now() as is_over,
        last_used_on::text
      from svc_meta.key_alias order by accept_until, digest`);
  }

  async remove(id: string): Promise<void> {
    const gone = await this.#change(sql`
      delete from svc_meta.key_alias where left(encode(digest, 'hex'), ${ID_LENGTH}::int) = ${id} returning 1`);
    if (gone > 0) return;
    throw new Problem('no_such_key', 404, `There is no alias ${id}`, {
      hint: '`svc keys alias list` lists the aliases.',
    });
  }

  async #change(statement: Parameters<OwnerDatabase['query']>[0]): Promise<number> {
    const rows = await this.#db.transaction(async (transaction) => {
      const changed = await transaction.query(statement);
      await transaction.query(sql`select pg_notify(${SIGNING_KEYS_CHANNEL}, '')`);
      return changed.length;
    });
    await this.load();
    return rows;
  }
}

/**
 * Rejects keys with more rights than `anon`. They are used by servers, where they can be replaced, and must not work
 * by mistake.
 */
function refuseOthers(key: string): void {
  const hint =
    'Only the publishable key of a Supabase project can be an alias: its anon key (a JWT) or sb_publishable_….';
  if (looksLikeKey(key))
    throw new Problem('bad_key_alias', 400, 'This is a key of svc, not an old one', { hint });
  if (key.startsWith('sb_secret_') || readRole(key) === 'service_role') {
    throw new Problem(
      'bad_key_alias',
      400,
      'This key bypasses policies, so it is never accepted as an alias',
      {
        hint: 'Give the servers that use it the secret key of svc.',
      },
    );
  }
  const isPublishable = key.startsWith('sb_publishable_') && key.length >= MIN_KEY_LENGTH && !/\s/.test(key);
  if (!isPublishable && readRole(key) !== 'anon')
    throw new Problem('bad_key_alias', 400, 'This is not a publishable key', { hint });
}

/** Returns the role of a JWT without verifying it, because the operator is trusted to enter a valid key. */
function readRole(key: string): unknown {
  const parts = key.split('.');
  if (parts.length !== 3) return undefined;
  try {
    const payload: unknown = JSON.parse(Buffer.from(parts[1] ?? '', 'base64url').toString());
    return typeof payload === 'object' && payload !== null && 'role' in payload ? payload.role : undefined;
  } catch {
    return undefined;
  }
}

const sha256Hex = (text: string): string => createHash('sha256').update(text).digest('hex');
