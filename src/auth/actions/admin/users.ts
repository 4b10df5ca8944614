// /admin/users: manages accounts with the secret key. Sends no mail and has no rate limits.
import { randomUUID } from 'node:crypto';
import { acceptUser, refuseUser } from '../../../identity/session-ends.ts';
import type { Queryable } from '../../../postgres/owner-database.ts';
import { isDatabaseError } from '../../../postgres/pg-error.ts';
import { sql } from '../../../postgres/sql.ts';
import type { AuthContext } from '../../auth-context.ts';
import { ADMIN_ACTOR, recordAdmin, recordAudit } from '../../audit.ts';
import { parseBan } from '../../users/ban.ts';
import { isEmailTaken } from '../../accounts/email-change.ts';
import { parseEmail } from '../../users/email-address.ts';
import { isUuid, parsePathUuid, type Fields } from '../../fields.ts';
import { hasCredentials, isProven } from '../../accounts/email-ownership.ts';
import { proveAddress } from '../../accounts/prove-address.ts';
import { queueNotice } from '../../mail/notice.ts';
import { mergeMetadata } from '../../users/metadata.ts';
import { voidAllTokens } from '../../sessions/one-time-token.ts';
import { readPage, pageHeaders } from '../../http/pagination.ts';
import { checkImportedHash } from '../../users/imported-hash.ts';
import { checkPassword, checkPasswordStrength } from '../../users/password.ts';
import { problems } from '../../problem.ts';
import { EMPTY, json, type Answer, type AuthRequest } from '../../http/request.ts';
import { endRestrictedSessions, endSessions } from '../../sessions/session.ts';
import { softDelete } from '../../accounts/soft-delete.ts';
import {
  findUserById,
  readUser,
  insertEmailIdentity,
  insertUser,
  lockUser,
  syncProviders,
  toUserJson,
  updateUser,
  USER_COLUMNS,
  type UserRow,
} from '../../users/user.ts';

export async function listUsers(request: AuthRequest): Promise<Answer> {
  const { auth, query } = request;
  const page = readPage(query);
  const order = (query.filled('sort') ?? 'created_at desc').toLowerCase();
  const direction =
    order === 'created_at asc' ? sql`asc` : order === 'created_at desc' ? sql`desc` : undefined;
  if (!direction) throw problems.validationFailed('sort must be created_at asc or created_at desc');
  const filter = query.filled('filter');
  const pattern = filter === undefined ? null : `%${filter.replaceAll(/[\\%_]/g, '\\$&')}%`;
  const matching = sql`from auth.users u
    where ${pattern}::text is null or u.email ilike ${pattern}
      or u.raw_user_meta_data ->> 'full_name' ilike ${pattern}`;
  const users = await auth.db.query<UserRow>(sql`
    select ${USER_COLUMNS} ${matching} order by u.created_at ${direction}, u.id ${direction}
    limit ${page.perPage} offset ${page.offset}`);
  const [total] = await auth.db.query<{ count: number }>(sql`select count(*)::float8 as count ${matching}`);
  return json(
    { users: users.map(toUserJson), aud: 'authenticated' },
    pageHeaders('/auth/v1/admin/users', page, total?.count ?? 0),
  );
}

