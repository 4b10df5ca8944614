// Tests indexes of every kind. They are compared by their printed definition. A changed index is built before the
// former index is dropped.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(() => world.empty());

const file = (...indexes: string[]): string => `tables:
  notes:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: title, type: text }
      - { name: size, type: integer }
      - { name: tags, type: "text[]" }
      - { name: period, type: tstzrange }
      - { name: made_at, type: timestamptz }
      - { name: search, type: tsvector }
    indexes: [${indexes.join(', ')}]
    rls: []
`;
const LARGE = { maxWriteBlockMs: 0 };

const KINDS: readonly [string, string][] = [
  ['{ columns: [{ column: made_at, order: desc, nulls: last }] }', 'USING btree (made_at DESC NULLS LAST)'],
  ['{ columns: [{ column: made_at, order: desc, nulls: first }, size] }', 'USING btree (made_at DESC, size)'],
  ['{ columns: [{ column: size, order: asc, nulls: last }] }', 'USING btree (size)'],
  ['{ columns: [{ column: size, opclass: int4_ops }] }', 'USING btree (size)'],
  ['{ columns: [title], using: hash }', 'USING hash (title)'],
  [
    '{ columns: [search], using: gin, with: { fastupdate: false } }',
    "USING gin (search) WITH (fastupdate='false')",
  ],
  ['{ columns: [tags], using: gin }', 'USING gin (tags)'],
  ['{ columns: [period], using: gist }', 'USING gist (period)'],
  [
    '{ columns: [{ column: search, opclass: tsvector_ops, opclass_options: { siglen: 64 } }], using: gist }',
    "USING gist (search tsvector_ops (siglen='64'))",
  ],
  [
    '{ columns: [made_at], using: brin, with: { pages_per_range: 32 } }',
    "USING brin (made_at) WITH (pages_per_range='32')",
  ],
  ['{ columns: [title], using: spgist }', 'USING spgist (title)'],
  ['{ columns: [{ column: title, opclass: text_pattern_ops }] }', 'USING btree (title text_pattern_ops)'],
  ['{ columns: [{ column: title, collate: C }] }', 'USING btree (title COLLATE "C")'],
  ['{ columns: [{ expression: lower(title) }], unique: true }', 'USING btree (lower(title))'],
  [
    '{ columns: [{ expression: "size + 1", order: desc }, title], where: size > 0 }',
    'USING btree (((size + 1)) DESC, title) WHERE (size > 0)',
  ],
  [
    `{ columns: [{ expression: "to_tsvector('english', title)" }], using: gin }`,
    `USING gin (to_tsvector('english'::regconfig, title))`,
  ],
  ['{ columns: [size], include: [title, made_at] }', 'USING btree (size) INCLUDE (title, made_at)'],
  ['{ columns: [size], unique: true, nulls_not_distinct: true }', 'USING btree (size) NULLS NOT DISTINCT'],
  ['{ columns: [size], with: { fillfactor: 70 } }', "USING btree (size) WITH (fillfactor='70')"],
];

const printed = async (): Promise<string[]> =>
  (
    await world.sql(
      `select regexp_replace(indexdef, '^.*? (?=USING)', '') as text from pg_indexes
       where tablename = 'notes' and indexname <> 'notes_pkey' order by 1`,
    )
  ).map((row) => String(row['text']));
const sorted = (texts: readonly string[]): string[] => texts.toSorted();
const oids = (): Promise<Record<string, unknown>[]> =>
  world.sql(`select indexrelid::text from pg_index where indrelid = 'notes'::regclass order by 1`);

describe('every kind of index', () => {
  // Two kinds have the same printed definition, so one index is sufficient for both.
  const all = file(...KINDS.filter((_, at) => at !== 3).map(([yaml]) => yaml));
  const prints = sorted(KINDS.filter((_, at) => at !== 3).map(([, print]) => print));

  test('is created as declared, and the second plan is empty', async () => {
    await world.settle(all);
    expect(sorted(await printed())).toEqual(prints);
    await world.sql('truncate svc_meta.stamp');
    expect((await world.plan(all)).steps).toEqual([]);
    await world.settle(file());
    expect(await printed()).toEqual([]);
  });

  test('is built concurrently on a large table', async () => {
    await world.settle(file());
    await world.sql(`insert into notes (id, title, size) select n, n || '', n from generate_series(1, 50) n`);
    const plan = await world.plan(all, LARGE);
    expect(plan.steps.map((step) => step.lane).filter((lane) => lane === 'metadata')).toEqual([]);
    await world.settle(all, LARGE);
    expect(sorted(await printed())).toEqual(prints);
  });

  test('is pulled into a file with an empty plan', async () => {
    await world.settle(all);
    const before = await oids();
    const declared = await pulled(world);
    expect(declared).not.toContain('Left alone');
    await world.sql('truncate svc_meta.stamp, svc_meta.object');
    expect((await world.plan(declared)).steps).toEqual([]);
    await world.settle(declared);
    expect(await oids()).toEqual(before);
  });

  test('that declares default values equals the plain index', async () => {
    await world.settle(file('{ columns: [size] }'));
    const before = await oids();
    await world.settle(file('{ columns: [{ column: size, order: asc, opclass: int4_ops }], using: btree }'));
    expect(await oids()).toEqual(before);
  });
});

