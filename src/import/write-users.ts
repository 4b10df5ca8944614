// Writes the staged user rows that differ from the previous run. The comparison uses the source's earlier state, not
// the local rows, so that a password rehashed at a local sign-in stays.
import { ident, join, raw, sql, type Sql } from '../postgres/sql.ts';
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import { USER_KINDS, type UserKind } from './users.ts';

/** How many things of a kind were written. */
export type Changes = {
  readonly kind: string;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
};

type Destination = {
  readonly table: string;
  readonly columns: readonly string[];
  /**
   * True if no row refers to this table. Changed rows are then deleted and re-inserted, because unique values may
   * have moved.
   */
  readonly isLeaf: boolean;
};

const DESTINATIONS: Readonly<Record<Exclude<UserKind, 'password'>, Destination>> = {
  user: {
    table: 'users',
    isLeaf: false,
    columns: `id instance_id aud role email email_confirmed_at invited_at confirmation_sent_at last_sign_in_at
      raw_app_meta_data raw_user_meta_data is_super_admin created_at updated_at phone phone_confirmed_at banned_until
      is_sso_user is_anonymous deleted_at email_proven_at`.split(/\s+/),
  },
  identity: {
    table: 'identities',
    isLeaf: true,
    columns: 'id provider_id user_id identity_data provider last_sign_in_at created_at updated_at'.split(' '),
  },
  factor: {
    table: 'mfa_factors',
    isLeaf: true,
    columns: 'id user_id friendly_name factor_type status created_at updated_at secret'.split(' '),
  },
  session: {
    table: 'sessions',
    isLeaf: false,
    columns: `id user_id factor_id not_after refreshed_at ip tag created_at updated_at aal user_agent
      refresh_token_counter refresh_token_hmac_key`.split(/\s+/),
  },
  method: {
    table: 'mfa_amr_claims',
    isLeaf: true,
    columns: 'id session_id authentication_method created_at updated_at'.split(' '),
  },
  token: {
    table: 'refresh_tokens',
    isLeaf: true,
    columns: 'id user_id session_id token revoked created_at updated_at'.split(' '),
  },
};

const KINDS = USER_KINDS.map((kind) => `'${kind}'`).join(', ');

/** Counts without writing. */
export async function countChanges(target: Connected): Promise<readonly Changes[]> {
  const rows = await target.query<Changes>(
    raw(`
    select kind, count(*) filter (where s.id is not null and r.id is null)::int as added,
      count(*) filter (where s.digest <> r.digest)::int as changed,
      count(*) filter (where s.id is null)::int as removed
    from pg_temp.import_stage s full join (select * from svc_meta.import_row
      where kind in (${KINDS})) r using (kind, id)
    group by kind`),
  );
  return USER_KINDS.map(
    (kind) => rows.find((row) => row.kind === kind) ?? { kind, added: 0, changed: 0, removed: 0 },
  );
}

export const isChange = ({ added, changed, removed }: Changes): boolean => added + changed + removed > 0;

/** All but the deletion of users, which may still have rows of the application. */
export async function writeUsers(target: Connected): Promise<void> {
  // An email address may have moved from one user to another.
  await target.query(sql`
    update auth.users set email = null, phone = null
    where id::text in (${GONE('user')}) or id::text in (select id from pg_temp.import_stage s
      where ${CHANGED('user')})`);
  for (const kind of USER_KINDS) {
    if (kind === 'password') await writePasswords(target);
    else await writeKind(target, kind, DESTINATIONS[kind]);
  }
  await target.query(
    raw(`
    insert into svc_meta.import_row (kind, id, digest) select kind, id, digest from pg_temp.import_stage
    on conflict (kind, id) do update set digest = excluded.digest where import_row.digest <> excluded.digest`),
  );
}

async function writeKind(
  target: Connected,
  kind: UserKind,
  { table, columns, isLeaf }: Destination,
): Promise<void> {
  const name = ident('auth', table);
  if (kind !== 'user') await target.query(sql`delete from ${name} where id::text in (${GONE(kind)})`);
  if (isLeaf) {
    await target.query(sql`
      delete from ${name} where id::text in (select id from pg_temp.import_stage s where ${CHANGED(kind)})`);
  }
  const list = join(columns.map((column) => ident(column)));
  const assignments = columns.map((column) => sql`${ident(column)} = ${ident('excluded', column)}`);
  await target.query(sql`
    insert into ${name} (${list})
    select ${join(columns.map((column) => ident('t', column)))}
    from pg_temp.import_stage s, jsonb_populate_record(null::${name}, s.row) t where ${CHANGED(kind)}
    on conflict (id) do update set ${join(assignments)}`);
}

async function writePasswords(target: Connected): Promise<void> {
  await target.query(sql`
    update auth.users set encrypted_password = null, password_set_at = null
    where id::text in (${GONE('password')})`);
  await target.query(sql`
    update auth.users u set encrypted_password = t.encrypted_password, password_set_at = t.password_set_at
    from pg_temp.import_stage s, jsonb_populate_record(null::auth.users, s.row) t
    where u.id = t.id and ${CHANGED('password')}`);
}

/** Deletes users that the source no longer has, and the records of all deleted rows. */
export async function deleteGoneUsers(target: Connected): Promise<void> {
  await target.query(sql`delete from auth.users where id::text in (${GONE('user')})`);
  await target.query(
    raw(`
    delete from svc_meta.import_row r where kind in (${KINDS})
      and not exists (select from pg_temp.import_stage s where s.kind = r.kind and s.id = r.id)`),
  );
}

/** Staged rows `s` that are new or differ. */
const CHANGED = (kind: UserKind): Sql => sql`
  s.kind = ${kind} and not exists (
    select from svc_meta.import_row r where r.kind = s.kind and r.id = s.id and r.digest = s.digest)`;

const GONE = (kind: UserKind): Sql => sql`
  select r.id from svc_meta.import_row r where r.kind = ${kind}
    and not exists (select from pg_temp.import_stage s where s.kind = r.kind and s.id = r.id)`;