export async function createUser(request: AuthRequest): Promise<Answer> {
  const { auth, body, now } = request;
  const email = body.filled('email') === undefined ? undefined : parseEmail(body.text('email'));
  const phone = readPhone(body);
  if (email === undefined && phone === undefined) {
    throw problems.validationFailed('Cannot create a user without either an email or phone');
  }
  checkRole(body);
  const id = body.filled('id') ?? randomUUID();
  if (!isUuid(id) || /^[0-]+$/.test(id))
    throw problems.validationFailed('ID must conform to the uuid v4 format');
  const passwordHash = await readPassword(auth, body);
  const banDuration = body.filled('ban_duration');
  const isConfirmed = email !== undefined && body.flag('email_confirm') === true;
  const metadata = mergeMetadata({}, body.object('user_metadata'));
  const provider = email === undefined ? 'phone' : 'email';
  const user = await auth.db.transaction(async (db) => {
    if (email !== undefined && (await isEmailTaken(db, email, id))) throw problems.emailExists();
    await insertUser(db, now, {
      id,
      email: email ?? null,
      phone: phone ?? null,
      passwordHash: passwordHash ?? null,
      userMetadata: isConfirmed ? { ...metadata, email_verified: true } : metadata,
      appMetadata: mergeMetadata({ provider, providers: [provider] }, body.object('app_metadata')),
      isAnonymous: false,
      confirmed: isConfirmed,
      phoneConfirmed: phone !== undefined && body.flag('phone_confirm') === true,
      proven: isConfirmed,
      bannedUntil: banDuration === undefined ? null : parseBan(banDuration, now),
    });
    if (email !== undefined) await insertEmailIdentity(db, { id, email }, {}, isConfirmed, now);
    const created = await readUser(db, id);
    await recordAdmin(db, request, 'user_signedup', created, { provider });
    return created;
  });
  return json(toUserJson(user));
}

export async function getUserById(request: AuthRequest): Promise<Answer> {
  return json(toUserJson(await readPathUser(request)));
}

/** Returns the user whose id is in the path. */
export async function readPathUser({ auth, path }: AuthRequest): Promise<UserRow> {
  const user = await findUserById(auth.db, parsePathUuid(path['id'], 'user_id'));
  if (!user) throw problems.userNotFound(404);
  return user;
}

export async function updateUserById(request: AuthRequest): Promise<Answer> {
  const { auth, body } = request;
  const { id } = await readPathUser(request);
  checkRole(body);
  const email = body.filled('email') === undefined ? undefined : parseEmail(body.text('email'));
  if (body.has('password')) checkPasswordStrength(body.text('password') ?? '');
  const passwordHash = await readPassword(auth, body);
  const user = await auth.db.transaction(async (db) => {
    const current = await lockUser(db, id);
    if (!current) throw problems.userNotFound(404);
    await change(db, request, current, { email, passwordHash });
    await recordAdmin(db, request, 'user_modified', current);
    return await readUser(db, id);
  });
  auth.outbox.wake();
  return json(toUserJson(user));
}

