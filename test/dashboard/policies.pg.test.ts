// POST /dashboard/api/policies/explain agrees with PostgreSQL: each verdict is compared with a real select, update
// and delete of the row as the same caller.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ExplainPolicies, OperationVerdict } from '../../src/dashboard-api/contract.ts';
import { policiesRoutes } from '../../src/dashboard-api/routes/explain-policies.ts';
import { signToken } from '../../src/identity/token.ts';
import { ident, raw, sql } from '../../src/postgres/sql.ts';
import { startRoutesWorld, type RoutesWorld } from '../support/dashboard/dashboard-routes-world.ts';
import { sideBySide } from '../support/side-by-side.ts';
import { scaled } from '../support/run/scaled.ts';

const ADA = '11111111-1111-4111-8111-111111111111';
const BOB = '22222222-2222-4222-8222-222222222222';
const GUEST = '33333333-3333-4333-8333-333333333333';
const OTHER_SCHEMA = 'Other Place';

/** Tables and policies in SQL: every combination that svc.yaml can express, and those it cannot. */
const SCHEMA = `
  create table open_one (id int primary key, note text);
  create table closed (id int primary key, note text);
  alter table closed enable row level security;
  create table owned (id int primary key, owner uuid, note text, data jsonb, amount numeric, big bigint);
  alter table owned enable row level security;
  create policy mine on owned to authenticated using (owner = auth.uid());
  create policy public_note on owned for select using (note = 'public');
  create policy no_locked on owned as restrictive for update using (note <> 'locked') with check (note <> 'frozen');
  create table shop.orders (id int, line int, buyer uuid, primary key (id, line));
  alter table shop.orders enable row level security;
  create policy by_claims on shop.orders
    using (buyer::text = current_setting('request.jwt.claims', true)::json ->> 'sub');
  create table member (team int, who uuid, primary key (team, who));
  alter table member enable row level security;
  create policy self on member for select using (who = auth.uid());
  create table teams (id int primary key, team int);
  alter table teams enable row level security;
  create policy of_members on teams for select
    using (exists (select from member m where m.team = teams.team));
  create policy whole_row on teams for update using (team_is_even(teams)) with check (team_is_even(teams.*));
  create policy of_members_delete on teams for delete using (teams.id = 1);
  create table failing (id int primary key, n int, ok boolean);
  alter table failing enable row level security;
  create policy a_error on failing for select using (1 / n > 0);
  create policy b_true on failing for select using (ok);
  create table failing_last (id int primary key, n int, ok boolean);
  alter table failing_last enable row level security;
  create policy a_true on failing_last for select using (ok);
  create policy b_error on failing_last for select using (1 / n > 0);
  create table nulls (id int primary key, flag boolean, data jsonb);
  alter table nulls enable row level security;
  create policy flagged on nulls for select using (flag);
  create policy json_null on nulls for select using (data = 'null'::jsonb);
  create policy insert_only_check on nulls for all with check (true);
  create table role_bound (id int primary key);
  alter table role_bound enable row level security;
  create policy for_service on role_bound to service_role using (true);
  create policy for_anon on role_bound for select to anon using (true);
  create table ungranted (id int primary key);
  create table readable (id int primary key);
  create table "Odd ""Name" ("Odd ""Name" int primary key, "select" text);
  alter table "Odd ""Name" enable row level security;
  create policy "it's" on "Odd ""Name" for select using ("select" = 'yes' and "Odd ""Name" > 0);
  create table ${ident(OTHER_SCHEMA).compile().text}.things (id int primary key, ok boolean);
  alter table ${ident(OTHER_SCHEMA).compile().text}.things enable row level security;
  create policy p on ${ident(OTHER_SCHEMA).compile().text}.things using (ok);
  create table forced (id int primary key, at timestamptz, span interval, raw bytea, list text[], r int4range);
  alter table forced enable row level security;
  create policy typed on forced for select
    using (at > '2020-01-01' and span > '1 hour' and raw = '\\\\xff00' and list[2] = 'a,"b' and 5 <@ r);
`;

const TABLES = [
  'open_one',
  'closed',
  'owned',
  'shop.orders',
  'member',
  'teams',
  'failing',
  'failing_last',
  'nulls',
  'role_bound',
  'ungranted',
  'readable',
  'Odd "Name',
  `${OTHER_SCHEMA}.things`,
  'forced',
];

