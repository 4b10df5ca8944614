// Function bodies that PostgreSQL parses at creation (`atomic`): it records their dependencies, which block changes.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
});

const FILE = `
tables:
  items:
    rls: [{ operations: [select], using: price_of(id) > 0 }]
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: title, type: text }
      - { name: price, type: integer, required: true, check: doubled(price) < 2000 }
  sales:
    rls: []
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: item_id, type: bigint, foreign_key: { references: items.id } }
      - { name: amount, type: integer, default: { sql: usual_amount() } }
views:
  cheap: { query: "select id, price from items where doubled(price) < 10" }
  prices: { query: "select id, price_of(id) as price from items" }
rpc:
  doubled: { language: sql, atomic: true, volatility: immutable,
    args: [{ name: n, type: integer, required: true }], returns: { type: integer }, body: return n * 2 }
  usual_amount: { language: sql, atomic: true, returns: { type: integer },
    body: "select coalesce(max(amount), 7) from sales" }
  price_of: { language: sql, atomic: true, volatility: stable,
    args: [{ name: item, type: bigint, required: true }], returns: { type: numeric },
    body: "return (select price from items where id = item)" }
  cheapest: { language: sql, atomic: true, volatility: stable, returns: { type: setof cheap },
    body: "select * from cheap order by price limit 1;" }
  everything: { language: sql, atomic: true, volatility: stable,
    returns: { table: [{ name: n, type: bigint }, { name: t, type: text }] },
    body: "select n, t from (select * from items) as i (n, t);" }
  sell:
    kind: procedure
    language: sql
    atomic: true
    args: [{ name: item, type: bigint, required: true }]
    body: |
      insert into sales (id, item_id) select item * 10, (select min(id) from prices where id = item)
        on conflict (id) do update set amount = sales.amount + 1;
      update items set title = 'sold; return' where id = item;
`;

const facts = async (): Promise<Record<string, unknown>[]> =>
  world.sql(`select pg_get_functiondef(oid) as text, prosqlbody is not null as atomic,
    array(select one::text from unnest(proacl) one order by 1) as rights from pg_proc
    where pronamespace = 'public'::regnamespace and prokind in ('f', 'p') order by 1`);
const oids = (): Promise<Record<string, unknown>[]> =>
  world.sql(
    `select oid, proname from pg_proc where pronamespace = 'public'::regnamespace and prokind in ('f', 'p') order by 2`,
  );

async function someRows(): Promise<void> {
  await world.sql(`insert into items values (1, 'one', 4), (2, 'two', 3), (3, 'three', 900)`);
  await world.sql('call sell(1); call sell(1)');
}

test('functions of every form are created and called, and the next plan is empty', async () => {
  await world.settle(FILE);
  await someRows();
  expect((await facts()).map(({ atomic }) => atomic)).toEqual([true, true, true, true, true, true]);
  expect(await world.sql('select amount from sales')).toEqual([{ amount: 8 }]);
  expect(await world.sql(`select title from items where id = 1`)).toEqual([{ title: 'sold; return' }]);
  expect(await world.sql('select * from cheapest()')).toEqual([{ id: '2', price: 3 }]);
  expect(await world.sql('select t from everything() order by n')).toEqual(
    ['sold; return', 'two', 'three'].map((t) => ({ t })),
  );
});

