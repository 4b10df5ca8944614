// Reports what an import would do with each part of the source: what moves, what stays behind, and what needs a
// decision. Only reads.
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { ident, join, literal, raw, sql } from '../postgres/sql.ts';
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import type { SourceKeys } from './encrypted-value.ts';
import { skippedFactors, readFactors } from './factors.ts';
import { ifReadable, inOneTransaction } from './source.ts';
import { inTarget } from './target.ts';
import { OPEN_SESSION } from './users.ts';
import { qualifiedName, EXCLUDED_SCHEMAS, pairTables, readTables, type Table } from './tables.ts';

export type Line = {
  readonly what: string;
  /** Undefined where it cannot be counted. */
  readonly count?: number | undefined;
  readonly why?: string | undefined;
};

export type Report = {
  readonly moves: readonly Line[];
  readonly stays: readonly Line[];
  /** Moves in another form. Requires attention before the cut-over. */
  readonly decide: readonly Line[];
};

/** The side that is written to, as far as it is there already. */
export type TargetFacts = { readonly tables: readonly Table[]; readonly buckets: readonly string[] };

export async function readTarget(address: DatabaseAddress): Promise<TargetFacts> {
  const enter = <T>(work: (target: Connected) => Promise<T>): Promise<T> =>
    inOneTransaction(address, 'read only', work);
  return await inTarget(address, enter<TargetFacts>, async (target) => {
    const [found] = await target.query<{ there: boolean }>(
      sql`select to_regclass('storage.buckets') is not null as there`,
    );
    const buckets = found?.there
      ? await target.query<{ id: string }>(sql`select id from storage.buckets order by id`)
      : [];
    return { tables: await readTables(target), buckets: buckets.map(({ id }) => id) };
  });
}

/** `target` is undefined where there is none yet. */
export async function makeReport(
  source: Connected,
  target: TargetFacts | undefined,
  keys: SourceKeys,
): Promise<Report> {
  const parts = [
    await usersReport(source, keys),
    await tablesReport(source, target),
    await filesReport(source, target),
    await otherReport(source),
  ];
  return {
    moves: parts.flatMap(({ moves }) => moves),
    stays: parts.flatMap(({ stays }) => stays),
    decide: parts.flatMap(({ decide }) => decide),
  };
}

const UNREADABLE = 'the role of the source may not read it';

/** Forms of users, with the column that counts them. */
const USER_FORMS: ReadonlyArray<
  readonly [column: string, list: 'moves' | 'stays' | 'decide', what: string, why?: string]
> = [
  ['bcrypt', 'moves', 'passwords as bcrypt'],
  ['argon2', 'moves', 'passwords as argon2'],
  ['fbscrypt', 'moves', 'passwords as Firebase scrypt'],
  [
    'encrypted',
    'decide',
    'encrypted passwords',
    'only the key of the source opens them; without it these users set a new password by mail',
  ],
  [
    'other',
    'stays',
    'passwords in an unknown form',
    'nothing here verifies them; these users set a new password by mail',
  ],
  [
    'anonymous',
    'decide',
    'anonymous users',
    'their role is anon here, and authenticated at the source: policies for authenticated do not hold for them',
  ],
  ['banned', 'moves', 'banned users, who stay banned'],
  ['deleted', 'moves', 'deleted users, who stay deleted'],
  ['sso', 'decide', 'single sign-on users', 'there is no SAML here: they are kept, and cannot sign in'],
  [
    'phone_only',
    'decide',
    'users with a phone number only',
    'there is no sign-in by phone here: they are kept',
  ],
  [
    'same_address',
    'decide',
    'users whose address differs from another only in capital letters',
    'the address stays as it is and cannot be signed in with: change one of each pair',
  ],
];

const ROWS_OF_AUTH: ReadonlyArray<readonly [table: string, why: string]> = [
  ['sso_providers', 'there is no SAML here'],
  ['saml_providers', 'there is no SAML here'],
  ['custom_oauth_providers', 'declare them in auth.providers of svc.yaml'],
  ['oauth_clients', 'svc is not an OAuth server'],
  ['oauth_consents', 'svc is not an OAuth server'],
  ['webauthn_credentials', 'there are no passkeys here'],
  ['audit_log_entries', 'the audit log starts empty'],
  ['one_time_tokens', 'links in mails that were sent already lead to the source'],
  ['flow_state', 'a sign-in that is under way is begun again'],
];

