// Tests table constraints: keys and foreign keys over several columns, deferrable and unvalidated constraints, checks.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { parseConfig } from './parse-config.ts';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(() => world.empty());

const file = (...constraints: string[]): string => `tables:
  regions:
    rls: []
    fields:
      - { name: country, type: text, primary_key: true }
      - { name: code, type: integer, primary_key: true }
  todos:
    rls: []
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: country, type: text }
      - { name: code, type: integer }
      - { name: low, type: integer }
      - { name: high, type: integer }
    constraints: [${constraints.join(', ')}]
`;
const LARGE = { maxWriteBlockMs: 0 };
const KEY = '{ unique: [country, low], nulls_not_distinct: true }';
const LATER = '{ unique: [high], deferrable: deferred, name: high_once }';
const REGION =
  '{ foreign_key: [country, code], references: "regions(country, code)", on_delete: set_null, ' +
  'on_delete_columns: [code], on_update: cascade, deferrable: deferred }';
const FULL = '{ foreign_key: [country, code], references: "regions(country, code)", match: full }';
const SPAN = '{ check: low < high, name: todos_span }';
const ALL = [KEY, LATER, REGION, SPAN];

const one = async (query: string): Promise<unknown> => Object.values((await world.sql(query))[0] ?? {})[0];
const printed = async (): Promise<string[]> =>
  (
    await world.sql(`select pg_get_constraintdef(oid) || case when convalidated then '' else ' (open)' end as text
      from pg_constraint where conrelid = 'todos'::regclass and contype in ('u', 'f', 'c') order by 1`)
  ).map((row) => String(row['text']).replace(' NOT VALID (open)', ' NOT VALID'));
const oids = (): Promise<Record<string, unknown>[]> =>
  world.sql(`select oid::text from pg_constraint where conrelid = 'todos'::regclass order by 1`);

const PRINTS = [
  'CHECK ((low < high))',
  'FOREIGN KEY (country, code) REFERENCES regions(country, code) ON UPDATE CASCADE ON DELETE ' +
    'SET NULL (code) DEFERRABLE INITIALLY DEFERRED',
  'UNIQUE (high) DEFERRABLE INITIALLY DEFERRED',
  'UNIQUE NULLS NOT DISTINCT (country, low)',
];