async function change(
  db: Queryable,
  request: AuthRequest,
  user: UserRow,
  { email, passwordHash }: { readonly email: string | undefined; readonly passwordHash: string | undefined },
): Promise<void> {
  const { body, now } = request;
  const confirms = body.flag('email_confirm') === true;
  const phone = readPhone(body);
  if (email !== undefined && (await isEmailTaken(db, email, user.id))) throw problems.emailExists();
  const hasEmail = (email ?? user.email) !== null;
  const isNewEmail = email !== undefined && email !== user.email;
  // Confirming an address does not prove that its owner created the account. It is a proof only together with a new
  // password, or when the account has no credentials.
  const setsPassword = passwordHash !== undefined;
  const vouches = confirms && hasEmail && (isProven(user) || setsPassword || !hasCredentials(user));
  if (vouches && setsPassword && !isProven(user))
    await proveAddress(db, request, user, { kind: 'admin', now, provesCurrentAddress: !isNewEmail });
  const userMetadata = mergeMetadata(user.raw_user_meta_data, body.object('user_metadata'));
  const banDuration = body.filled('ban_duration');
  const bannedUntil = banDuration === undefined ? user.banned_until : parseBan(banDuration, now);
  await updateUser(db, user.id, now, {
    email: email ?? user.email,
    email_confirmed_at: confirms && hasEmail ? (user.email_confirmed_at ?? now) : user.email_confirmed_at,
    email_proven_at: vouches ? now : isNewEmail ? null : user.email_proven_at,
    is_anonymous: user.is_anonymous && !(confirms && hasEmail),
    phone: phone ?? user.phone,
    phone_confirmed_at:
      body.flag('phone_confirm') === true && (phone ?? user.phone) !== null
        ? (user.phone_confirmed_at ?? now)
        : user.phone_confirmed_at,
    encrypted_password: passwordHash ?? user.encrypted_password,
    password_set_at: passwordHash === undefined ? user.password_set_at : now,
    raw_user_meta_data: confirms && hasEmail ? { ...userMetadata, email_verified: true } : userMetadata,
    raw_app_meta_data: mergeMetadata(user.raw_app_meta_data, body.object('app_metadata')),
    banned_until: bannedUntil,
  });
  const finalEmail = email ?? user.email;
  const hasEmailIdentity = user.identities.some((identity) => identity.provider === 'email');
  if (finalEmail !== null && (isNewEmail || (confirms && hasEmailIdentity))) {
    await insertEmailIdentity(db, { id: user.id, email: finalEmail }, {}, vouches, now);
    await syncProviders(db, user.id);
  }
  if (passwordHash !== undefined) {
    await endSessions(db, user.id, 'all');
    await voidAllTokens(db, user.id);
    // A new password for an unproven account hands the account to its owner, so there is nothing to notify.
    if (isProven(user)) await queueNotice(db, request, { kind: 'password_changed', user });
  } else if (isNewEmail) {
    await voidAllTokens(db, user.id);
    await endRestrictedSessions(db, user.id);
  }
  if (isNewEmail && user.email !== null) {
    const values = { Email: email, OldEmail: user.email };
    await queueNotice(db, request, { kind: 'email_changed', user, values });
  }
  if (banDuration !== undefined) {
    if (bannedUntil === null) await acceptUser(db, user.id);
    else await refuseUser(db, user.id, bannedUntil);
    const action = bannedUntil === null ? 'user_unbanned' : 'user_banned';
    await recordAudit(db, request, action, ADMIN_ACTOR, { user_id: user.id });
  }
}

export async function deleteUser(request: AuthRequest): Promise<Answer> {
  const { auth, now } = request;
  const id = parsePathUuid(request.path['id'], 'user_id');
  const isSoft = request.body.flag('should_soft_delete') === true;
  await auth.db.transaction(async (db) => {
    const user = await lockUser(db, id);
    if (!user) throw problems.userNotFound(404);
    if (isSoft) {
      if (user.deleted_at) return;
      await softDelete(db, user, now);
    } else await hardDelete(db, id);
    await refuseUser(db, id);
    await recordAdmin(db, request, 'user_deleted', user);
  });
  return EMPTY;
}

async function hardDelete(db: Queryable, id: string): Promise<void> {
  try {
    await db.query(sql`delete from auth.users where id = ${id}`);
  } catch (error) {
    if (!isDatabaseError(error, 'foreign_key_violation')) throw error;
    const table = error.table === undefined ? '' : ` (table ${error.table})`;
    throw problems.conflict(`The user is still referenced by other rows${table}`, error);
  }
}

/** Returns the hash to store, from a plain password or an imported hash. */
async function readPassword(auth: AuthContext, body: Fields): Promise<string | undefined> {
  const password = body.filled('password');
  const imported = body.filled('password_hash');
  if (password !== undefined && imported !== undefined) {
    throw problems.validationFailed('Only a password or a password hash should be provided');
  }
  if (imported !== undefined) {
    checkImportedHash(imported);
    return imported;
  }
  if (password === undefined) return undefined;
  checkPassword(password);
  return await auth.hasher.hash(password);
}

function readPhone(body: Fields): string | undefined {
  const phone = body.filled('phone');
  if (phone === undefined) return undefined;
  const digits = phone.replace(/^\+/, '');
  if (!/^[1-9]\d{1,14}$/.test(digits))
    throw problems.validationFailed('Invalid phone number format (E.164 required)');
  return digits;
}

/** Throws if the body sets another role. The role in a token cannot be changed by an attribute. */
function checkRole(body: Fields): void {
  const role = body.filled('role');
  if (role !== undefined && role !== 'authenticated')
    throw problems.validationFailed('role must be authenticated');
}