async function usersReport(source: Connected, keys: SourceKeys): Promise<Report> {
  const moves: Line[] = [];
  const stays: Line[] = [];
  const decide: Line[] = [];
  const lists = { moves, stays, decide };
  const add = (list: keyof typeof lists, item: string, count: number, why?: string): void => {
    if (count > 0) lists[list].push({ what: item, count, ...(why !== undefined && { why }) });
  };
  const counts = await ifReadable(source, () => source.query<Record<string, number>>(COUNT_USERS));
  const of = (column: string): number => counts?.[0]?.[column] ?? 0;
  if (counts === undefined) stays.push({ what: 'auth.users', why: UNREADABLE });
  add('moves', 'users', of('users'));
  for (const [column, list, what, why] of USER_FORMS) add(list, what, of(column), why);
  add('moves', 'identities', (await countRows(source, 'auth', 'identities')) ?? 0);
  const factors = await readFactors(source, keys);
  const left = skippedFactors(factors);
  add('moves', 'second factors', factors.length - left.length);
  for (const why of new Set(left.map((factor) => factor.why)))
    add(
      'decide',
      'second factors',
      left.filter((factor) => factor.why === why).length,
      `${why}: a user who has no other signs in with the password alone, and enrols a new one`,
    );
  decide.push(...left.slice(0, NAMED).map(({ name }) => ({ what: name, why: 'stays behind' })));
  add('decide', 'more second factors that stay behind', left.length - NAMED);
  const sessions = await ifReadable(source, () =>
    source.query<{ open: number; other: number }>(
      raw(`
      select count(*) filter (where ${OPEN_SESSION})::float8 as open,
        count(*) filter (where not (${OPEN_SESSION}))::float8 as other
      from auth.sessions s where not_after is null or not_after > now()`),
    ),
  );
  add('moves', 'sessions, whose refresh tokens keep working', sessions?.[0]?.open ?? 0);
  add(
    'stays',
    'sessions of OAuth clients, or without a refresh token that is valid',
    sessions?.[0]?.other ?? 0,
    'these users sign in again',
  );
  for (const [table, why] of ROWS_OF_AUTH)
    add('stays', `rows of auth.${table}`, (await countRows(source, 'auth', table)) ?? 0, why);
  return { moves, stays, decide };
}

/** Maximum number of listed users. */
export const NAMED = 20;

// Through JSON, because older projects lack some of the columns.
const COUNT_USERS = raw(`
  select count(*)::float8 as users,
    count(*) filter (where hash ~ '^\\$2[aby]\\$')::float8 as bcrypt,
    count(*) filter (where hash ~ '^\\$argon2(i|id)\\$')::float8 as argon2,
    count(*) filter (where hash like '$fbscrypt$%')::float8 as fbscrypt,
    count(*) filter (where hash like '{%')::float8 as encrypted,
    count(*) filter (where hash <> '' and hash !~ '^(\\$2[aby]\\$|\\$argon2(i|id)\\$|\\$fbscrypt\\$|\\{)')::float8 as other,
    count(*) filter (where u ->> 'is_anonymous' = 'true')::float8 as anonymous,
    count(*) filter (where (u ->> 'banned_until')::timestamptz > now())::float8 as banned,
    count(*) filter (where u ->> 'deleted_at' is not null)::float8 as deleted,
    count(*) filter (where u ->> 'is_sso_user' = 'true')::float8 as sso,
    count(*) filter (where coalesce(u ->> 'email', '') = ''
      and coalesce(u ->> 'phone', '') <> '')::float8 as phone_only,
    count(*) filter (where u ->> 'email' <> lower(u ->> 'email') and twins > 1)::float8 as same_address
  from (
    select to_jsonb(x) as u, coalesce(x.encrypted_password, '') as hash,
      count(*) over (partition by lower(x.email)) as twins
    from auth.users x) users`);

/** Returns undefined if the table is missing or not readable. */
async function countRows(source: Connected, schema: string, table: string): Promise<number | undefined> {
  const [found] = await source.query<{ there: boolean }>(
    sql`select to_regclass(${`${schema}.${table}`}) is not null as there`,
  );
  if (found?.there !== true) return undefined;
  const counted = await ifReadable(source, () =>
    source.query<{ count: number }>(sql`select count(*)::float8 as count from ${ident(schema, table)}`),
  );
  return counted?.[0]?.count;
}

async function tablesReport(source: Connected, target: TargetFacts | undefined): Promise<Report> {
  const tables = await readTables(source);
  if (target === undefined) {
    const unknown = tables.map((table) => ({
      what: `table ${qualifiedName(table)}`,
      why: 'which tables the target has is not known: set SVC_DATABASE_URL',
    }));
    return { moves: [], stays: unknown, decide: [] };
  }
  const { pairs, left } = pairTables(tables, target.tables);
  const moves: Line[] = [];
  const decide: Line[] = [];
  for (const pair of pairs) {
    moves.push({
      what: `rows of ${qualifiedName(pair)}`,
      count: await countRows(source, pair.schema, pair.name),
    });
    if (pair.key.length === 0)
      decide.push({
        what: `rows of ${qualifiedName(pair)}`,
        why: 'it has no primary key: whenever it differs, all of it is copied',
      });
  }
  return { moves, decide, stays: left.map(({ name, why }) => ({ what: name, why })) };
}

