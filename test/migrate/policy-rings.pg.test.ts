// Tests that policies have the same meaning as their text in PostgreSQL, even if policies of several tables read each
// other.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { OPEN_RINGS, RINGS } from './policy-ring-cases.ts';
import { aWorld, type World } from './world.ts';

let world: World;
let client: pg.Client;
beforeAll(async () => {
  world = await aWorld();
  client = new pg.Client(world.url);
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await world.close();
});
beforeEach(async () => {
  await world.empty();
  await world.sql(`grant usage on schema storage to anon, authenticated, service_role;
    grant select, insert, update, delete on storage.objects to anon, authenticated, service_role;
    alter table storage.objects enable row level security;
    truncate storage.objects cascade;
    insert into storage.buckets (id, name) values ('files', 'files') on conflict do nothing`);
});

const ANN = '00000000-0000-4000-8000-00000000000a';
const BOB = '00000000-0000-4000-8000-00000000000b';
const CAT = '00000000-0000-4000-8000-00000000000c';
type Caller = 'anon' | 'service_role' | typeof ANN | typeof BOB | typeof CAT;

/** Returns the rows or the error code that a caller gets. Rolls back. */
async function runAs(caller: Caller, statement: string): Promise<unknown> {
  const isUser = caller === ANN || caller === BOB || caller === CAT;
  await client.query('begin');
  try {
    await client.query(`select set_config('request.jwt.claims', $1, true)`, [
      JSON.stringify(isUser ? { sub: caller, role: 'authenticated' } : { role: caller }),
    ]);
    await client.query(`set local role ${isUser ? 'authenticated' : caller}`);
    const result = await client.query({ text: statement, rowMode: 'array' });
    return result.rows.map((row) => (row.length === 1 ? row[0] : row));
  } catch (error) {
    if (error instanceof pg.DatabaseError) return error.code;
    throw error;
  } finally {
    await client.query('rollback');
  }
}

const printed = async (where = `schemaname = 'public'`): Promise<string[]> =>
  (
    await world.sql(
      `select tablename || ' ' || cmd || ' ' || coalesce(qual, '') || coalesce(with_check, '') as text
       from pg_policies where ${where} order by 1`,
    )
  ).map((row) => String(row['text']));

const policy = (operations: string, check: string): string =>
  `      - { operations: [${operations}], check: "${check}" }\n`;

const table = (name: string, fields: readonly string[], ...policies: readonly string[]): string =>
  `  ${name}:\n    fields:\n${['{ name: id, type: integer, primary_key: true }', ...fields]
    .map((field) => `      - ${field}\n`)
    .join('')}    rls:${policies.length === 0 ? ' []' : ''}\n${policies.join('')}`;

const OWNER = '{ name: owner_id, type: uuid }';
const USER = '{ name: user_id, type: uuid }';
const DOC = '{ name: doc_id, type: integer }';

const ownsDoc = 'exists (select 1 from docs d where d.id = doc_id and d.owner_id = auth.uid())';
const shares = table(
  'shares',
  [DOC, USER],
  policy('select', 'user_id = auth.uid()'),
  policy('insert, delete', ownsDoc),
  policy('update', ownsDoc),
);
const docs = table(
  'docs',
  [OWNER],
  policy(
    'select',
    'owner_id = auth.uid() or exists (select 1 from shares s where s.doc_id = docs.id and s.user_id = auth.uid())',
  ),
  policy('insert, update, delete', 'owner_id = auth.uid()'),
);
const pair = `tables:\n${docs}${shares}`;
const rows = `insert into docs values (1, '${ANN}'), (2, '${BOB}'); insert into shares values (1, 1, '${BOB}')`;

const QUESTIONS: ReadonlyArray<readonly [string, Partial<Record<'anon' | 'ann' | 'bob' | 'cat', unknown>>]> =
  [
    ['select id from docs order by 1', { anon: [], ann: [1], bob: [1, 2], cat: [] }],
    [`insert into docs values (9, '${ANN}')`, { anon: '42501', ann: [], bob: '42501', cat: '42501' }],
    ['update docs set id = id + 10 returning id', { anon: [], ann: [11], bob: [12], cat: [] }],
    ['delete from docs returning id', { anon: [], ann: [1], bob: [2], cat: [] }],
    ['select id from shares', { anon: [], ann: [], bob: [1], cat: [] }],
    [`insert into shares values (2, 1, '${CAT}')`, { anon: '42501', ann: [], bob: '42501', cat: '42501' }],
    ['update shares set id = 5', { anon: [], ann: [], bob: [], cat: [] }],
    ['delete from shares', { anon: [], ann: [], bob: [], cat: [] }],
  ];
