// The user record: reads it with its identities and factors, writes it, and builds the object for clients.
import { randomUUID } from 'node:crypto';
import { must } from '../../lib/assert.ts';
import { databaseFailure, isDatabaseError } from '../../postgres/pg-error.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { join, raw, sql, type Sql } from '../../postgres/sql.ts';
import type { JsonObject } from '../fields.ts';
import { problems } from '../problem.ts';
import { storedForms } from './email-address.ts';

export type UserRow = {
  id: string;
  aud: string | null;
  email: string | null;
  encrypted_password: string | null;
  email_confirmed_at: Date | null;
  invited_at: Date | null;
  confirmation_sent_at: Date | null;
  recovery_sent_at: Date | null;
  email_change: string | null;
  email_change_sent_at: Date | null;
  email_change_confirm_status: number | null;
  last_sign_in_at: Date | null;
  raw_app_meta_data: JsonObject;
  raw_user_meta_data: JsonObject;
  created_at: Date;
  updated_at: Date;
  phone: string | null;
  phone_confirmed_at: Date | null;
  phone_change: string | null;
  phone_change_sent_at: Date | null;
  confirmed_at: Date | null;
  banned_until: Date | null;
  reauthentication_sent_at: Date | null;
  is_sso_user: boolean;
  is_anonymous: boolean;
  deleted_at: Date | null;
  email_proven_at: Date | null;
  password_set_at: Date | null;
  identities: IdentityRow[];
  factors: FactorRow[];
};

// Identities and factors arrive as JSON inside the user's row, so their times are text.
export type IdentityRow = {
  id: string;
  provider_id: string;
  user_id: string;
  identity_data: JsonObject;
  provider: string;
  last_sign_in_at: string | null;
  created_at: string;
  updated_at: string;
  email: string | null;
};

export type FactorRow = {
  id: string;
  friendly_name: string | null;
  factor_type: 'totp' | 'webauthn' | 'phone';
  status: 'unverified' | 'verified';
  phone: string | null;
  last_challenged_at: string | null;
  created_at: string;
  updated_at: string;
};

/** Every column of a user `u`, with identities and factors, for the select list of a larger statement. */
export const USER_COLUMNS: Sql = raw(`
  u.id, u.aud, u.email, u.encrypted_password, u.email_confirmed_at, u.invited_at, u.confirmation_sent_at,
  u.recovery_sent_at, u.email_change, u.email_change_sent_at, u.email_change_confirm_status, u.last_sign_in_at,
  u.raw_app_meta_data, u.raw_user_meta_data, u.created_at, u.updated_at, u.phone, u.phone_confirmed_at,
  u.phone_change, u.phone_change_sent_at, u.confirmed_at, u.banned_until, u.reauthentication_sent_at,
  u.is_sso_user, u.is_anonymous, u.deleted_at, u.email_proven_at, u.password_set_at,
  coalesce((select json_agg(to_json(i) order by i.created_at, i.id) from auth.identities i
    where i.user_id = u.id), '[]') as identities,
  coalesce((
    select json_agg(json_build_object('id', f.id, 'friendly_name', f.friendly_name, 'factor_type', f.factor_type,
      'status', f.status, 'phone', f.phone, 'last_challenged_at', f.last_challenged_at, 'created_at', f.created_at,
      'updated_at', f.updated_at) order by f.created_at, f.id)
    from auth.mfa_factors f where f.user_id = u.id), '[]') as factors`);

export async function findUserById(db: Queryable, id: string): Promise<UserRow | undefined> {
  const [user] = await db.query<UserRow>(
    sql`select ${USER_COLUMNS} from auth.users u where u.id = ${id}`,
    'auth_user_by_id',
  );
  return user;
}

/** Reads a user who must exist, as the transaction sees it. */
export async function readUser(db: Queryable, id: string): Promise<UserRow> {
  return must(await findUserById(db, id), 'the user');
}

/** Locks the user until the transaction ends. */
export async function lockUser(db: Queryable, id: string): Promise<UserRow | undefined> {
  await db.query(sql`select 1 from auth.users where id = ${id} for update`);
  // A second statement: a statement that waited for the lock would read the identities from its old snapshot.
  return await findUserById(db, id);
}

/** Finds a user by address. Single sign-on users are never found. */
export async function findUserByEmail(db: Queryable, email: string): Promise<UserRow | undefined> {
  return await findByForms(db, [email]);
}

/** Finds the user whose stored address matches the typed one. */
export async function findUserByTypedEmail(db: Queryable, typed: string): Promise<UserRow | undefined> {
  return await findByForms(db, storedForms(typed));
}

async function findByForms(db: Queryable, forms: readonly string[]): Promise<UserRow | undefined> {
  const [user] = await db.query<UserRow>(
    sql`select ${USER_COLUMNS} from auth.users u where u.email = any(${forms}::text[]) and not u.is_sso_user
      order by array_position(${forms}::text[], u.email::text) limit 1`,
    'auth_user_by_email',
  );
  return user;
}

