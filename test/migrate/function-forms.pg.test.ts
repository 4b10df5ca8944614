// Tests forms of functions: output, variadic and unnamed arguments, table results, and planner hints. They are
// declared, compared, changed, pulled, and called like the data API calls them.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
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

const FORMS = `
types:
  span: { composite: { low: integer, high: integer } }
tables:
  sales:
    rls: []
    fields: [{ name: id, type: bigint, primary_key: true }, { name: amount, type: numeric }]
rpc:
  halves:
    language: sql
    volatility: immutable
    strict: true
    parallel: safe
    cost: 7
    args: [{ name: n, type: integer, required: true }, { name: low, type: integer, mode: out },
      { name: high, type: integer, mode: out }]
    body: select n / 2, n - n / 2
  twice:
    args: [{ name: n, type: integer, mode: inout, required: true }]
    body: begin n := n * 2; end
  totals:
    language: sql
    rows: 12
    args: [{ name: most, type: integer, default: 10 }]
    returns: { table: [{ name: number, type: bigint }, { name: "the total", type: numeric }] }
    body: select id, amount from sales order by id limit most
  pairs:
    language: sql
    args: [{ name: a, type: integer, mode: out }, { name: b, type: text, mode: out }]
    returns: { type: setof record }
    body: values (1, 'x'), (2, 'y')
  longest:
    language: sql
    args: [{ name: words, type: "text[]", mode: variadic, required: true }]
    returns: { type: text }
    body: select w from unnest(words) w order by length(w) desc limit 1
  sum_of:
    language: sql
    expose: false
    execute: [authenticated]
    args: [{ type: integer, required: true }, { type: integer, default: 1 }]
    returns: { type: integer }
    body: select $1 + $2
  got:
    language: sql
    args: [{ type: jsonb, required: true }]
    returns: { type: jsonb }
    body: select $1
  span_of:
    language: sql
    args: [{ name: low, type: integer, required: true }]
    returns: { type: span }
    body: select row(low, low + 1)::span
`;

const CATALOG = `select p.proname, pg_get_functiondef(p.oid) as text, p.proacl::text from pg_proc p
  where p.pronamespace = 'public'::regnamespace order by 1, 2`;

test('functions of every form are created, and the next plan is empty', async () => {
  await world.settle(FORMS);
  const [row] = await world.sql(
    `select (halves(9)).low, (halves(9)).high, twice(4), longest('a', 'ccc', 'bb'), sum_of(2)`,
  );
  expect(row).toEqual({ low: 4, high: 5, twice: 8, longest: 'ccc', sum_of: 3 });
  expect(await world.sql('select * from pairs()')).toEqual([
    { a: 1, b: 'x' },
    { a: 2, b: 'y' },
  ]);
  const [facts] = await world.sql(
    `select proisstrict, proparallel, procost from pg_proc where proname = 'halves'`,
  );
  expect(facts).toEqual({ proisstrict: true, proparallel: 's', procost: 7 });
});

test('a pulled file contains all functions, has an empty plan, and builds the same in an empty database', async () => {
  await world.settle(FORMS);
  const before = await world.sql(CATALOG);
  const text = await pulled(world);
  expect(text).not.toContain('left alone');
  // Only an unnamed argument for the whole body can be served.
  expect(text.match(/expose: false/g)).toHaveLength(1);
  expect((await world.plan(text)).steps).toEqual([]);
  await world.empty();
  await world.settle(text);
  expect(await world.sql(CATALOG)).toEqual(before);
});

test('existing functions are adopted unchanged', async () => {
  await world.sql(`set local role svc_owner;
    create function public.stats(out rows bigint, out "at" timestamptz)
      language sql stable as 'select 1::bigint, now()';
    create function public.many(n int, variadic "of" int[] default '{}') returns setof int
      language sql rows 5 as 'select unnest("of") limit n';
    create function public.area(float8, float8) returns float8
      language sql immutable strict parallel safe cost 1 as 'select $1 * $2';
    create function public.list(q text, lim int default 5) returns table (id int, label text)
      language plpgsql as 'begin return query select 1, q; end';
    grant execute on all functions in schema public to anon, authenticated, service_role;
    reset role`);
  const before = await world.sql(CATALOG);
  const text = await pulled(world);
  expect((await world.plan(text)).steps.filter(({ sql }) => !/^(grant|revoke)/.test(sql))).toEqual([]);
  await world.empty();
  await world.settle(text);
  const texts = (rows: Record<string, unknown>[]): unknown[] => rows.map((row) => row['text']);
  expect(texts(await world.sql(CATALOG))).toEqual(texts(before));
});

test('changed result columns and argument modes create the function again, and planner hints do not', async () => {
  await world.settle(FORMS);
  const oid = async (name: string): Promise<unknown> =>
    (await world.sql(`select oid from pg_proc where proname = '${name}'`))[0]?.['oid'];
  const [halves, totals] = [await oid('halves'), await oid('totals')];
  await world.settle(
    FORMS.replace('cost: 7', 'cost: 8')
      .replace('rows: 12', '')
      .replace('{ name: number, type: bigint }', '{ name: number, type: text }')
      .replace('select id, amount from', 'select id::text, amount from')
      .replace('{ name: b, type: text, mode: out }', '{ name: b, type: bigint, mode: out }')
      .replace(`values (1, 'x'), (2, 'y')`, 'values (1, 5::bigint)'),
  );
  expect(await oid('halves')).toBe(halves);
  expect(await oid('totals')).not.toBe(totals);
  expect(await world.sql('select * from pairs()')).toEqual([{ a: 1, b: '5' }]);
});

test('manual changes of a declared function are reverted', async () => {
  await world.settle(FORMS);
  await world.sql('alter function halves(int) called on null input cost 100 parallel unsafe');
  const plan = await world.plan(FORMS);
  expect(plan.steps.map(({ at }) => at)).toContain('rpc.halves');
  await world.settle(FORMS);
  expect((await world.sql(`select proisstrict from pg_proc where proname = 'halves'`))[0]).toEqual({
    proisstrict: true,
  });
});

test.each([
  ['a policy', 'create policy theirs on notes using (twice(id) > 1)'],
  ['a view', 'create view theirs as select twice(id) from notes'],
  ['an index', 'create index theirs on notes (twice(id))'],
  ['an atomic body', 'create function theirs() returns integer language sql return twice(2)'],
])(
  'an undeclared dependant (%s) keeps a function that left the file, which no API role can call',
  async (_name, theirs) => {
    const role = `svc_test_caller_${process.pid}`;
    const file = (rpc: string): string => `
tables:
  notes: { rls: [], fields: [{ name: id, type: integer, primary_key: true }] }
${rpc}`;
    const declared = file(`rpc:
  twice: { language: sql, volatility: immutable, execute: [authenticated, ${role}],
    args: [{ name: n, type: integer, required: true }], returns: { type: integer }, body: select n * 2 }`);
    await world.sql(`create role ${role}`);
    try {
      await world.settle(declared);
      const rights = `select proacl::text as rights from pg_proc where proname = 'twice'`;
      const before = await world.sql(rights);
      await world.sql(theirs);
      await world.settle(file(''));
      expect(await world.sql(rights)).toEqual([{ rights: '{svc_owner=X/svc_owner}' }]);
      await world.settle(declared, { allow: ['authz_open=rpc.twice'] });
      expect(await world.sql(rights)).toEqual(before);
    } finally {
      await world.empty();
      await world.sql(`drop role ${role}`);
    }
  },
);