const CALLERS = { anon: 'anon', ann: ANN, bob: BOB, cat: CAT } as const;

async function expectPairWorks(): Promise<void> {
  for (const [statement, expected] of QUESTIONS) {
    for (const name of ['anon', 'ann', 'bob', 'cat'] as const)
      expect.soft(await runAs(CALLERS[name], statement), `${name}: ${statement}`).toEqual(expected[name]);
  }
  expect(await runAs('service_role', `delete from shares returning id`)).toEqual([1]);
}

describe('documents and their shares', () => {
  test('each operation has the declared result for each caller', async () => {
    await world.settle(pair);
    await world.sql(rows);
    await expectPairWorks();
    // These policies call auth.uid() without a sub-select.
    expect((await printed()).filter((text) => /auth\.uid\(\)(?! AS uid)/.test(text))).toEqual([
      'docs UPDATE (owner_id = auth.uid())',
      'shares SELECT (user_id = auth.uid())',
    ]);
  });

  test('a change of one table changes policies of the other, and the reverse change restores them', async () => {
    const plainDocs = table(
      'docs',
      [OWNER],
      policy('select, insert, update, delete', 'owner_id = auth.uid()'),
    );
    const apart = `tables:\n${plainDocs}${shares}`;
    await world.settle(apart);
    expect(await printed()).toContain('shares SELECT (user_id = ( SELECT auth.uid() AS uid))');
    await world.sql(rows);
    await world.settle(pair);
    await expectPairWorks();
    await world.settle(apart);
    expect(await printed()).toContain('shares SELECT (user_id = ( SELECT auth.uid() AS uid))');
  });

  test('a start corrects a database that an earlier version migrated', async () => {
    await world.settle(pair);
    await world.sql(rows);
    const [found] = await world.sql(
      `select policyname as name from pg_policies where tablename = 'shares' and cmd = 'SELECT'`,
    );
    await world.sql(
      `alter policy "${String(found?.['name'])}" on shares using (user_id = (select auth.uid()))`,
    );
    expect(await runAs(ANN, `insert into shares values (2, 1, '${CAT}')`)).toBe('42P17');
    // The state of such a database: in sync, with an earlier engine version.
    await world.sql(
      `update svc_meta.object set declared_hash = 'of before' where identity = 'table public.shares'`,
    );
    await world.sql(`update svc_meta.stamp set engine_version = 2, complete = true`);
    await world.settle(pair);
    await expectPairWorks();
  });

  test('an undeclared policy counts too', async () => {
    const apart = `tables:\n${docs}${table('shares', [DOC, USER], policy('select', 'user_id = auth.uid()'))}`;
    await world.settle(apart);
    expect(await printed()).toContain('shares SELECT (user_id = ( SELECT auth.uid() AS uid))');
    await world.sql(rows);
    await world.sql(`create policy by_hand on shares for insert to authenticated with check (${ownsDoc})`);
    await world.settle(apart);
    expect(await runAs(ANN, `insert into shares values (2, 1, '${CAT}')`)).toEqual([]);
  });
});

test('three tables whose circle only a plain policy prevents', async () => {
  await world.settle(`tables:
${table('a', [OWNER], policy('select', 'owner_id = auth.uid() or exists (select 1 from b where b.id = a.id)'))}
${table('b', [OWNER], policy('select', 'exists (select 1 from c where c.id = b.id)'))}
${table(
  'c',
  [OWNER],
  policy('select', 'owner_id = auth.uid()'),
  policy('insert, update, delete', 'id in (select x.id from public.a as x)'),
)}`);
  await world.sql(
    `insert into a values (1, '${ANN}'); insert into b values (1); insert into c values (1, '${BOB}')`,
  );
  expect(await runAs(BOB, 'select id from a')).toEqual([1]);
  expect(await runAs(BOB, 'delete from c returning id')).toEqual([1]);
  expect(await runAs(BOB, 'update c set owner_id = owner_id returning id')).toEqual([1]);
});