describe('constraints', () => {
  test('are created with the table, and the second plan is empty', async () => {
    await world.settle(file(...ALL));
    expect(await printed()).toEqual(PRINTS);
    await world.sql('truncate svc_meta.stamp');
    expect((await world.plan(file(...ALL))).steps).toEqual([]);
  });

  test('have their effects: ON DELETE sets one column to null, and deferred keys are checked at commit', async () => {
    await world.settle(file(...ALL));
    await world.sql(`insert into regions values ('ch', 1);
      insert into todos values (1, 'ch', 1, 1, 5), (2, 'ch', null, 2, 6)`);
    await world.sql(
      'begin; update todos set high = 6 where id = 1; update todos set high = 5 where id = 2; commit',
    );
    await world.sql('delete from regions');
    expect(await one(`select country || ' ' || (code is null) from todos where id = 1`)).toBe('ch true');
    await expect(world.sql(`insert into todos (id) values (3), (4)`)).rejects.toThrow(/unique/);
  });

  test('are added to a table with rows, and to a large table without blocking writers', async () => {
    for (const policy of [{}, LARGE]) {
      await world.empty();
      await world.settle(file());
      await world.sql(`insert into regions values ('ch', 1);
        insert into todos select n, 'ch', 1, n, n + 1 from generate_series(1, 50) n`);
      await world.settle(file(...ALL), policy);
      expect(await printed()).toEqual(PRINTS);
    }
    const plan = await world.plan(file('{ unique: [low] }', '{ check: low < 1000 }'), LARGE);
    expect(plan.steps.map(({ lane, sql }) => `${lane} ${sql}`)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^concurrent create unique index concurrently/),
        expect.stringMatching(/^metadata .*not valid$/s),
        expect.stringMatching(/^online .*validate constraint/),
      ]),
    );
  });

  test('are changed and removed, without changing undeclared constraints', async () => {
    await world.settle(file(...ALL));
    await world.sql('alter table todos add constraint by_hand check (id > 0)');
    await world.settle(
      file(
        '{ unique: [country, low] }',
        '{ unique: [high], name: high_once }',
        FULL,
        '{ check: low <= high, name: todos_span }',
      ),
    );
    expect(await printed()).toEqual([
      'CHECK ((id > 0))',
      'CHECK ((low <= high))',
      'FOREIGN KEY (country, code) REFERENCES regions(country, code) MATCH FULL ON DELETE RESTRICT',
      'UNIQUE (country, low)',
      'UNIQUE (high)',
    ]);
    await world.settle(file());
    expect(await printed()).toEqual(['CHECK ((id > 0))']);
  });

  test('are kept when they are renamed, and follow renamed columns', async () => {
    await world.settle(file(...ALL));
    const before = await oids();
    const renamed = ALL.map((text) => text.replaceAll('low', 'least').replace('[country', '[land'));
    await world.settle(
      file(...renamed.map((text) => text.replace('name: todos_span', 'name: span')))
        .replace('name: low,', 'name: least, renamed_from: low,')
        .replace('name: country, type: text }', 'name: land, renamed_from: country, type: text }'),
    );
    expect(await oids()).toEqual(before);
  });

  test('are pulled into a file with an empty plan', async () => {
    await world.settle(file(...ALL, '{ check: low > -5, not_valid: true, name: some }'));
    const before = await oids();
    const declared = await pulled(world);
    expect(declared).not.toContain('Left alone');
    await world.sql('truncate svc_meta.stamp, svc_meta.object');
    expect((await world.plan(declared)).steps.map((step) => step.sql)).toEqual([]);
    await world.settle(declared);
    expect(await oids()).toEqual(before);
  });

  test('with not_valid are never validated, which does not count as drift', async () => {
    await world.settle(file());
    await world.sql(`insert into todos (id, country, code, low) values (1, 'xx', 1, 9)`);
    const open = file(
      '{ check: low < 5, not_valid: true }',
      '{ foreign_key: [country, code], references: "regions(country, code)", not_valid: true }',
    );
    await world.settle(open);
    await world.settle(open, LARGE);
    expect(await printed()).toEqual([
      'CHECK ((low < 5)) NOT VALID',
      'FOREIGN KEY (country, code) REFERENCES regions(country, code) ON DELETE RESTRICT NOT VALID',
    ]);
    await expect(world.sql('insert into todos (id, low) values (2, 9)')).rejects.toThrow(/check/);
    const refused = await world.refusal(open.replaceAll(', not_valid: true', ''));
    expect(refused).toEqual([expect.stringMatching(/^MIG-204 .*violated by some row/)]);
  });

  test('are refused with the number of rows that violate them', async () => {
    await world.settle(file());
    await world.sql(`insert into todos values (1, 'ch', 1, 5, 1), (2, 'ch', null, 5, 1)`);
    const refused = await world.refusal(file('{ unique: [country, low] }', FULL, '{ check: low < high }'));
    expect(refused.toSorted()).toEqual([
      expect.stringMatching(/^MIG-202 .*unique over \(country, low\).*1 value occurs/),
      expect.stringMatching(/^MIG-203 .*2 rows point to missing regions/),
      expect.stringMatching(/^MIG-204 .*2 of 2 rows violate the check low < high/),
    ]);
  });
});

describe('mistakes in the file', () => {
  test.each([
    ['{ unique: [nosuch] }', /no column nosuch/],
    ['{ unique: [low], check: low > 1 }', /unique and check are two constraints/],
    ['{ name: what }', /no kind of constraint/],
    ['{ exclude: [{ column: nosuch, with: "=" }] }', /no column nosuch/],
    ['{ exclude: [{ with: "=" }] }', /neither column nor expression/],
    ['{ exclude: [{ column: low, with: equals }] }', /is not an operator such as = or &&/],
    ['{ unique: [low], where: low > 1 }', /where is not valid for unique/],
    ['{ unique: [low], references: "regions(country)" }', /references is not valid for unique/],
    ['{ foreign_key: [country, code], references: regions.country }', /does not name columns/],
    ['{ foreign_key: [country], references: "regions(country, code)" }', /1 columns cannot refer to 2/],
    ['{ foreign_key: [code], references: "regions(code)" }', /not unique together/],
    [
      '{ foreign_key: [low], references: "todos(high)" }, { unique: [high], deferrable: deferred }',
      /is deferrable and cannot be referenced/,
    ],
  ])('constraints: [%s]', (constraint, message) => {
    expect(() => parseConfig(file(constraint))).toThrow(message);
  });
});