export type NewUser = {
  readonly id?: string | undefined;
  readonly email: string | null;
  readonly phone?: string | null;
  readonly passwordHash: string | null;
  readonly userMetadata: JsonObject;
  readonly appMetadata: JsonObject;
  readonly isAnonymous: boolean;
  readonly confirmed: boolean;
  readonly phoneConfirmed?: boolean;
  /** Whether an administrator or a mailbox has confirmed the address. */
  readonly proven: boolean;
  readonly bannedUntil?: Date | null;
  readonly invited?: boolean;
};

/**
 * Inserts the final values with one statement: an application's AFTER INSERT trigger must see the complete
 * user.
 */
export async function insertUser(db: Queryable, now: Date, user: NewUser): Promise<string> {
  const id = user.id ?? randomUUID();
  try {
    await db.query(sql`
      insert into auth.users (id, email, phone, encrypted_password, raw_user_meta_data, raw_app_meta_data, is_anonymous,
        email_confirmed_at, phone_confirmed_at, email_proven_at, password_set_at, banned_until, invited_at,
        created_at, updated_at)
      values (${id}, ${user.email}, ${user.phone ?? null}, ${user.passwordHash}, ${JSON.stringify(user.userMetadata)},
        ${JSON.stringify(user.appMetadata)}, ${user.isAnonymous}, ${user.confirmed ? now : null},
        ${user.phoneConfirmed ? now : null}, ${user.proven ? now : null}, ${user.passwordHash === null ? null : now},
        ${user.bannedUntil ?? null}, ${user.invited ? now : null}, ${now}, ${now})`);
  } catch (error) {
    throw describeUserFailure(error);
  }
  return id;
}

/**
 * Returns the error that finding the address taken gives, for a lost race. A trigger may fail at another
 * table.
 */
function describeUserFailure(error: unknown): unknown {
  if (!isDatabaseError(error, 'unique_violation') || error.schema !== 'auth' || error.table !== 'users')
    return isTriggerError(error) ? problems.userRefused(error) : error;
  return error.constraint === 'users_phone_key' ? problems.phoneExists() : problems.emailExists();
}

/** Returns whether a trigger raised the error, and a retry would raise it again. */
function isTriggerError(error: unknown): boolean {
  return (
    isDatabaseError(error) &&
    error.where !== undefined &&
    databaseFailure(error) === undefined &&
    !isDatabaseError(error, 'serialization_failure', 'deadlock_detected')
  );
}

/** Returns the metadata about the address of an account. */
export function addressClaims(id: string, email: string, verified: boolean): JsonObject {
  return { sub: id, email, email_verified: verified, phone_verified: false };
}

export async function insertEmailIdentity(
  db: Queryable,
  user: { readonly id: string; readonly email: string },
  data: JsonObject,
  verified: boolean,
  now: Date,
): Promise<void> {
  const identityData = { ...data, ...addressClaims(user.id, user.email, verified) };
  await db.query(sql`
    insert into auth.identities (provider, provider_id, user_id, identity_data, last_sign_in_at, created_at, updated_at)
    values ('email', ${user.id}, ${user.id}, ${JSON.stringify(identityData)}, ${now}, ${now}, ${now})
    on conflict (provider_id, provider) do update
      set identity_data = auth.identities.identity_data || excluded.identity_data, updated_at = excluded.updated_at`);
}

export type NewEmailUser = {
  readonly email: string;
  readonly passwordHash: string | null;
  readonly data: JsonObject;
  readonly confirmed: boolean;
  /** The metadata is exactly `data`. Nothing is added, and the identity gets no metadata. */
  readonly byAdmin?: boolean;
  readonly invited?: boolean;
};

/** Inserts a user with an email identity. The address is not proven yet. */
export async function insertEmailUser(db: Queryable, now: Date, user: NewEmailUser): Promise<string> {
  const { email, passwordHash, data, confirmed, byAdmin = false, invited = false } = user;
  const id = randomUUID();
  await insertUser(db, now, {
    id,
    email,
    passwordHash,
    userMetadata: byAdmin ? data : { ...data, ...addressClaims(id, email, confirmed) },
    appMetadata: { provider: 'email', providers: ['email'] },
    isAnonymous: false,
    confirmed,
    proven: false,
    invited,
  });
  await insertEmailIdentity(db, { id, email }, byAdmin ? {} : data, false, now);
  return id;
}

export type UserChange = Readonly<Partial<Omit<UserRow, 'id' | 'identities' | 'factors'>>>;

