// The key that encrypts all secrets in the database: private signing keys, TOTP secrets, session keys, provider
// tokens, queued mail. It is random, created once, and stored in the database, encrypted with a key from the
// environment. So a copy of the database reveals no secret, and a new environment key requires re-encrypting one row
// only.
import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import { secretBox, type SecretBox } from '../lib/secret-box.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';

export type KeyringSecrets = {
  /** Key that encrypts the keyring. */
  readonly current: string;
  /** Former keys. A keyring that one of these decrypts is encrypted again with `current`. */
  readonly previous: readonly string[];
};

const MIN_ENCRYPTION_KEY_LENGTH = 32;
const DATA_KEY_BYTES = 32;
const FORMAT = 1;

/** Returns the key for the keyring and its predecessors from the environment and the secret key. */
export function environmentSecrets(
  secretKey: string,
  env: Readonly<Record<string, string | undefined>>,
): KeyringSecrets {
  const encryptionKey = env['SVC_AUTH_ENCRYPTION_KEY'];
  if (encryptionKey !== undefined && encryptionKey.length < MIN_ENCRYPTION_KEY_LENGTH) {
    throw new Problem(
      'bad_encryption_key',
      500,
      `SVC_AUTH_ENCRYPTION_KEY is too short: it needs at least ${MIN_ENCRYPTION_KEY_LENGTH} characters`,
      { hint: 'Create a key with: openssl rand -base64 32' },
    );
  }
  const current = encryptionKey ?? secretKey;
  const candidates = [secretKey, env['SVC_SECRET_KEY_PREVIOUS'], env['SVC_AUTH_ENCRYPTION_KEY_PREVIOUS']];
  return {
    current,
    previous: candidates.filter((key): key is string => key !== undefined && key !== '' && key !== current),
  };
}

type KeyringRow = { id: number; state: 'in_use' | 'retired'; sealed_key: Buffer };

type DataKey = { readonly id: number; readonly secret: string };

/** HMAC-SHA-256 signatures of messages between instances with the same keyring. */
export type MacKeys = {
  sign(message: string): Buffer;
  verify(message: string, mac: Buffer): boolean;
};

export class Keyring {
  readonly #keys: ReadonlyMap<number, DataKey>;
  readonly #inUse: DataKey;

  constructor(keys: readonly DataKey[], inUse: DataKey) {
    this.#keys = new Map(keys.map((key) => [key.id, key]));
    this.#inUse = inUse;
  }

  /**
   * Opens the keyring, and creates it at the first start. If no secret decrypts it, `refuse` stops the start, because
   * continuing would sign out all users and lock out users with a second factor. `replace` creates a new keyring and
   * keeps the old row, so that the right secret can still decrypt earlier values.
   */
  static async open(
    db: OwnerDatabase,
    secrets: KeyringSecrets,
    whenSealed: 'refuse' | 'replace' = 'refuse',
  ): Promise<Keyring> {
    return await db.transaction(async (transaction) => {
      // Two instances that start concurrently must use the same key.
      await transaction.query(sql`lock table auth.keyring in exclusive mode`);
      const rows = await transaction.query<KeyringRow>(
        sql`select id, state, sealed_key from auth.keyring order by id`,
      );
      const opened: DataKey[] = [];
      let inUse: DataKey | undefined;
      for (const row of rows) {
        const key = await openRow(transaction, row, secrets);
        if (!key) continue;
        opened.push(key);
        if (row.state === 'in_use') inUse = key;
      }
      if (inUse) return new Keyring(opened, inUse);
      if (rows.length > 0 && whenSealed === 'refuse') throw sealedKeyring();
      const made = await makeKey(transaction, rows, secrets.current);
      return new Keyring([...opened, made], made);
    });
  }

  /** Returns encryption for one purpose. A value that was encrypted for one purpose cannot be decrypted for another. */
  box(purpose: string): SecretBox {
    const boxes = new Map([...this.#keys.values()].map(({ id, secret }) => [id, secretBox(secret, purpose)]));
    const { id, secret } = this.#inUse;
    const current = boxes.get(id) ?? secretBox(secret, purpose);
    return {
      seal(plain, context) {
        return Buffer.concat([Buffer.from([FORMAT, id >> 8, id & 0xff]), current.seal(plain, context)]);
      },
      open(sealed, context) {
        if (sealed.length < 3 || sealed[0] !== FORMAT) return undefined;
        return boxes.get(sealed.readUInt16BE(1))?.open(sealed.subarray(3), context);
      },
    };
  }

  /** Signs with the key in use. Accepts every key of the keyring, because instances may use different keys. */
  macKeys(purpose: string): MacKeys {
    const keys = [...this.#keys.values()].map(({ id, secret }) => ({ id, key: macKey(secret, purpose) }));
    const digest = (key: Buffer, message: string): Buffer =>
      createHmac('sha256', key).update(message).digest();
    const inUse = keys.find(({ id }) => id === this.#inUse.id)?.key ?? macKey(this.#inUse.secret, purpose);
    return {
      sign: (message) => digest(inUse, message),
      verify: (message, mac) =>
        keys.some(({ key }) => {
          const expected = digest(key, message);
          return mac.length === expected.length && timingSafeEqual(mac, expected);
        }),
    };
  }

  /** Returns a keyed digest for one purpose, for short secrets whose plain hash could be guessed by trying. */
  mac(purpose: string): (message: string) => Buffer {
    const key = macKey(this.#inUse.secret, purpose);
    return (message) => createHmac('sha256', key).update(message).digest();
  }
}

function macKey(secret: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, 'svc keyring mac', purpose, 32));
}

async function openRow(
  db: Queryable,
  row: KeyringRow,
  secrets: KeyringSecrets,
): Promise<DataKey | undefined> {
  const context = `keyring ${row.id}`;
  for (const secret of [secrets.current, ...secrets.previous]) {
    const plain = wrapping(secret).open(row.sealed_key, context);
    if (!plain) continue;
    if (secret !== secrets.current) {
      await db.query(sql`
        update auth.keyring set sealed_key = ${wrapping(secrets.current).seal(plain, context)}, resealed_at = now()
        where id = ${row.id}`);
    }
    return { id: row.id, secret: plain.toString('base64url') };
  }
  return undefined;
}

async function makeKey(db: Queryable, rows: readonly KeyringRow[], secret: string): Promise<DataKey> {
  const id = Math.max(0, ...rows.map((row) => row.id)) + 1;
  const plain = randomBytes(DATA_KEY_BYTES);
  await db.query(sql`update auth.keyring set state = 'retired' where state = 'in_use'`);
  await db.query(sql`
    insert into auth.keyring (id, state, sealed_key)
    values (${id}, 'in_use', ${wrapping(secret).seal(plain, `keyring ${id}`)})`);
  return { id, secret: plain.toString('base64url') };
}

function wrapping(secret: string): SecretBox {
  return secretBox(secret, 'keyring');
}

function sealedKeyring(): Problem {
  const message = 'The auth keyring of this database was encrypted with another secret';
  return new Problem('keyring_sealed', 500, message, {
    hint:
      'If SVC_SECRET_KEY was changed, start once with SVC_SECRET_KEY_PREVIOUS set to the earlier key. If that key is ' +
      'lost, `svc keys reset` creates a new keyring, which signs out all users and makes second factors unusable.',
  });
}