const SEED = `
  insert into auth.users (id, email) values ('${ADA}', 'ada@example.com'), ('${BOB}', 'bob@example.com');
  insert into auth.users (id, is_anonymous) values ('${GUEST}', true);
  insert into open_one values (1, 'x');
  insert into closed values (1, 'x');
  insert into owned values (1, '${ADA}', 'private', 'null', 1.10, 9007199254740993);
  insert into owned values (2, '${ADA}', 'locked'), (3, '${ADA}', 'frozen'), (4, '${BOB}', 'public'), (5, null, null);
  insert into shop.orders values (1, 1, '${ADA}'), (1, 2, '${BOB}');
  insert into member values (1, '${ADA}'), (2, '${BOB}');
  insert into teams values (1, 1), (2, 2), (3, 3);
  insert into failing values (1, 0, true), (20, 0, false), (21, 1, false);
  insert into failing_last values (1, 0, true), (20, 0, false), (21, 1, false);
  insert into nulls values (1, true, null), (2, false, null), (3, null, null), (4, false, 'null');
  insert into role_bound values (1);
  insert into ungranted values (1);
  insert into readable values (1);
  insert into "Odd ""Name" values (1, 'yes'), (2, 'no');
  insert into ${ident(OTHER_SCHEMA).compile().text}.things values (1, true), (2, false);
  insert into forced values (1, now(), '2 hours', '\\xff00', array['x', 'a,"b'], '[1,10)'),
    (2, 'infinity', '1 year', '\\xff', array[null, ''], 'empty');
`;

let world: RoutesWorld;
let superusers: pg.Pool;

beforeAll(async () => {
  const schemas = `create schema shop; create schema ${ident(OTHER_SCHEMA).compile().text};`;
  const rights = `
    grant usage on schema shop, ${ident(OTHER_SCHEMA).compile().text} to anon, authenticated, service_role;
    grant all on all tables in schema public, shop, ${ident(OTHER_SCHEMA).compile().text} to anon,
      authenticated, service_role;
    revoke all on ungranted, readable from anon, authenticated;
    grant select on readable to anon, authenticated;`;
  // A function over the row type must be created after the table and before the policy that calls it.
  const [head = '', tail = ''] = SCHEMA.split('  create policy whole_row');
  world = await startRoutesWorld({
    yaml: `
version: 1
expose:
  relations: ${JSON.stringify(TABLES.map((name) => ({ name })))}
`,
    routes: [policiesRoutes],
    before: `${schemas} ${head}
      create function team_is_even(t teams) returns boolean language sql as 'select t.id % 2 = 0';
      create policy whole_row${tail} ${rights} ${SEED}`,
  });
  superusers = new pg.Pool({ connectionString: world.superuserUrl, max: 4 });
});
afterAll(async () => {
  await superusers.end();
  await world.close();
});

const CALLERS = ['service', 'anon', `user:${ADA}`, `user:${BOB}`, `user:${GUEST}`];

type Target = { schema: string; table: string; keys: string[] };

async function explain(
  target: Target,
  caller: string,
  key: Record<string, string>,
): Promise<ExplainPolicies> {
  const { schema, table } = target;
  const answer = await world.call('POST', '/policies/explain', { schema, table, caller, key });
  if (answer.status !== 200) throw new Error(`${schema}.${table} as ${caller}: ${answer.text}`);
  return answer.json as ExplainPolicies;
}

test(
  'every verdict is what PostgreSQL does, for every row, caller and operation',
  { timeout: scaled(240_000) },
  async () => {
    const wrong: string[] = [];
    const seen = new Set<string>();
    await sideBySide(world.context.snapshot().catalog.relations.values(), 4, async (relation) => {
      const target = { schema: relation.schema, table: relation.name, keys: [...relation.primaryKey] };
      const name = ident(relation.schema, relation.name);
      const rows = await world.owner.query<{ all: Record<string, unknown>; row: string }>(
        sql`select to_jsonb(t) as all, t::text as row from ${name} t`,
      );
      const [first = ''] = relation.columns.map((column) => column.name);
      expect(rows.length).toBeGreaterThan(0);
      for (const { all, row } of rows) {
        const key = Object.fromEntries(target.keys.map((column) => [column, String(all[column])]));
        for (const caller of CALLERS) {
          const explained = await explain(target, caller, key);
          for (const { operation, allowed, reason } of explained.operations) {
            const really = await happens(target, { key, row, column: first }, caller, operation, explained);
            seen.add(`${operation} ${String(really)}`);
            if (really !== allowed)
              wrong.push(
                `${target.table} ${JSON.stringify(key)} ${operation} as ${caller}: ` +
                  `verdict ${String(allowed)} (${reason}), PostgreSQL ${String(really)}`,
              );
          }
        }
      }
    });
    expect(wrong).toEqual([]);
    // Every operation was allowed at least once and refused at least once.
    expect(seen.size).toBe(8);
  },
);