export async function updateUser(db: Queryable, id: string, now: Date, change: UserChange): Promise<void> {
  const assignments = Object.entries({ ...change, updated_at: now }).map(([column, value]) => {
    const stored = isMetadata(value) ? JSON.stringify(value) : value;
    // The column names are keys of `UserChange`, never text from a caller.
    return sql`${raw(column)} = ${stored}`;
  });
  try {
    await db.query(sql`update auth.users set ${join(assignments)} where id = ${id}`);
  } catch (error) {
    throw describeUserFailure(error);
  }
}

const isMetadata = (value: UserChange[keyof UserChange]): value is JsonObject =>
  typeof value === 'object' && value !== null && !(value instanceof Date);

/** Updates `app_metadata.provider` and `providers` from the identities. */
export async function syncProviders(db: Queryable, userId: string): Promise<void> {
  await db.query(sql`
    update auth.users u set raw_app_meta_data = case
      when p.providers is null then u.raw_app_meta_data - 'provider' - 'providers'
      else u.raw_app_meta_data || jsonb_build_object(
        'provider', case when p.providers ? (u.raw_app_meta_data ->> 'provider')
          then u.raw_app_meta_data -> 'provider' else p.providers -> 0 end,
        'providers', p.providers) end
    from (
      select jsonb_agg(one.provider order by one.first_at, one.provider) as providers
      from (select provider, min(created_at) as first_at from auth.identities where user_id = ${userId}
        group by provider) one
    ) p
    where u.id = ${userId}`);
}

export function isBanned(user: Pick<UserRow, 'banned_until'>, now: Date): boolean {
  return user.banned_until !== null && user.banned_until > now;
}

export function hasVerifiedFactor(user: UserRow): boolean {
  return user.factors.some((factor) => factor.status === 'verified');
}

export type UserJson = Readonly<Record<string, unknown>>;

/** Returns the user object for clients. Omits unset times; email and phone are never null. */
export function toUserJson(user: UserRow): UserJson {
  const json: Record<string, unknown> = {
    id: user.id,
    aud: user.aud ?? 'authenticated',
    role: user.is_anonymous ? 'anon' : 'authenticated',
    email: user.email ?? '',
  };
  const put = (name: string, value: Date | string | null): void => {
    if (value !== null && value !== '') json[name] = value instanceof Date ? value.toISOString() : value;
  };
  put('email_confirmed_at', user.email_confirmed_at);
  put('invited_at', user.invited_at);
  json['phone'] = user.phone ?? '';
  put('phone_confirmed_at', user.phone_confirmed_at);
  put('confirmation_sent_at', user.confirmation_sent_at);
  put('confirmed_at', user.confirmed_at);
  put('recovery_sent_at', user.recovery_sent_at);
  if (user.email_change) {
    put('new_email', user.email_change);
    put('email_change_sent_at', user.email_change_sent_at);
  }
  if (user.phone_change) {
    put('new_phone', user.phone_change);
    put('phone_change_sent_at', user.phone_change_sent_at);
  }
  put('reauthentication_sent_at', user.reauthentication_sent_at);
  put('last_sign_in_at', user.last_sign_in_at);
  json['app_metadata'] = user.raw_app_meta_data;
  json['user_metadata'] = user.raw_user_meta_data;
  if (user.factors.length > 0) json['factors'] = user.factors.map(toFactorJson);
  json['identities'] = user.identities.map(toIdentityJson);
  json['created_at'] = user.created_at.toISOString();
  json['updated_at'] = user.updated_at.toISOString();
  put('banned_until', user.banned_until);
  put('deleted_at', user.deleted_at);
  json['is_anonymous'] = user.is_anonymous;
  return json;
}

function toIdentityJson(identity: IdentityRow): Readonly<Record<string, unknown>> {
  return {
    identity_id: identity.id,
    id: identity.provider_id,
    user_id: identity.user_id,
    identity_data: identity.identity_data,
    provider: identity.provider,
    ...(identity.last_sign_in_at === null ? {} : { last_sign_in_at: toUtc(identity.last_sign_in_at) }),
    created_at: toUtc(identity.created_at),
    updated_at: toUtc(identity.updated_at),
    ...(identity.email === null ? {} : { email: identity.email }),
  };
}

export function toFactorJson(factor: FactorRow): Readonly<Record<string, unknown>> {
  return {
    id: factor.id,
    created_at: toUtc(factor.created_at),
    updated_at: toUtc(factor.updated_at),
    status: factor.status,
    ...(factor.friendly_name === null ? {} : { friendly_name: factor.friendly_name }),
    factor_type: factor.factor_type,
    phone: factor.phone ?? '',
    last_challenged_at: factor.last_challenged_at === null ? null : toUtc(factor.last_challenged_at),
  };
}

/** Returns the time in UTC with `Z`. PostgreSQL's JSON writes the offset as `+00:00`. */
function toUtc(text: string): string {
  return text.replace(/\+00:00$/, 'Z');
}
