// Tests columns that change to a new type or use a new function of the same file, on small tables and on large tables
// that are changed online.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(() => world.empty());

const file = (top: string, ...fields: string[]): string => `${top}
tables:
  orders:
    rls: []
    fields:
      - { name: id, type: integer, primary_key: true }
${fields.map((field) => `      - ${field}\n`).join('')}`;

const ENUM = 'types: { order_status: { enum: [new, paid] } }';
const DOMAIN = `types: { order_status: { domain: text, check: "value in ('new', 'paid')" } }`;
const BEFORE = file('', '{ name: status, type: text, default: new }');
const AFTER = '{ name: status, type: order_status, default: new }';
const USING = `{ name: status, type: order_status, default: new, using: "lower(status)::order_status" }`;
const POLICIES = [
  ['a small table', {}],
  ['a large table', { maxWriteBlockMs: 0 }],
] as const;

const readType = async (column: string): Promise<unknown> =>
  (
    await world.sql(
      `select format_type(atttypid, atttypmod) as type from pg_attribute where attrelid = 'orders'::regclass
        and attname = $1`,
      [column],
    )
  )[0]?.['type'];

describe.each(POLICIES)('on %s', (_name, policy) => {
  test.each([
    ['an enum', ENUM, AFTER],
    ['an enum with a conversion', ENUM, USING],
    ['a domain', DOMAIN, AFTER],
    ['a domain with a conversion', DOMAIN, USING],
  ])('text becomes %s of the same file', async (_type, types, field) => {
    await world.settle(BEFORE);
    await world.sql(`insert into orders (id, status) values (1, 'new'), (2, 'paid'), (3, null)`);
    await world.settle(file(types, field), policy);
    expect(await world.sql('select id, status::text from orders order by id')).toEqual([
      { id: 1, status: 'new' },
      { id: 2, status: 'paid' },
      { id: 3, status: null },
    ]);
    expect(await readType('status')).toBe('order_status');
  });

  test.each([
    ['an enum', ENUM],
    ['a domain', DOMAIN],
  ])('rows that are invalid for %s of the same file are refused before any change', async (_type, types) => {
    await world.settle(BEFORE);
    await world.sql(`insert into orders (id, status) values (1, 'new'), (2, 'lost')`);
    expect(await world.refusal(file(types, AFTER), policy)).toEqual([
      expect.stringMatching(/^MIG-208 svc\.yaml:8:9: text → public\.order_status: 1 row cannot be cast/),
    ]);
    expect(await world.sql(`select to_regtype('order_status') as type`)).toEqual([{ type: null }]);
  });

  test('a conversion can call a function of the same file', async () => {
    await world.settle(BEFORE);
    await world.sql(`insert into orders (id, status) values (1, 'new'), (2, 'paid')`);
    const functions = `rpc:
  rank_of: { language: sql, volatility: immutable, args: [{ name: word, type: text }],
    returns: { type: integer }, body: "select length(word)" }
`;
    await world.settle(file(functions, '{ name: status, type: integer, using: "rank_of(status)" }'), policy);
    expect(await world.sql('select status from orders order by id')).toEqual([{ status: 3 }, { status: 4 }]);
  });

  test('a backfill can call a function of the same file and is validated by a check', async () => {
    await world.settle(BEFORE);
    await world.sql(`insert into orders (id, status) values (1, 'new'), (2, 'paid')`);
    const functions = `rpc:
  rank_of: { language: sql, volatility: immutable, args: [{ name: word, type: text }],
    returns: { type: integer }, body: "select length(word)" }
`;
    const field = (check: string): string =>
      `{ name: rank, type: integer, required: true, backfill: rank_of(status), check: "${check}" }`;
    expect(
      await world.refusal(file(functions, '{ name: status, type: text }', field('rank > 3')), policy),
    ).toEqual([expect.stringContaining('1 row would violate the check')]);
    await world.settle(file(functions, '{ name: status, type: text }', field('rank > 2')), policy);
    expect(await world.sql('select rank from orders order by id')).toEqual([{ rank: 3 }, { rank: 4 }]);
  });

  test('a check can use a type of the same file', async () => {
    await world.settle(BEFORE);
    await world.sql(`insert into orders (id, status) values (1, 'new'), (2, 'paid')`);
    const field = (low: string): string =>
      `{ name: status, type: text, check: "status::order_status::text >= '${low}'" }`;
    expect(await world.refusal(file(ENUM, field('o')), policy)).toEqual([
      expect.stringContaining('1 of 2 rows violate the check'),
    ]);
    await world.settle(file(ENUM, field('a')), policy);
  });
});

test('a domain that calls a function of the same file is validated with the rows', async () => {
  await world.settle(BEFORE);
  await world.sql(`insert into orders (id, status) values (1, 'new'), (2, 'paid')`);
  const top = (least: number): string => `types: { order_status: { domain: text, check: "is_long(value)" } }
rpc:
  is_long: { language: sql, volatility: immutable, args: [{ name: word, type: text }],
    returns: { type: boolean }, body: "select length(word) > ${least}" }
`;
  expect(await world.refusal(file(top(3), AFTER))).toEqual([expect.stringContaining('1 row')]);
  await world.settle(file(top(1), AFTER));
});
