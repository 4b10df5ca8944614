// The keys that sign and verify access tokens. They are stored in the database and shared by all instances. Private
// keys are encrypted with the keyring. A key passes through standby, in use, previously used, revoked. Only tokens of
// revoked keys are rejected, so that a rotation signs no user out.
import { createHash, randomUUID } from 'node:crypto';
import { exportJWK, generateKeyPair, importJWK, type CryptoKey, type JWK } from 'jose';
import type { SecretBox } from '../lib/secret-box.ts';
import type { DatabaseRole } from '../postgres/pool/caller-pool.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import type { KeySource, SigningKey, VerificationKey } from './token.ts';

export type KeyState = 'standby' | 'in_use' | 'previously_used' | 'revoked';
export type KeyAlgorithm = 'ES256' | 'RS256' | 'HS256';

/** Public properties of a key. */
export type KeySummary = {
  kid: string;
  alg: KeyAlgorithm;
  state: KeyState;
  imported: boolean;
  /** Roles that tokens of an imported key may have. Null means `USER_ROLES`. */
  roles: DatabaseRole[] | null;
  created_at: Date;
  promoted_at: Date | null;
  demoted_at: Date | null;
};

type KeyRow = KeySummary & { public_jwk: JWK | null; private_jwk: Buffer | null };

type LoadedKeys = {
  readonly verifying: ReadonlyMap<string, VerificationKey>;
  /** The imported shared secret, for tokens without a key id. */
  readonly withoutKid: VerificationKey | undefined;
  readonly signing: SigningKey | undefined;
  readonly publicKeys: readonly JWK[];
};

/** NOTIFY channel for changes of keys. */
export const SIGNING_KEYS_CHANNEL = 'svc_signing_keys';

/** Minimum time between two reads of the keys because of an unknown `kid`. */
const RELOAD_INTERVAL_MS = 5_000;
/** Maximum age of the keys without a notification, after which they are read again. */
const MAX_AGE_MS = 60_000;
/** Time for which a standby key is published before it signs, so that caches of clients and proxies expire. */
export const STANDBY_MINUTES = 20;
/** Time for which other instances may still sign with a demoted key, and difference between clocks. */
const REVOKE_MARGIN_SECONDS = 300;

const MIN_SHARED_SECRET_LENGTH = 32;

/** Roles of user tokens. Service tokens of a former product are excluded: they are valid for years and often leak. */
const USER_ROLES: readonly DatabaseRole[] = ['authenticated', 'anon'];

export class SigningKeys implements KeySource {
  readonly #db: OwnerDatabase;
  readonly #box: SecretBox;
  readonly #onChange: () => void;
  #keys: LoadedKeys = { verifying: new Map(), withoutKid: undefined, signing: undefined, publicKeys: [] };
  #fingerprint = '';
  #loadedAt = 0;
  #reading: Promise<void> | undefined;
  #nextReading: Promise<void> | undefined;
  /** Reload because of an unknown `kid`. */
  #searching: Promise<void> | undefined;
  #searchedAt = -RELOAD_INTERVAL_MS;

  /**
   * `onChange` is called after keys were added or removed. Caches of verified tokens must then be cleared.
   */
  constructor(db: OwnerDatabase, box: SecretBox, onChange: () => void = () => {}) {
    this.#db = db;
    this.#box = box;
    this.#onChange = onChange;
  }

  /** Reads the keys. Creates a key if this instance cannot decrypt any. */
  async load(): Promise<void> {
    await this.reload();
    if (this.#keys.signing) return;
    await this.#db.transaction(async (transaction) => {
      // Two instances that start concurrently must use the same key.
      await transaction.query(sql`lock table auth.signing_keys in exclusive mode`);
      await this.#read(transaction);
      if (this.#keys.signing) return;
      // A key of a lost keyring no longer signs. Its tokens stay valid until they expire.
      await demoteCurrent(transaction);
      await this.#insertKey(transaction, await makeKey(), 'in_use');
    });
    await this.reload();
  }

