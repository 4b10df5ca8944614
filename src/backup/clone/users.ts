// Users in a clone. Credentials are never copied. On request, personal data is masked, too.
import { literal, raw, sql, type Sql } from '../../postgres/sql.ts';
import { maskText, type Mask, type MaskWay, type Salt } from './masks.ts';

const USERS = 'auth.users';

/** Columns with digests of mailed tokens. */
const TOKENS = [
  'confirmation_token',
  'recovery_token',
  'email_change_token_new',
  'email_change_token_current',
  'phone_change_token',
  'reauthentication_token',
  'email_change',
  'phone_change',
];

export type UserValues = {
  readonly users: ReadonlyMap<string, Sql>;
  readonly identities: ReadonlyMap<string, Sql>;
};

/**
 * Masks personal data if the address is masked or `keep` is set: address, phone, password, metadata, and provider
 * data. `keep`: pattern of the addresses to leave as they are, with `*` and `?`.
 */
export function userValues(
  masks: readonly Mask[],
  own: ReadonlyMap<string, Sql>,
  keep: string | undefined,
  salt: Salt,
): UserValues {
  const users = new Map<string, Sql>(TOKENS.map((column) => [column, raw(`''`)]));
  const asked = masks.find(({ table, column }) => table === USERS && column === 'email')?.way;
  const way: MaskWay | undefined = asked ?? (keep === undefined ? undefined : 'email');
  const masked = new Map(own);
  if (way !== undefined) {
    const hidden: ReadonlyArray<readonly [string, Sql]> = [
      ['email', maskText(raw('email'), way, salt)],
      ['phone', raw('null')],
      ['encrypted_password', raw('null')],
      ['raw_user_meta_data', raw(`'{}'::jsonb`)],
    ];
    for (const [column, value] of hidden) if (!masked.has(column)) masked.set(column, value);
  }
  for (const [column, value] of masked)
    users.set(
      column,
      keep === undefined
        ? value
        : sql`case when ${isKept(raw('email'), keep)} then ${raw(column)} else ${value} end`,
    );
  const identities = new Map<string, Sql>();
  if (way !== undefined) {
    const id = sql`case when provider in ('email', 'phone') then provider_id
      else ${maskText(raw('provider_id'), 'hash', salt)} end`;
    const data = sql`jsonb_strip_nulls(jsonb_build_object('sub', ${id}, 'email',
      ${maskText(raw(`(identity_data ->> 'email')`), way, salt)}))`;
    const kept =
      keep === undefined
        ? raw('false')
        : sql`exists (select from auth.users u where u.id = user_id and ${isKept(raw('u.email'), keep)})`;
    identities.set('provider_id', sql`case when ${kept} then provider_id else ${id} end`);
    identities.set('identity_data', sql`case when ${kept} then identity_data else ${data} end`);
  }
  return { users, identities };
}

function isKept(email: Sql, pattern: string): Sql {
  const like = pattern
    .toLowerCase()
    .replaceAll(/[\\%_]/g, (character) => `\\${character}`)
    .replaceAll('*', '%')
    .replaceAll('?', '_');
  return sql`coalesce(lower(${email}) like ${literal(like)}, false)`;
}