describe('a replaced index', () => {
  const named = (opclass: string): string =>
    file(`{ columns: [{ column: title, opclass: ${opclass} }], name: by_title }`);

  test('is built in addition and then renamed, so that an index exists at all times', async () => {
    await world.settle(named('text_ops'));
    await world.sql(`insert into notes (id, title) values (1, 'a'), (2, 'b')`);
    const counts: unknown[] = [];
    await world.apply(named('text_pattern_ops'), LARGE, {
      onStatement: async () => {
        const [row] = await world.sql(
          `select count(*)::int as n from pg_index where indrelid = 'notes'::regclass and indisvalid
            and not indisprimary`,
        );
        counts.push(row?.['n']);
      },
    });
    expect(Math.min(...counts.map(Number))).toBe(1);
    expect(Math.max(...counts.map(Number))).toBe(2);
    await world.settle(named('text_pattern_ops'), LARGE);
    expect(await world.sql(`select indexdef from pg_indexes where indexname = 'by_title'`)).toEqual([
      { indexdef: 'CREATE INDEX by_title ON public.notes USING btree (title text_pattern_ops)' },
    ]);
    expect(await printed()).toHaveLength(1);
  });

  test('gets its name even if the run ends in between', async () => {
    await world.settle(named('text_ops'));
    await world.sql(`insert into notes (id, title) values (1, 'a'), (2, 'b')`);
    const statements = (await world.plan(named('text_pattern_ops'), LARGE)).steps.map((step) => step.sql);
    expect(statements).toHaveLength(3);
    for (let done = 1; done <= statements.length; done += 1) {
      await world.settle(named('text_ops'));
      for (const text of statements.slice(0, done)) await world.sql(text);
      await world.settle(named('text_pattern_ops'), LARGE);
      expect(
        await world.sql(`select indexname from pg_indexes where tablename = 'notes' order by 1`),
      ).toEqual([{ indexname: 'by_title' }, { indexname: 'notes_pkey' }]);
    }
  });

  test('is replaced in the main transaction on a small table', async () => {
    await world.settle(named('text_ops'));
    await world.settle(named('text_pattern_ops'));
    expect(await printed()).toEqual(['USING btree (title text_pattern_ops)']);
  });
});

test('duplicate values of a unique expression are found before any change', async () => {
  await world.settle(file());
  await world.sql(`insert into notes (id, title) values (1, 'a'), (2, 'A'), (3, null), (4, null)`);
  const unique = file('{ columns: [{ expression: lower(title) }], unique: true }');
  expect(await world.refusal(unique)).toEqual([
    expect.stringMatching(/^MIG-202 .*unique over \(lower\(title\)\), but 1 value occurs more than once/),
  ]);
  expect(await world.refusal(file('{ columns: [size], unique: true, nulls_not_distinct: true }'))).toEqual([
    expect.stringMatching(/^MIG-202 .*1 value occurs more than once/),
  ]);
  await world.sql(`delete from notes where id = 2`);
  await world.settle(unique);
  await expect(world.sql(`insert into notes (id, title) values (5, 'A')`)).rejects.toThrow(/duplicate/);
});

test('an expression that depends on settings is refused with its position', async () => {
  const outcome = await world.apply(file(`{ columns: [size, { expression: "made_at::text" }] }`));
  const problems = outcome.kind === 'refused' ? outcome.problems : [];
  expect(problems.map(({ code, at, message }) => `${code} ${at}: ${message}`)).toEqual([
    expect.stringMatching(/^MIG-101 tables\.notes\.indexes\[0\]\.columns\[1\]\.expression: .*IMMUTABLE/),
  ]);
});

test('a mistake in an expression is reported at its position', async () => {
  expect(await world.refusal(file(`{ columns: [{ expression: lower(titel) }] }`))).toEqual([
    expect.stringContaining('column "titel" does not exist\n    lower(titel)\n          ^'),
  ]);
});

test.each([{}, LARGE])('the type of an indexed column changes: %o', async (policy) => {
  const indexes = [
    '{ columns: [{ expression: "size + 1" }] }',
    '{ columns: [{ column: size, order: desc }], include: [title] }',
  ];
  await world.settle(file(...indexes));
  await world.sql(`insert into notes (id, size) values (1, 1)`);
  const before = await printed();
  await world.settle(
    file(...indexes).replace('name: size, type: integer', 'name: size, type: bigint'),
    policy,
  );
  expect((await printed()).length).toBe(before.length);
});

test('a removed index is dropped and an undeclared index is kept', async () => {
  await world.settle(file('{ columns: [{ expression: lower(title) }] }'));
  await world.sql('create index mine on notes (upper(title))');
  await world.settle(file());
  expect(await printed()).toEqual(['USING btree (upper(title))']);
});

test('objects of an extension in public are found by their qualified names', async () => {
  await world.sql(
    'create extension if not exists citext schema public; create extension if not exists pg_trgm schema public',
  );
  const declared = file(
    '{ columns: [{ column: title, opclass: public.gin_trgm_ops }], using: gin }',
    '{ columns: [{ expression: "title::public.citext" }] }',
  );
  await world.settle(declared);
  expect(await printed()).toEqual(['USING btree (((title)::citext))', 'USING gin (title gin_trgm_ops)']);
  const before = await oids();
  await world.settle(await pulled(world));
  expect(await oids()).toEqual(before);
});
