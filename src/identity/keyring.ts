// The key everything secret in the database is sealed with: private signing keys, TOTP secrets, session keys,
// provider tokens, waiting mail. It is random, made once, and lies in the database itself sealed with a key from
// the environment. So a copy of the database opens nothing, and a new environment key means re-sealing one row.
import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { secretBox, type SecretBox } from '../lib/secret-box.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';

export type KeyringSecrets = {
  /** What the keyring is sealed with from now on. */
  readonly current: string;
  /** What it may still be sealed with; opened with one of these, it is sealed again with `current`. */
  readonly previous: readonly string[];
};

const SHORTEST_ENCRYPTION_KEY = 32;
const DATA_KEY_BYTES = 32;
const FORMAT = 1;

/** The secrets that the environment names beside the secret key. */
export function environmentSecrets(
  secretKey: string,
  env: Readonly<Record<string, string | undefined>>,
): KeyringSecrets {
  const encryptionKey = env['SVC_AUTH_ENCRYPTION_KEY'];
  if (encryptionKey !== undefined && encryptionKey.length < SHORTEST_ENCRYPTION_KEY) {
    throw new Problem(
      'bad_encryption_key',
      500,
      `SVC_AUTH_ENCRYPTION_KEY is too short: ${SHORTEST_ENCRYPTION_KEY} characters are the least`,
      { hint: 'Make one with: openssl rand -base64 32' },
    );
  }
  const current = encryptionKey ?? secretKey;
  const others = [secretKey, env['SVC_SECRET_KEY_PREVIOUS'], env['SVC_AUTH_ENCRYPTION_KEY_PREVIOUS']];
  return {
    current,
    previous: others.filter((one): one is string => one !== undefined && one !== '' && one !== current),
  };
}

type KeyringRow = { id: number; state: 'in_use' | 'retired'; sealed_key: Buffer };

type DataKey = { readonly id: number; readonly secret: string };

export class Keyring {
  readonly #keys: ReadonlyMap<number, DataKey>;
  readonly #inUse: DataKey;

  constructor(keys: readonly DataKey[], inUse: DataKey) {
    this.#keys = new Map(keys.map((key) => [key.id, key]));
    this.#inUse = inUse;
  }

  /**
   * Opens the keyring, making it at the first start. When no given secret opens it, `refuse` stops the start:
   * going on would log everybody out and lock out every user with a factor. `replace` starts a new one and
   * keeps the old row, so that the right secret can still open what it sealed.
   */
  static async open(
    db: OwnerDatabase,
    secrets: KeyringSecrets,
    whenSealed: 'refuse' | 'replace' = 'refuse',
  ): Promise<Keyring> {
    return await db.transaction(async (transaction) => {
      // Two instances that boot together must agree on one key.
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

  /** Seals and opens for one purpose; values of one purpose cannot be opened for another. */
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

  /** A keyed digest for one purpose: for short secrets, whose plain hash could be searched through. */
  mac(purpose: string): (message: string) => Buffer {
    const key = Buffer.from(hkdfSync('sha256', this.#inUse.secret, 'svc keyring mac', purpose, 32));
    return (message) => createHmac('sha256', key).update(message).digest();
  }
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
  const message = 'The auth keyring of this database was sealed with another secret than the ones given';
  return new Problem('keyring_sealed', 500, message, {
    hint: 'When SVC_SECRET_KEY was changed, start once with SVC_SECRET_KEY_PREVIOUS set to the earlier one. When it is lost: `svc keys reset` starts a new keyring, which signs everybody out and makes second factors unusable.',
  });
}