describe('an object that a body uses changes, and the functions stay', () => {
  test.each([
    ['the type of a column', FILE.replace('{ name: price, type: integer', '{ name: price, type: smallint')],
    [
      'a view that is created again',
      FILE.replace('"select id, price from items where', '"select price, id from items where').replace(
        'setof cheap',
        'setof cheap',
      ),
    ],
    [
      'the name of a column',
      FILE.replace('{ name: price,', '{ name: cost, renamed_from: price,')
        .replace('doubled(price) < 2000', 'doubled(cost) < 2000')
        .replace(
          'select id, price from items where doubled(price)',
          'select id, cost as price from items where doubled(cost)',
        )
        .replace('(select price from items', '(select cost from items'),
    ],
    [
      'another function',
      FILE.replace(
        '{ name: item, type: bigint, required: true }], returns: { type: numeric }',
        '{ name: one, type: bigint, required: true }], returns: { type: numeric }',
      ).replace('id = item)"', 'id = one)"'),
    ],
    [
      'a generated column',
      FILE.replace(
        '{ name: title, type: text }',
        '{ name: title, type: text, default: none }\n      - { name: more, type: text, generated: upper(title) }',
      ).replace('from (select * from items) as i (n, t)', 'from (select id, more from items) as i (n, t)'),
    ],
  ])('%s', async (_name, changed) => {
    await world.settle(FILE);
    await someRows();
    const before = await oids();
    await world.settle(changed);
    expect(await world.sql('select price_of(2)')).toEqual([{ price_of: '3' }]);
    await world.sql('call sell(2)');
    expect((await facts()).every(({ atomic }) => atomic)).toBe(true);
    const after = await oids();
    expect(after.map(({ proname }) => proname)).toEqual(before.map(({ proname }) => proname));
    // Functions that are only read by others keep their OIDs.
    expect(
      after.filter(({ oid }) => before.some((candidate) => candidate['oid'] === oid)).length,
    ).toBeGreaterThanOrEqual(4);
    const now = await facts();
    const back = FILE.replace('{ name: price,', '{ name: price, renamed_from: cost,');
    await world.settle(changed.includes('name: cost') ? back : FILE);
    await world.settle(changed);
    expect(await facts()).toEqual(now);
  });
});

test('a column of a large table changes its type online, and the bodies are text until the cutover', async () => {
  await world.settle(FILE);
  await someRows();
  const before = await oids();
  const changed = FILE.replace('{ name: price, type: integer', '{ name: price, type: smallint');
  const plan = await world.plan(changed, { maxWriteBlockMs: 0 });
  expect(plan.steps.filter(({ lane }) => lane === 'cutover').map(({ at }) => at)).toContain(
    'rpc.price_of.body',
  );
  await world.settle(changed, { maxWriteBlockMs: 0 });
  expect(await world.sql('select price_of(2)')).toEqual([{ price_of: '3' }]);
  expect((await facts()).every(({ atomic }) => atomic)).toBe(true);
  // The function returns rows of a view, which is created again.
  const same = (all: Record<string, unknown>[]): unknown[] =>
    all.filter(({ proname }) => proname !== 'cheapest');
  expect(same(await oids())).toEqual(same(before));
});

test('a body becomes text and atomic again, and an object that it used can be dropped', async () => {
  await world.settle(FILE);
  const before = await oids();
  const text = FILE.replaceAll(' atomic: true,', '')
    .replaceAll('body: return n * 2', 'body: select n * 2')
    .replace('"return (select price from items where id = item)"', 'select price from items where id = item')
    .replace('    atomic: true\n', '');
  await world.settle(text);
  expect((await facts()).some(({ atomic }) => atomic)).toBe(false);
  await world.settle(FILE);
  expect(await oids()).toEqual(before);
  const less = FILE.replace(/ {2}cheap: .*\n/, '')
    .replace(/ {2}cheapest: [^]*?\n(?= {2}\w)/, '')
    .replace(/ {2}sell:[^]*$/, '')
    .replace(/ {2}prices: .*\n/, '');
  await world.settle(less.replace('views:\n', ''));
  expect((await oids()).map(({ proname }) => proname)).toEqual([
    'doubled',
    'everything',
    'price_of',
    'usual_amount',
  ]);
});

test('a column that leaves the file is hidden but kept', async () => {
  await world.settle(FILE);
  await someRows();
  await world.settle(
    FILE.replace('      - { name: title, type: text }\n', '')
      .replace('from (select * from items) as i (n, t)', "from (select *, 'x' from items) as i (n, price, t)")
      .replace(/ {6}update items set title.*\n/, ''),
  );
  expect(await world.sql('select t from everything() limit 1')).toEqual([{ t: 'x' }]);
  expect(await world.sql('select title from items where id = 2')).toEqual([{ title: 'two' }]);
});