/**
 * Returns whether the operation succeeds: selects through the data API, the others in a transaction that is rolled
 * back.
 */
async function happens(
  target: Target,
  stored: { readonly key: Readonly<Record<string, string>>; readonly row: string; readonly column: string },
  caller: string,
  operation: OperationVerdict['operation'],
  { role, claims }: ExplainPolicies,
): Promise<boolean> {
  const { key, row } = stored;
  if (operation === 'select') return await isRead(target, caller, key, claims);
  const name = ident(target.schema, target.table);
  const isThis = Object.entries(key)
    .map(([column, value]) => sql`t.${ident(column)} = ${value}`)
    .reduce((all, item) => sql`${all} and ${item}`);
  const column = ident(stored.column);
  // Update or insert the unchanged row, so that only policies can reject it.
  const statement =
    operation === 'update'
      ? sql`update ${name} as t set ${column} = t.${column} where ${isThis}`
      : operation === 'delete'
        ? sql`delete from ${name} as t where ${isThis}`
        : sql`insert into ${name} select r.* from jsonb_populate_record(${row}::${name}, '{}') as r`;
  // Only a superuser can set any role, and first delete a row that the caller could not delete.
  const client = await superusers.connect();
  const become = `set local role ${role}; set local "request.jwt.claims" = ${pg.escapeLiteral(JSON.stringify(claims))}`;
  try {
    if (operation === 'insert') {
      await client.query('begin');
      await client.query(sql`delete from ${name} as t where ${isThis}`.compile());
      await client.query(become);
    } else {
      await client.query(`begin; ${become}`);
    }
    const { rowCount } = await client.query(statement.compile());
    return rowCount === 1;
  } catch (error) {
    if (error instanceof pg.DatabaseError) return false;
    throw error;
  } finally {
    await client.query('rollback');
    client.release();
  }
}

async function isRead(
  { schema, table }: Target,
  caller: string,
  key: Readonly<Record<string, string>>,
  claims: Readonly<Record<string, unknown>>,
): Promise<boolean> {
  const { keys, signingKeys } = world.context;
  const headers: Record<string, string> = {
    apikey: caller === 'service' ? keys.secret : keys.publishable,
    'accept-profile': schema,
  };
  if (caller.startsWith('user:'))
    headers['authorization'] = `Bearer ${await signToken({ ...claims }, signingKeys.signing)}`;
  const query = Object.entries(key).map(
    ([column, value]) => `${encodeURIComponent(`"${column.replaceAll('"', '\\"')}"`)}=eq.${value}`,
  );
  const answer = await fetch(`${world.url}/rest/v1/${encodeURIComponent(table)}?${query.join('&')}`, {
    headers,
  });
  const rows: unknown = await answer.json();
  return answer.ok && Array.isArray(rows) && rows.length === 1;
}

const public_ = (table: string): Target => ({ schema: 'public', table, keys: ['id'] });
const findVerdict = (explained: ExplainPolicies, operation: string): OperationVerdict => {
  const found = explained.operations.find((item) => item.operation === operation);
  if (!found) throw new Error(`no verdict on ${operation}`);
  return found;
};