async function filesReport(source: Connected, target: TargetFacts | undefined): Promise<Report> {
  const buckets = await ifReadable(source, () =>
    source.query<{ id: string; objects: number; bytes: number }>(
      raw(`
      select b.id, count(o.id)::float8 as objects, coalesce(sum((o.metadata ->> 'size')::numeric), 0)::float8 as bytes
      from storage.buckets b left join storage.objects o on o.bucket_id = b.id
      group by b.id order by b.id`),
    ),
  );
  const moves: Line[] = [];
  const stays: Line[] = [];
  for (const { id, objects, bytes } of buckets ?? []) {
    const line = { what: `files of bucket ${id} (${bytes} bytes)`, count: objects };
    if (target?.buckets.includes(id)) moves.push(line);
    else
      stays.push({
        ...line,
        why: `the target has no such bucket: declare storage.${id} in svc.yaml, and svc makes it when it starts`,
      });
  }
  if (buckets === undefined) stays.push({ what: 'storage.buckets', why: UNREADABLE });
  return { moves, stays, decide: [] };
}

/** Other objects of a project, with advice. Contains only names, because bodies may contain secrets. */
const OTHERS: ReadonlyArray<readonly [relation: string, query: string, why: string]> = [
  [
    'pg_policies',
    `select 'policy on storage.' || tablename || ': ' || policyname as what from pg_policies
      where schemaname = 'storage' order by 1`,
    'svc import supabase prepare writes it under storage.<bucket>.rls',
  ],
  [
    'pg_policies',
    `select 'policy on realtime.' || tablename || ': ' || policyname as what from pg_policies
      where schemaname = 'realtime' and tablename = 'messages' order by 1`,
    'svc import supabase prepare writes it under realtime.rls',
  ],
  [
    'pg_trigger',
    `select 'trigger ' || tgname || ' on auth.users' as what from pg_trigger
      where tgrelid = to_regclass('auth.users') and not tgisinternal order by 1`,
    'write it in svc.yaml; it does not fire for users that are imported',
  ],
  [
    'cron.job',
    `select 'cron job ' || jobid as what from cron.job order by jobid`,
    'declare it under schedules in svc.yaml',
  ],
  [
    'vault.secrets',
    `select 'vault secret ' || coalesce(name, id::text) as what from vault.secrets order by 1`,
    'put it into the environment of svc',
  ],
  [
    'pg_publication_tables',
    `select 'realtime changes of ' || schemaname || '.' || tablename as what
      from pg_publication_tables where pubname = 'supabase_realtime' order by 1`,
    'svc import supabase prepare writes realtime: true on the table',
  ],
  [
    'pg_trigger',
    `select 'webhook ' || tgname as what from pg_trigger t join pg_proc p on p.oid = t.tgfoid
      join pg_namespace n on n.oid = p.pronamespace
      where n.nspname = 'supabase_functions' and not tgisinternal order by 1`,
    'call the address from a function',
  ],
];

async function otherReport(source: Connected): Promise<Report> {
  const stays: Line[] = [];
  for (const [relation, query, why] of OTHERS) {
    const [found] = await source.query<{ there: boolean }>(
      sql`select to_regclass(${relation}) is not null as there`,
    );
    if (found?.there !== true) continue;
    const rows = await ifReadable(source, () => source.query<{ what: string }>(raw(query)));
    if (rows === undefined) stays.push({ what: relation, why: UNREADABLE });
    for (const { what } of rows ?? []) stays.push({ what, why });
  }
  stays.push({
    what: 'edge functions',
    why: 'they are not in the database: rewrite them under functions/',
  });
  return { moves: [], decide: await definerFunctions(source), stays };
}

/** Returns functions with the rights of their owner. Their callers bypass policies. */
async function definerFunctions(source: Connected): Promise<Line[]> {
  const rows = await source.query<{ what: string; callers: string; pinned: boolean }>(sql`
    select 'function ' || n.nspname || '.' || p.proname
        || '(' || pg_get_function_identity_arguments(p.oid) || ')' as what,
      (select coalesce(string_agg(distinct case when x.grantee = 0 then 'PUBLIC'
        else x.grantee::regrole::text end, ', '), '')
        from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
        where x.grantee = 0 or x.grantee::regrole::text in ('anon', 'authenticated')) as callers,
      exists (select from unnest(p.proconfig) one where one like 'search_path=%' and one not like '%$user%') as pinned
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where p.prosecdef and p.prorettype <> 'trigger'::regtype and n.nspname !~ '^pg_'
      and n.nspname not in (${join(EXCLUDED_SCHEMAS.map(literal))})
      and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid
        and d.deptype = 'e')
    order by 1`);
  return rows
    .filter(({ callers, pinned }) => callers !== '' || !pinned)
    .map(({ what, callers, pinned }) => ({
      what,
      why: [
        'it runs with the rights of its owner',
        ...(callers === '' ? [] : [`and ${callers} may execute it`]),
        ...(callers === 'PUBLIC' ? ['by default only: prepare writes expose: false'] : []),
        ...(pinned ? [] : ['it has no search_path: prepare sets one']),
      ].join('; '),
    }));
}