test('a function that returns whole rows works after a column leaves the file', async () => {
  const file = (title: string, body = 'select items from items;'): string => `
tables:
  items:
    rls: []
    fields: [{ name: id, type: bigint, primary_key: true }${title}]
rpc:
  rows: { language: sql, atomic: true, volatility: stable, returns: { type: setof items }, body: "${body}" }
`;
  await world.settle(file(', { name: title, type: text }'));
  await world.sql(`insert into items values (1, 'one')`);
  await world.settle(file(''));
  expect(await world.sql('select id from rows()')).toEqual([{ id: '1' }]);
  await world.settle(file(', { name: title, type: text }'));
  expect(await world.sql('select title from rows()')).toEqual([{ title: 'one' }]);
  const refused = await world.apply(file('', 'select * from items'));
  expect(refused.kind === 'refused' && refused.problems).toMatchObject([
    {
      code: 'MIG-101',
      at: 'rpc.rows.body',
      hint: expect.stringContaining('select items from items, without *'),
    },
  ]);
});

test('an undeclared function that uses a column is reported, and nothing changes', async () => {
  await world.settle(FILE);
  await world.sql(
    `create function theirs() returns bigint language sql return (select sum(price) from items)`,
  );
  expect(
    await world.refusal(FILE.replace('{ name: price, type: integer', '{ name: price, type: smallint')),
  ).toEqual([expect.stringMatching(/^MIG-304 .*function theirs\(\) uses price/)]);
});

test('a mistake in a body is reported with its position, and a body cannot end its function', async () => {
  const place = FILE.split('\n').findIndex((line) => line.startsWith('  doubled:')) + 1;
  expect(await world.refusal(FILE.replace('return n * 2', 'return m * 2'))).toContain(
    `MIG-101 svc.yaml:${place}:3: column "m" does not exist`,
  );
  expect(
    await world.refusal(
      FILE.replace('return n * 2', '"select 1; end; drop table items; begin atomic select 1"'),
    ),
  ).toEqual([expect.stringMatching(/BEGIN ATOMIC and END/)]);
});

test('manual changes are reverted', async () => {
  await world.settle(FILE);
  const before = await facts();
  await world.sql(`create or replace function doubled(n int) returns int language sql immutable return n * 3;
    create or replace function usual_amount() returns int language sql as 'select 1'`);
  expect((await world.plan(FILE)).steps.map(({ at }) => at)).toEqual(
    expect.arrayContaining(['rpc.doubled', 'rpc.usual_amount']),
  );
  await world.settle(FILE);
  expect(await facts()).toEqual(before);
});

test('a pulled file contains all functions, has an empty plan, and builds the same in an empty database', async () => {
  await world.settle(FILE);
  await world.sql(`set local role svc_owner;
    create function block(a int) returns int language sql begin atomic select 1; return a + 1; end;
    create function lines() returns text language sql begin atomic select 'a
 b;
END'::text; end;
    revoke all on all routines in schema public from public;
    grant execute on all routines in schema public to anon, authenticated, service_role; reset role`);
  const before = await facts();
  const text = await pulled(world);
  expect(text).not.toMatch(/left alone/i);
  expect((await world.plan(text)).steps.map(({ sql }) => sql)).toEqual([]);
  await world.empty();
  await world.settle(text);
  expect(await facts()).toEqual(before);
});

test('a body calls a declared aggregate, also after it is created again', async () => {
  const file = (first: number): string => `
tables:
  items:
    rls: []
    fields: [{ name: id, type: bigint, primary_key: true }, { name: price, type: integer }]
rpc:
  add: { language: sql, volatility: immutable,
    args: [{ name: a, type: integer, required: true }, { name: b, type: integer, required: true }],
    returns: { type: integer }, body: select a + b }
  whole: { language: sql, atomic: true, volatility: stable, returns: { type: integer },
    body: select all_prices(price) from items }
statements:
  all_prices:
    create: "create aggregate public.all_prices(integer) (sfunc = public.add, stype = integer, initcond = '${first}')"
`;
  await world.settle(file(0));
  await world.sql('insert into items values (1, 2), (2, 3)');
  expect(await world.sql('select whole()')).toEqual([{ whole: 5 }]);
  await world.settle(file(10));
  expect(await world.sql('select whole()')).toEqual([{ whole: 15 }]);
});