test('PostgreSQL rejects a policy that reads its own table, and a security definer function works', async () => {
  const members = (mine: string): string =>
    `tables:\n${table('members', ['{ name: team, type: integer }', USER], policy('select', mine))}`;
  await world.settle(members('team in (select m.team from members m where m.user_id = auth.uid())'));
  await world.sql(`insert into members values (1, 1, '${ANN}'), (2, 1, '${BOB}'), (3, 2, '${CAT}')`);
  expect(await runAs(ANN, 'select id from members')).toBe('42P17');
  await world.settle(`${members('user_id = auth.uid() or is_member(team)')}
rpc:
  is_member:
    security: definer
    volatility: stable
    args: [{ name: one, type: integer }]
    language: sql
    returns: { type: boolean }
    body: select exists (select from members where team = one and user_id = auth.uid())
`);
  expect(await runAs(ANN, 'select id from members order by 1')).toEqual([1, 2]);
  expect((await printed())[0]).toContain('SELECT auth.uid() AS uid');
});

test('policies of buckets count too', async () => {
  const readers = policy('select', 'owner_id = auth.uid() or file in (select name from storage.objects)');
  await world.settle(`tables:
${table('docs', [OWNER, '{ name: file, type: text }'], readers)}
storage:
  files:
    rls:
      - { operations: [select], check: "owner_id = auth.uid()::text" }
      - { operations: [insert, delete], check: "exists (select 1 from public.docs d where d.file = objects.name)" }
`);
  await world.sql(`insert into docs values (1, '${ANN}', 'f'), (2, '${BOB}', 'g');
    insert into storage.objects (bucket_id, name, owner_id) values ('files', 'g', '${ANN}')`);
  expect(await runAs(ANN, 'select id from docs order by 1')).toEqual([1, 2]);
  expect(await runAs(ANN, `insert into storage.objects (bucket_id, name) values ('files', 'f')`)).toEqual([]);
  expect(await runAs(ANN, `insert into storage.objects (bucket_id, name) values ('files', 'h')`)).toBe(
    '42501',
  );
  expect(await runAs(ANN, `delete from storage.objects returning name`)).toEqual(['g']);
});

test('an undeclared view can close a circle', async () => {
  const file = (reads: string): string => {
    const isShared = `exists (select 1 from ${reads} s where s.doc_id = docs.id)`;
    return `tables:\n${table('docs', [OWNER], policy('select', `owner_id = auth.uid() or ${isShared}`))}${shares}`;
  };
  await world.settle(`tables:\n${shares.replaceAll(ownsDoc, 'true')}`);
  await world.sql(`create view shared with (security_invoker) as select * from shares;
    alter view shared owner to svc_owner; grant select on shared to authenticated`);
  await world.settle(file('shared'));
  await world.sql(rows);
  expect(await runAs(BOB, 'select id from docs order by 1')).toEqual([1, 2]);
  expect(await runAs(ANN, `insert into shares values (2, 1, '${CAT}')`)).toEqual([]);
});

test('without circular references the caller is looked up once per statement', async () => {
  await world.settle(`tables:
${table('notes', [OWNER], policy('select, insert, update, delete', 'owner_id = auth.uid()'))}
${table('tags', [OWNER], policy('select', 'owner_id = auth.uid() or id in (select n.id from public.notes n)'))}
storage:
  files:
    rls:
      - { operations: [select], check: "owner_id = auth.uid()::text and exists (select 1 from notes)" }
`);
  await world.sql(`insert into notes select n, '${ANN}' from generate_series(1, 100) n`);
  const bare = (await printed(`true`)).filter((text) => /auth\.uid\(\)(?! AS uid)/.test(text));
  expect(bare).toEqual([]);
  expect(JSON.stringify(await runAs(ANN, 'explain (costs off) select * from notes'))).toContain('InitPlan');
});

test('a function call in FROM is not wrapped', async () => {
  const own = policy('select', 'exists (select 1 from auth.uid() as me where me = owner_id)');
  await world.settle(`tables:\n${table('notes', [OWNER], own)}`);
  await world.sql(`insert into notes values (1, '${ANN}')`);
  expect(await runAs(ANN, 'select id from notes')).toEqual([1]);
  expect(await runAs(BOB, 'select id from notes')).toEqual([]);
});

describe('svc validate finds the same circular references as PostgreSQL', () => {
  test.each(RINGS.map((ring) => [ring.what, ring] as const))('%s', async (_name, { file, fails }) => {
    await world.settle(file);
    expect(await runAs(ANN, fails)).toBe('42P17');
  });

  test.each(OPEN_RINGS.map((ring) => [ring.what, ring] as const))(
    '%s has no circular reference',
    async (_name, { file, works }) => {
      await world.settle(file);
      expect(await runAs(ANN, works)).not.toBe('42P17');
    },
  );
});