  /** Reads the keys. Called on a notification and after a reconnection. */
  async reload(): Promise<void> {
    // A running read may have started before the change, so wait for the read after it.
    if (this.#reading) {
      this.#nextReading ??= this.#reading
        .catch(() => {})
        .then(() => {
          this.#nextReading = undefined;
          return this.#startReading();
        });
      await this.#nextReading;
    } else await this.#startReading();
  }

  #startReading(): Promise<void> {
    this.#reading = this.#read(this.#db).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async findKey(kid: string | undefined): Promise<VerificationKey | undefined> {
    const age = Date.now() - this.#loadedAt;
    // Reload in the background, so that a request does not wait for a query that rarely finds a change.
    if (age > MAX_AGE_MS) this.reload().catch(() => {});
    if (kid === undefined) return this.#keys.withoutKid;
    const known = this.#keys.verifying.get(kid);
    if (known) return known;
    await this.#search();
    return this.#keys.verifying.get(kid);
  }

  /** Looks up a key that another instance created recently. Forged key ids do not each cause a reload. */
  async #search(): Promise<void> {
    if (!this.#searching) {
      if (performance.now() - this.#searchedAt < RELOAD_INTERVAL_MS) return;
      this.#searchedAt = performance.now();
      this.#searching = this.reload().finally(() => {
        this.#searching = undefined;
      });
    }
    await this.#searching;
  }

  get signing(): SigningKey {
    if (!this.#keys.signing) throw new Error('signing keys are not loaded');
    return this.#keys.signing;
  }

  /** Returns the public keys for `/.well-known/jwks.json`. */
  get publicKeys(): readonly JWK[] {
    return this.#keys.publicKeys;
  }

  async list(): Promise<KeySummary[]> {
    return await this.#db.query<KeySummary>(sql`
      select kid, alg, state, imported, roles, created_at, promoted_at, demoted_at
      from auth.signing_keys order by created_at`);
  }

  /** Adds the next key. It is published immediately and signs after `STANDBY_MINUTES` (see `advance`), or now. */
  async rotate(when: 'after-standby' | 'now'): Promise<string> {
    const made = await makeKey();
    await this.#change(async (transaction) => {
      // A standby key has not signed anything, so the new key replaces it.
      await transaction.query(sql`delete from auth.signing_keys where state = 'standby'`);
      if (when === 'now') await demoteCurrent(transaction);
      await this.#insertKey(transaction, made, when === 'now' ? 'in_use' : 'standby');
    });
    return made.kid;
  }

  /**
   * Promotes a standby key that was published long enough, and revokes keys without valid tokens. Sessions record their
   * longest token, because a key may have signed before `jwt_expiry` was lowered. Tokens of deleted sessions are
   * rejected with any key.
   */
  async advance(now: Date): Promise<boolean> {
    const promoteBefore = new Date(now.getTime() - STANDBY_MINUTES * 60_000);
    const revocable = sql`state = 'previously_used' and not imported
      and demoted_at + make_interval(secs => ${REVOKE_MARGIN_SECONDS}
        + coalesce((select max(token_seconds) from auth.sessions), 0)) <= ${now}`;
    const [due] = await this.#db.query(sql`
      select 1 from auth.signing_keys
      where (state = 'standby' and created_at <= ${promoteBefore}) or (${revocable})
      limit 1`);
    if (!due) return false;
    await this.#change(async (transaction) => {
      const [standby] = await transaction.query<{ kid: string }>(sql`
        select kid from auth.signing_keys where state = 'standby' and created_at <= ${promoteBefore}
        order by created_at limit 1`);
      if (standby) {
        await demoteCurrent(transaction, now);
        await transaction.query(sql`
          update auth.signing_keys set state = 'in_use', promoted_at = ${now} where kid = ${standby.kid}`);
      }
      await transaction.query(sql`
        update auth.signing_keys set state = 'revoked', revoked_at = ${now}, private_jwk = null
        where ${revocable}`);
    });
    return true;
  }

  /** Revokes a key and all tokens that it signed immediately. Replaces the key in use first. */
  async revoke(kid: string): Promise<void> {
    const replacement = await makeKey();
    await this.#change(async (transaction) => {
      const [row] = await transaction.query<{ state: KeyState }>(
        sql`select state from auth.signing_keys where kid = ${kid}`,
      );
      if (!row) {
        throw new Problem('no_such_key', 404, `There is no signing key ${kid}`, {
          hint: '`svc keys list` lists the keys.',
        });
      }
      await transaction.query(sql`
        update auth.signing_keys set state = 'revoked', revoked_at = now(), private_jwk = null where kid = ${kid}`);
      if (row.state === 'in_use') await this.#insertKey(transaction, replacement, 'in_use');
    });
  }

  /**
   * Imports a key of another product: a shared secret (HS256) or a JWK. An imported key verifies but never signs. It
   * stays until it is revoked, because only the operator knows when the other product's tokens expire. It accepts
   * tokens of users only, unless `roles` lists more.
   */
  async importKey(
    key: { readonly sharedSecret: string } | { readonly jwk: JWK },
    roles: readonly DatabaseRole[] = USER_ROLES,
  ): Promise<string> {
    const made = 'sharedSecret' in key ? sharedSecretKey(key.sharedSecret) : await foreignKey(key.jwk);
    await this.#change(async (transaction) => {
      await this.#insertKey(transaction, made, 'previously_used', roles);
    });
    return made.kid;
  }

  async #change(work: (transaction: Queryable) => Promise<void>): Promise<void> {
    await this.#db.transaction(async (transaction) => {
      await transaction.query(sql`lock table auth.signing_keys in exclusive mode`);
      await work(transaction);
      await transaction.query(sql`select pg_notify(${SIGNING_KEYS_CHANNEL}, '')`);
    });
    await this.reload();
  }

  /** `roles` are the roles that tokens of an imported key may have. Null for keys of svc. */
  async #insertKey(
    db: Queryable,
    key: MadeKey,
    state: KeyState,
    roles: readonly DatabaseRole[] | null = null,
  ): Promise<void> {
    const sealed = key.privateJwk
      ? this.#box.seal(Buffer.from(JSON.stringify(key.privateJwk)), key.kid)
      : null;
    const [inserted] = await db.query(sql`
      insert into auth.signing_keys (kid, alg, state, public_jwk, private_jwk, imported, roles, promoted_at, demoted_at)
      values (${key.kid}, ${key.alg}, ${state}, ${key.publicJwk ? JSON.stringify(key.publicJwk) : null}, ${sealed},
        ${roles !== null}, ${roles},
        ${state === 'in_use' ? new Date() : null}, ${state === 'previously_used' ? new Date() : null})
      on conflict (kid) do update set state = excluded.state, public_jwk = excluded.public_jwk,
        private_jwk = excluded.private_jwk, roles = excluded.roles, revoked_at = null
      where auth.signing_keys.imported and excluded.imported
      returning 1`);
    if (!inserted) {
      throw new Problem('key_exists', 409, `The signing key ${key.kid} of this service already exists`, {
        hint: 'Give the imported key another kid.',
      });
    }
  }

  async #read(db: Queryable): Promise<void> {
    const rows = await db.query<KeyRow>(sql`
      select kid, alg, state, imported, roles, created_at, promoted_at, demoted_at, public_jwk, private_jwk
      from auth.signing_keys where state <> 'revoked' order by created_at`);
    const verifying = new Map<string, VerificationKey>();
    let withoutKid: VerificationKey | undefined;
    let signing: SigningKey | undefined;
    for (const row of rows) {
      const opened = row.private_jwk ? this.#box.open(row.private_jwk, row.kid) : undefined;
      const privateJwk = opened ? (JSON.parse(opened.toString('utf8')) as JWK) : undefined;
      if (row.alg === 'HS256') {
        if (!privateJwk?.k) continue;
        const key: VerificationKey = {
          alg: 'HS256',
          key: Buffer.from(privateJwk.k, 'base64url'),
          accepts: keyRoles(row),
        };
        verifying.set(row.kid, key);
        withoutKid ??= key;
        continue;
      }
      if (!row.public_jwk) continue;
      const key = await importAsymmetric(row.public_jwk, row.alg);
      verifying.set(row.kid, { alg: row.alg, key, accepts: keyRoles(row) });
      if (row.state !== 'in_use' || row.alg !== 'ES256' || !privateJwk) continue;
      signing = { kid: row.kid, alg: 'ES256', privateKey: await importAsymmetric(privateJwk, 'ES256') };
    }
    const publicKeys = rows.flatMap((row) => (row.public_jwk ? [row.public_jwk] : []));
    const fingerprint = rows.map((row) => `${row.kid} ${row.roles?.join() ?? ''}`).join(' ');
    const changed = fingerprint !== this.#fingerprint;
    this.#keys = { verifying, withoutKid, signing, publicKeys };
    this.#fingerprint = fingerprint;
    this.#loadedAt = Date.now();
    if (changed) this.#onChange();
  }
}

const keyRoles = (row: KeyRow): readonly DatabaseRole[] | undefined =>
  row.imported ? (row.roles ?? USER_ROLES) : undefined;

type MadeKey = Readonly<Pick<KeySummary, 'kid' | 'alg'>> & {
  readonly publicJwk: JWK | undefined;
  readonly privateJwk: JWK | undefined;
};

async function makeKey(): Promise<MadeKey> {
  const kid = randomUUID();
  const pair = await generateKeyPair('ES256', { extractable: true });
  return {
    kid,
    alg: 'ES256',
    publicJwk: publicHalf(await exportJWK(pair.publicKey), kid, 'ES256'),
    privateJwk: await exportJWK(pair.privateKey),
  };
}

// WebCrypto rejects a verification key whose key_ops do not include `verify`.
function publicHalf({ kty, crv, x, y, n, e }: JWK, kid: string, alg: KeyAlgorithm): JWK {
  const numbers = kty === 'RSA' ? { n, e } : { crv, x, y };
  return { kty, ...numbers, kid, alg, use: 'sig', key_ops: ['verify'] } as JWK;
}

function sharedSecretKey(secret: string): MadeKey {
  if (secret.length < MIN_SHARED_SECRET_LENGTH) {
    throw new Problem(
      'bad_shared_secret',
      400,
      `A shared secret of fewer than ${MIN_SHARED_SECRET_LENGTH} characters can be guessed and is not imported`,
      { hint: 'Issue new tokens instead: users sign in again once.' },
    );
  }
  const kid = `hs256-${createHash('sha256').update(`svc kid\0${secret}`).digest('hex').slice(0, 16)}`;
  const jwk: JWK = { kty: 'oct', k: Buffer.from(secret).toString('base64url') };
  return { kid, alg: 'HS256', publicJwk: undefined, privateJwk: jwk };
}

async function foreignKey(jwk: JWK): Promise<MadeKey> {
  const alg = jwk.kty === 'RSA' ? 'RS256' : jwk.kty === 'EC' && jwk.crv === 'P-256' ? 'ES256' : undefined;
  if (!alg || (jwk.alg !== undefined && jwk.alg !== alg)) {
    throw new Problem('bad_jwk', 400, 'Only P-256 (ES256) and RSA (RS256) keys can be imported', {
      hint: 'Give the public key as a JWK with kty, and crv/x/y or n/e.',
    });
  }
  const kid = jwk.kid ?? randomUUID();
  const publicJwk = publicHalf(jwk, kid, alg);
  try {
    await importAsymmetric(publicJwk, alg);
  } catch (cause) {
    throw new Problem('bad_jwk', 400, 'The JWK is not a valid public key', { cause });
  }
  return { kid, alg, publicJwk, privateJwk: undefined };
}

async function demoteCurrent(db: Queryable, now: Date = new Date()): Promise<void> {
  await db.query(sql`
    update auth.signing_keys set state = 'previously_used', demoted_at = ${now} where state = 'in_use'`);
}

async function importAsymmetric(jwk: JWK, alg: 'ES256' | 'RS256'): Promise<CryptoKey> {
  const key = await importJWK(jwk, alg);
  if (key instanceof Uint8Array) throw new Error('an asymmetric key cannot be a byte string');
  return key;
}