test('a verdict names the deciding policy and the result of each one', async () => {
  const explained = await explain(public_('owned'), `user:${BOB}`, { id: '1' });
  expect(explained).toMatchObject({
    role: 'authenticated',
    claims: { sub: BOB, role: 'authenticated', email: 'bob@example.com', aal: 'aal1' },
    rowSecurity: true,
    // JavaScript would round 2^53 + 1.
    row: { id: 1, owner: ADA, note: 'private', amount: 1.1, big: '9007199254740993' },
  });
  const select = findVerdict(explained, 'select');
  expect(select).toMatchObject({ allowed: false, granted: true });
  expect(select.policies).toEqual([
    {
      name: 'mine',
      permissive: true,
      applies: true,
      using: { sql: 'owner = auth.uid()', outcome: { kind: 'false' } },
      withCheck: null,
    },
    {
      name: 'public_note',
      permissive: true,
      applies: true,
      using: { sql: "note = 'public'::text", outcome: { kind: 'false' } },
      withCheck: null,
    },
  ]);
  expect(findVerdict(await explain(public_('owned'), `user:${ADA}`, { id: '2' }), 'update').reason).toBe(
    'The restrictive policy "no_locked" refuses: its USING is false.',
  );
  expect(findVerdict(await explain(public_('owned'), `user:${ADA}`, { id: '3' }), 'update').reason).toBe(
    'The restrictive policy "no_locked" refuses: its WITH CHECK is false.',
  );
  expect(findVerdict(await explain(public_('owned'), 'anon', { id: '4' }), 'select').policies).toMatchObject([
    { name: 'mine', applies: false },
    { name: 'public_note', applies: true, using: { outcome: { kind: 'true' } } },
  ]);
});

test('errors and nulls are outcomes with a reason', async () => {
  const failing = findVerdict(await explain(public_('failing'), 'anon', { id: '20' }), 'select');
  expect(failing.policies[0]?.using?.outcome).toEqual({ kind: 'error', message: 'division by zero' });
  expect(failing.reason).toContain('division by zero');
  const nulls = findVerdict(await explain(public_('nulls'), 'anon', { id: '3' }), 'select');
  expect(nulls.policies.map(({ using }) => using?.outcome.kind)).toContain('null');
});

test('no policy is evaluated without a privilege, without row security or with a bypass', async () => {
  const reason = async (table: string, caller: string): Promise<string> =>
    findVerdict(await explain(public_(table), caller, { id: '1' }), 'select').reason;
  expect(await reason('ungranted', 'anon')).toBe(
    'The role anon has no SELECT privilege on public.ungranted.',
  );
  expect(await reason('open_one', 'anon')).toBe('Row-level security is off: public.open_one is open.');
  expect(await reason('closed', 'service')).toBe('The role service_role bypasses row-level security.');
  expect(await reason('closed', 'anon')).toContain('No permissive select policy applies to the role anon');
  expect(findVerdict(await explain(public_('readable'), 'anon', { id: '1' }), 'update').granted).toBe(false);
});

test('side effects of evaluating a policy are rolled back', async () => {
  await world.owner.query(
    raw(`create table touched (n int); grant all on touched to anon;
      create function touch() returns boolean language sql security definer
        as 'insert into touched values (1) returning true';
      create policy touching on closed for select using (touch())`),
  );
  const explained = await explain(public_('closed'), 'anon', { id: '1' });
  expect(findVerdict(explained, 'select').allowed).toBe(true);
  expect(await world.owner.query(raw('select * from touched'))).toEqual([]);
  await world.owner.query(raw('drop policy touching on closed'));
});

test.each([
  ['an unknown table', { table: 'nothing' }, 404, 'relation_not_found'],
  [
    'an internal table of svc',
    { schema: 'auth', table: 'users', key: { id: ADA } },
    404,
    'relation_not_found',
  ],
  ['an unknown row', { key: { id: '99' } }, 404, 'row_not_found'],
  ['an unknown user', { caller: 'user:99999999-9999-4999-8999-999999999999' }, 404, 'not_found'],
  ['a key that is not a number', { key: { id: "1' or true --" } }, 400, 'bad_body'],
  ['a key of another column', { key: { note: 'x' } }, 400, 'bad_body'],
  ['an unknown caller', { caller: 'postgres' }, 400, 'bad_body'],
  ['a user that is not an id', { caller: 'user:1' }, 400, 'bad_body'],
])('%s is refused', async (_what, change, status, code) => {
  const answer = await world.call('POST', '/policies/explain', {
    schema: 'public',
    table: 'owned',
    caller: 'anon',
    key: { id: '1' },
    ...change,
  });
  expect([answer.status, answer.json.code]).toEqual([status, code]);
});
