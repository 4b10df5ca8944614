// Users of a seed: made as an admin makes them, with the same ids in every database.
import { createHash } from 'node:crypto';
import type { SeedEntry } from '../config/config.ts';
import { readEmail } from '../auth/users/email-address.ts';
import { PasswordHasher } from '../auth/users/password.ts';
import { findUserByEmail, insertEmailIdentity, insertUser, updateUser } from '../auth/users/user.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';

type SeedUser = SeedEntry['users'][number];

/** Hashing takes a while: it is done before the transaction, and only for who is not there yet. */
export async function hashPasswords(
  db: Queryable,
  users: readonly SeedUser[],
): Promise<ReadonlyMap<string, string>> {
  const hasher = new PasswordHasher();
  const hashes = new Map<string, string>();
  for (const user of users) {
    if ((await findUserByEmail(db, normalizeEmail(user))) === undefined)
      hashes.set(user.as, await hasher.hash(user.password));
  }
  return hashes;
}

export type WrittenUsers = { readonly ids: ReadonlyMap<string, string>; readonly written: number };

/** Creates the users. An existing email address keeps its user and password, and `update` replaces the metadata. */
export async function writeUsers(
  transaction: Queryable,
  entry: Pick<SeedEntry, 'name' | 'users' | 'onConflict'>,
  hashes: ReadonlyMap<string, string>,
  now: Date,
): Promise<WrittenUsers> {
  const ids = new Map<string, string>();
  let written = 0;
  for (const user of entry.users) {
    const email = normalizeEmail(user);
    const present = await findUserByEmail(transaction, email);
    ids.set(user.as, present?.id ?? userId(entry.name, user));
    if (present === undefined) {
      await make(
        transaction,
        userId(entry.name, user),
        { user, email, hash: hashes.get(user.as) ?? null },
        now,
      );
    } else if (entry.onConflict === 'update' && user.metadata !== undefined) {
      await updateUser(transaction, present.id, now, {
        raw_user_meta_data: { ...present.raw_user_meta_data, ...user.metadata },
        raw_app_meta_data: { ...present.raw_app_meta_data, ...user.app_metadata },
      });
    } else continue;
    written += 1;
  }
  return { ids, written };
}

/** Returns ids of existing users, keyed by their names in seeds. Rows may refer to users of other entries. */
export async function readIds(
  db: Queryable,
  entries: ReadonlyArray<Pick<SeedEntry, 'users'>>,
): Promise<ReadonlyMap<string, string>> {
  const users = entries.flatMap((entry) => entry.users);
  const rows = await db.query<{ id: string; email: string }>(sql`
    select id, email from auth.users where email = any(${users.map(normalizeEmail)}::text[]) and not is_sso_user`);
  const byEmail = new Map(rows.map(({ id, email }) => [email, id]));
  return new Map(
    users.flatMap((user) => {
      const id = byEmail.get(normalizeEmail(user));
      return id === undefined ? [] : [[user.as, id] as const];
    }),
  );
}

async function make(
  transaction: Queryable,
  id: string,
  { user, email, hash }: { readonly user: SeedUser; readonly email: string; readonly hash: string | null },
  now: Date,
): Promise<void> {
  await insertUser(transaction, now, {
    id,
    email,
    passwordHash: hash,
    userMetadata: { ...user.metadata },
    appMetadata: { provider: 'email', providers: ['email'], ...user.app_metadata },
    isAnonymous: false,
    confirmed: user.confirmed,
    proven: user.confirmed,
  });
  await insertEmailIdentity(transaction, { id, email }, {}, user.confirmed, now);
}

const normalizeEmail = ({ email }: SeedUser): string => readEmail(email) ?? email.toLowerCase();

/** A UUID of version 8 from the names of the entry and the user. */
function userId(entry: string, user: Pick<SeedUser, 'as' | 'id'>): string {
  if (user.id !== undefined) return user.id.toLowerCase();
  const bytes = createHash('sha256')
    .update(JSON.stringify(['svc seed', entry, user.as]))
    .digest()
    .subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
