// Tests changes that existing rows prevent. They are refused before any change, with the position, the number of rows,
// the key column and a remedy. The same file is applied after the rows are corrected.
import { afterAll, beforeEach, beforeAll, describe, expect, test } from 'vitest';
import { expectPrintedQueriesToRun } from './printed-queries.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());

type Case = {
  readonly name: string;
  readonly before: string;
  readonly rows: string;
  readonly after: string;
  readonly refusal: RegExp;
  /** A file, or statements, that make the change possible. */
  readonly mended?: string;
  readonly mend?: string;
};

const table = (fields: string, more = ''): string => `
tables:
  people:
    fields:
      - { name: id, type: integer, primary_key: true }
${fields
  .split('\n')
  .map((line) => `      - ${line}`)
  .join('\n')}
    rls: []
${more}`;

const ROWS = `insert into people select n, case when n % 3 = 0 then null else 'name ' || n % 4 end
  from generate_series(1, 30) n`;

const CASES: readonly Case[] = [
  {
    name: 'MIG-101: a foreign key between types that cannot be compared',
    before: table('{ name: boss, type: uuid }'),
    rows: '',
    after: table('{ name: boss, type: uuid, foreign_key: { references: people.id } }'),
    refusal: /^MIG-101 svc\.yaml:\d+:\d+: uuid cannot refer to people\.id, which is integer$/,
    mended: table('{ name: chief, foreign_key: { references: people.id } }'),
  },
  {
    name: 'MIG-201: required on a column with nulls',
    before: table('{ name: name, type: text }'),
    rows: ROWS,
    after: table('{ name: name, type: text, required: true }'),
    refusal: /^MIG-201 svc\.yaml:\d+:\d+: required, but 10 of 30 rows are NULL \(key column id\)$/,
    mended: table(`{ name: name, type: text, required: true, backfill: "'unknown'" }`),
  },
  {
    name: 'MIG-202: unique on a column with duplicates',
    before: table('{ name: name, type: text }'),
    rows: ROWS,
    after: table('{ name: name, type: text, unique: true }'),
    refusal: /^MIG-202 svc\.yaml:\d+:\d+: unique over \(name\), but 4 values occur more than once$/,
    mend: `update people set name = null`,
  },
  {
    name: 'MIG-202: a unique partial index on duplicates',
    before: table('{ name: name, type: text }'),
    rows: ROWS,
    after: table('{ name: name, type: text }').replace(
      '    rls: []',
      `    indexes: [{ columns: [name], unique: true, where: "name <> 'name 1'" }]\n    rls: []`,
    ),
    refusal: /^MIG-202 .*3 values occur more than once/,
    mend: `update people set name = 'name 1'`,
  },
  {
    name: 'MIG-202: a backfill that gives rows of a unique column the same value',
    before: table('{ name: name, type: text, unique: true }'),
    rows: `insert into people values (1, 'a'), (2, null), (3, null)`,
    after: table(`{ name: name, type: text, unique: true, required: true, backfill: "'unknown'" }`),
    refusal: /^MIG-202 svc\.yaml:\d+:\d+: unique over \(name\), but 1 value occurs more than once$/,
    mended: table(`{ name: name, type: text, unique: true, required: true, backfill: "'unknown ' || id" }`),
  },
  {
    name: 'MIG-203: a backfill without a referenced row',
    before: table('{ name: boss, foreign_key: { references: people.id } }'),
    rows: `insert into people values (1, null), (2, 1)`,
    after: table('{ name: boss, foreign_key: { references: people.id }, required: true, backfill: "99" }'),
    refusal: /^MIG-203 svc\.yaml:\d+:\d+: 1 row would point to missing people$/,
    mended: table('{ name: boss, foreign_key: { references: people.id }, required: true, backfill: "id" }'),
  },
  {
    name: 'MIG-204: a backfill that violates the range',
    before: table('{ name: age, type: integer, min: 1 }'),
    rows: `insert into people values (1, 5), (2, null)`,
    after: table('{ name: age, type: integer, min: 1, required: true, backfill: "0" }'),
    refusal: /^MIG-204 svc\.yaml:\d+:\d+: 1 row would violate the range 1\.\.$/,
    mended: table('{ name: age, type: integer, min: 1, required: true, backfill: "1" }'),
  },
  {
    name: 'MIG-201: a backfill without a value for every row',
    before: table('{ name: age, type: integer }'),
    rows: `insert into people values (1, null), (2, null)`,
    after: table(`{ name: age, type: integer, required: true, backfill: "nullif(id, 2)" }`),
    refusal: /^MIG-201 svc\.yaml:\d+:\d+: required, but 1 row would still be NULL$/,
    mended: table(`{ name: age, type: integer, required: true, backfill: "id" }`),
  },
  {
    name: 'MIG-208: a backfill that cannot be computed',
    before: table('{ name: age, type: integer }'),
    rows: `insert into people values (1, 5), (2, null)`,
    after: table(`{ name: age, type: integer, required: true, backfill: "1 / (id - 2)" }`),
    refusal: /^MIG-208 svc\.yaml:\d+:\d+: the value cannot be computed: division by zero \(SQLSTATE 22012\)$/,
    mended: table(`{ name: age, type: integer, required: true, backfill: "1 / (id - 3)" }`),
  },
  {
    name: 'MIG-208: a backfill whose error would quote a value',
    before: table('{ name: age, type: integer }\n{ name: note, type: text }'),
    rows: `insert into people values (1, 5, 'private'), (2, null, 'private')`,
    after: table(
      `{ name: age, type: integer, required: true, backfill: "note::integer" }\n{ name: note, type: text }`,
    ),
    refusal:
      /^MIG-208 svc\.yaml:\d+:\d+: the value cannot be computed: a text is not a value of the type \(SQLSTATE 22P02\)$/,
    mend: `update people set note = '7'`,
  },
  {
    name: 'MIG-208: a check whose error would quote a value',
    before: table('{ name: note, type: text }'),
    rows: `insert into people values (1, 'private')`,
    after: table('{ name: note, type: text, check: "note::integer > 0" }'),
    refusal: new RegExp(
      '^MIG-208 svc\\.yaml:\\d+:\\d+: the expression fails on rows of people: ' +
        'a text is not a value of the type \\(SQLSTATE 22P02\\)$',
    ),
    mend: `update people set note = '7'`,
  },
  {
    name: 'MIG-208: a unique index over an expression whose error would quote a value',
    before: table('{ name: note, type: text }'),
    rows: `insert into people values (1, 'private')`,
    after: table(
      '{ name: note, type: text }',
      '    indexes: [{ columns: [{ expression: "(note::integer)" }], unique: true }]',
    ),
    refusal:
      /^MIG-208 svc\.yaml:\d+:\d+: the expression fails on rows of people: a text is not a value of the type/,
    mend: `update people set note = '7'`,
  },
  {
    name: 'MIG-202: a computed default with the same value for all rows of a new unique column',
    before: table('{ name: note, type: text }'),
    rows: 'insert into people values (1), (2)',
    after: table(
      `{ name: note, type: text }\n{ name: name, type: text, unique: true, default: { sql: lower('UNKNOWN') } }`,
    ),
    refusal: /^MIG-202 svc\.yaml:\d+:\d+: unique, but 2 rows would all get the default lower\('UNKNOWN'\)$/,
    mended: table(
      '{ name: note, type: text }\n{ name: name, type: uuid, unique: true, default: { sql: gen_random_uuid() } }',
    ),
  },
  {
    name: 'MIG-202: a unique index on a new and an existing column',
    before: table('{ name: part, type: integer }'),
    rows: 'insert into people values (1, 7), (2, 7)',
    after: table(`{ name: part, type: integer }\n{ name: name, type: text, default: unknown }`).replace(
      '    rls: []',
      '    indexes: [{ columns: [part, name], unique: true }]\n    rls: []',
    ),
    refusal: /^MIG-202 svc\.yaml:\d+:\d+: unique over \(part, name\), but 1 value occurs more than once/,
    mend: 'update people set part = id',
  },
  {
    name: 'MIG-204: a default that violates the pattern of its new column',
    before: table('{ name: note, type: text }'),
    rows: 'insert into people values (1), (2)',
    after: table(
      `{ name: note, type: text }\n{ name: name, type: text, pattern: '^[A-Z]+$', default: { sql: lower('UNKNOWN') } }`,
    ),
    refusal: /^MIG-204 svc\.yaml:\d+:\d+: every row would violate the pattern /,
    mended: table(
      `{ name: note, type: text }\n{ name: name, type: text, pattern: '^[A-Z]+$', default: { sql: upper('unknown') } }`,
    ),
  },
  {
    name: 'MIG-203: a default without a referenced row',
    before: table('{ name: note, type: text }'),
    rows: 'insert into people values (1), (2)',
    after: table(
      '{ name: note, type: text }\n{ name: boss, foreign_key: { references: people.id }, default: 99 }',
    ),
    refusal: /^MIG-203 svc\.yaml:\d+:\d+: every row would point to missing people$/,
    mended: table(
      '{ name: note, type: text }\n{ name: boss, foreign_key: { references: people.id }, default: 1 }',
    ),
  },
  {
    name: 'MIG-203: a foreign key on a column with orphans',
    before: table('{ name: boss, type: integer }'),
    rows: `insert into people values (1, null), (2, 1), (3, 77), (4, 78)`,
    after: table('{ name: boss, foreign_key: { references: people.id } }'),
    refusal: /^MIG-203 svc\.yaml:\d+:\d+: 2 rows point to missing people \(key column id\)$/,
    mend: `update people set boss = null where boss > 70`,
  },
  {
    name: 'MIG-204: a smaller enum',
    before: table('{ name: state, type: text, enum: [open, done, archived] }'),
    rows: `insert into people select n, (array['open', 'done', 'archived'])[1 + n % 3] from generate_series(1, 9) n`,
    after: table('{ name: state, type: text, enum: [open, done] }'),
    refusal: /^MIG-204 svc\.yaml:\d+:\d+: 3 of 9 rows are not in the enum \[open, done\] \(key column id\)$/,
    mend: `update people set state = 'done' where state = 'archived'`,
  },
  {
    name: 'MIG-204: a narrower range, pattern and check',
    before: table('{ name: age, type: integer }\n{ name: code, type: text }\n{ name: size, type: integer }'),
    rows: `insert into people select n, n, 'X' || n, n from generate_series(1, 5) n`,
    after: table(
      "{ name: age, type: integer, max: 4 }\n{ name: code, type: text, pattern: '^X[1-3]$' }\n" +
        '{ name: size, type: integer, check: size < 5 }',
    ),
    refusal:
      /^MIG-204 .*violate the range \.\.4 \(key column id\)\nMIG-204 .*pattern.*\nMIG-204 .*check size < 5/,
    mend: `delete from people where id > 3`,
  },
  {
    name: 'MIG-205: a new required column without a value',
    before: table('{ name: name, type: text }'),
    rows: ROWS,
    after: table('{ name: name, type: text }\n{ name: score, type: integer, required: true }'),
    refusal: /^MIG-205 svc\.yaml:\d+:\d+: required, but 30 rows need a value$/,
    mended: table(
      '{ name: name, type: text }\n{ name: score, type: integer, required: true, backfill: "id * 2" }',
    ),
  },
  {
    name: 'MIG-207: a cast that does not exist',
    before: table('{ name: name, type: text }'),
    rows: `insert into people values (1, '{}')`,
    after: table('{ name: name, type: jsonb }'),
    refusal: /^MIG-207 svc\.yaml:\d+:\d+: text → jsonb has no automatic cast$/,
    mended: table('{ name: name, type: jsonb, using: "name::jsonb" }'),
  },
  {
    name: 'MIG-208: a cast that fails on rows',
    before: table('{ name: name, type: text }'),
    rows: `insert into people values (1, '12'), (2, 'n/a'), (3, '–'), (4, null)`,
    after: table('{ name: name, type: integer, using: "name::integer" }'),
    refusal: /^MIG-208 svc\.yaml:\d+:\d+: text → integer: 2 rows cannot be cast \(key column id\)$/,
    mended: table(
      `{ name: name, type: integer, using: "case when name ~ '^[0-9]+$' then name::integer end" }`,
    ),
  },
  {
    name: 'MIG-208: a cast that would round',
    before: table(`{ name: price, type: 'numeric(10,4)' }`),
    rows: `insert into people values (1, 1.5), (2, 1.2345)`,
    after: table(`{ name: price, type: 'numeric(10,2)' }`),
    refusal: /^MIG-208 .*1 row would lose part of the value \(key column id\)$/,
    mend: `update people set price = round(price, 2)`,
  },
  {
    name: 'MIG-208: a text that is too long for the new length',
    before: table('{ name: name, type: text }'),
    rows: `insert into people values (1, 'short'), (2, 'far too long')`,
    after: table(`{ name: name, type: 'varchar(6)' }`),
    refusal: /^MIG-208 .*1 row would lose part of the value \(key column id\)$/,
    mend: `update people set name = left(name, 6)`,
  },
  {
    name: 'MIG-303: row-level security off',
    before: table('{ name: name, type: text }'),
    rows: ROWS,
    after: table('{ name: name, type: text }').replace('    rls: []\n', '    rls: false\n'),
    refusal: /^MIG-303 .*removing rls would open it to every key holder$/,
  },
  {
    name: 'MIG-304: a view of a column that changes its type',
    before: table('{ name: age, type: integer }'),
    rows: `create view grown as select age from people; alter view grown owner to svc_owner`,
    after: table('{ name: age, type: bigint }'),
    refusal: /^MIG-304 .*view grown uses age$/,
    mend: 'drop view grown',
  },
  {
    name: 'MIG-305: the key column is removed without a new key',
    before: table('{ name: name, type: text }'),
    rows: ROWS,
    after: table('{ name: name, type: text }').replace(
      '      - { name: id, type: integer, primary_key: true }\n',
      '',
    ),
    refusal: /^MIG-305 .*id is part of the primary key and was removed from the file$/,
  },
  {
    name: 'MIG-101: a policy with an unknown column',
    before: table('{ name: name, type: text }'),
    rows: ROWS,
    after: table('{ name: name, type: text }').replace(
      'rls: []',
      `rls: [{ operations: [select], using: nmae = 'x' }]`,
    ),
    refusal: /^MIG-101 svc\.yaml:\d+:\d+: column "nmae" does not exist\n {4}nmae = 'x'\n {4}\^$/,
  },
  {
    name: 'MIG-101: an expression that closes its own parenthesis',
    before: table('{ name: name, type: text }'),
    rows: ROWS,
    after: table('{ name: name, type: text }').replace(
      'rls: []',
      `rls: [{ operations: [select], using: "true); drop table people; --" }]`,
    ),
    refusal: /^MIG-101 .*a closing parenthesis has no opening one$/,
  },
  {
    name: 'MIG-101: a function whose body does not compile',
    before: table('{ name: name, type: text }'),
    rows: ROWS,
    after: table(
      '{ name: name, type: text }',
      `rpc:\n  broken: { language: sql, returns: { type: bigint }, body: "select count(*) from poeple" }\n`,
    ),
    refusal: /^MIG-101 svc\.yaml:\d+:\d+: relation "poeple" does not exist$/,
  },
];

/** Constraints that can be checked only with values of the new type. */
const AFTER_CONVERSION: readonly Case[] = [
  {
    name: 'MIG-208: a result of using that is too long',
    before: table('{ name: name, type: text }'),
    rows: `insert into people values (1, 'short'), (2, 'far too long')`,
    after: table(`{ name: name, type: 'varchar(6)', using: upper(name) }`),
    refusal: new RegExp(
      '^MIG-208 tables\\.people\\.fields\\.name\\.using: text → character varying\\(6\\): ' +
        '1 value does not fit \\(key column id\\)$',
    ),
    mend: `update people set name = left(name, 6)`,
  },
  {
    name: 'MIG-208: a value whose text is longer than the length',
    before: table('{ name: at, type: timestamp }'),
    rows: `insert into people values (1, '2020-01-01')`,
    after: table(`{ name: at, type: 'varchar(10)', using: "at::text" }`),
    refusal: /^MIG-208 .*1 value does not fit/,
    mend: `update people set at = null`,
  },
  {
    name: 'MIG-208: a uuid that becomes a short text without a conversion',
    before: table('{ name: ref, type: uuid }'),
    rows: `insert into people values (1, gen_random_uuid()), (2, null)`,
    after: table(`{ name: ref, type: 'varchar(20)' }`),
    refusal: new RegExp(
      '^MIG-208 tables\\.people\\.fields\\.ref\\.type: uuid → character varying\\(20\\): ' +
        '1 value does not fit \\(key column id\\)$',
    ),
    mend: `update people set ref = null`,
  },
  {
    name: 'MIG-208: a value that is too long for a domain of a short text',
    before: table('{ name: name, type: text }'),
    rows: `insert into people values (1, 'short'), (2, 'far too long')`,
    after: `types: { code: { domain: varchar(6) } }\n${table('{ name: name, type: code, using: "upper(name)" }')}`,
    refusal: /^MIG-208 .*1 value does not fit \(key column id\)$/,
    mend: `update people set name = left(name, 6)`,
  },
  {
    name: 'MIG-208: a number that is too large for its new precision',
    before: table('{ name: price, type: integer }'),
    rows: `insert into people values (1, 12), (2, 12345)`,
    after: table(`{ name: price, type: 'numeric(4,2)' }`),
    refusal: /^MIG-208 .*1 row cannot be cast \(key column id\)$/,
    mend: `update people set price = 12`,
  },
  {
    name: 'MIG-208: a bit string that is too long for its new length',
    before: table(`{ name: bits, type: 'bit(8)' }`),
    rows: `insert into people values (1, '10000001')`,
    after: table(`{ name: bits, type: 'bit(4)' }`),
    refusal: /^MIG-208 .*1 (row|value) /,
    mend: `update people set bits = null`,
  },
  {
    name: 'MIG-208: an element of an array that is too long',
    before: table(`{ name: tags, type: 'text[]' }`),
    rows: `insert into people values (1, '{short,far too long}'), (2, '{a}')`,
    after: table(`{ name: tags, type: 'varchar(6)[]', using: "array_remove(tags, 'x')" }`),
    refusal: /^MIG-208 .*1 value does not fit \(key column id\)$/,
    mend: `update people set tags = '{short}'`,
  },
  {
    name: 'MIG-208: a number that violates the check of a domain',
    before: table('{ name: age, type: integer }'),
    rows: `insert into people values (1, 3), (2, -3)`,
    after: `types: { natural: { domain: integer, check: value >= 0 } }\n${table('{ name: age, type: natural }')}`,
    refusal: /^MIG-208 .*1 (row cannot be cast|value does not fit) \(key column id\)$/,
    mend: `update people set age = 3`,
  },
  {
    name: 'MIG-208: an integer that is out of range for a smaller type',
    before: table('{ name: age, type: bigint }'),
    rows: `insert into people values (1, 3), (2, 3000000000)`,
    after: table('{ name: age, type: integer }'),
    refusal: /^MIG-208 .*1 row cannot be cast \(key column id\)$/,
    mend: `update people set age = 3`,
  },
  {
    name: 'MIG-204: text becomes varchar with an enum',
    before: table('{ name: state, type: text }'),
    rows: `insert into people values (1, 'on'), (2, 'odd')`,
    after: table(`{ name: state, type: 'varchar(10)', enum: [on, off] }`),
    refusal: /^MIG-204 tables\.people\.fields\.state\.enum: .*1 row is not in the enum .*\(key column id\)/,
    mend: `update people set state = 'off' where id = 2`,
  },
  {
    name: 'MIG-204: a range that rounded values violate',
    before: table(`{ name: price, type: 'numeric(6,2)', max: 9.8 }`),
    rows: `insert into people values (1, 9.7)`,
    after: table(`{ name: price, type: integer, max: 9.8, using: round(price) }`),
    refusal: /^MIG-204 .*as integer, 1 row violates the range \.\.9\.8 \(key column id\)/,
    mend: `update people set price = 9`,
  },
  {
    name: 'MIG-202: values that are equal in the new type',
    before: table('{ name: code, type: text, unique: true }'),
    rows: `insert into people values (1, '1.0'), (2, '1.00')`,
    after: table('{ name: code, type: numeric, unique: true, using: "code::numeric" }'),
    refusal:
      /^MIG-202 tables\.people\.fields\.code\.using: unique over \(code\), but 1 value occurs more than once/,
    mend: `update people set code = '2' where id = 2`,
  },
  {
    name: 'MIG-201: a value that the conversion turns into null',
    before: table('{ name: age, type: text, required: true }'),
    rows: `insert into people values (1, '7'), (2, '')`,
    after: table(`{ name: age, type: integer, required: true, using: "nullif(age, '')::integer" }`),
    refusal:
      /^MIG-201 tables\.people\.fields\.age\.using: required, but 1 row would be NULL as integer \(key column id\)$/,
    mend: `update people set age = '0' where id = 2`,
  },
  {
    name: 'MIG-203: converted values without a referenced row',
    before: table('{ name: friend, type: text }'),
    rows: `insert into people values (1, '1'), (2, '9')`,
    after: table(
      '{ name: friend, type: integer, using: "friend::integer", foreign_key: { references: people.id } }',
    ),
    refusal:
      /^MIG-203 tables\.people\.fields\.friend\.foreign_key: 1 row points to missing people \(key column id\)$/,
    mend: `update people set friend = null where id = 2`,
  },
];

describe('a refusal', () => {
  beforeEach(async () => {
    await world.empty();
  });

  for (const testCase of AFTER_CONVERSION) {
    test.each([
      ['', {}],
      [', on a large table', { maxWriteBlockMs: 0 }],
    ])(`${testCase.name}%s`, async (_size, policy) => {
      await world.settle(testCase.before);
      await world.sql(`${testCase.rows}; analyze people`);
      const before = await everything();
      const { problems } = await world.plan(testCase.after, policy);
      expect(problems.map((found) => `${found.code} ${found.at}: ${found.message}`).join('\n')).toMatch(
        testCase.refusal,
      );
      expect(await world.apply(testCase.after, policy)).toMatchObject({ kind: 'refused', begun: false });
      expect(await everything(), 'a refused plan changes nothing').toEqual(before);
      for (const found of problems) await expectPrintedQueriesToRun(world.url, found);
      await world.sql(testCase.mend ?? '');
      await world.settle(testCase.after, policy);
    });
  }

  test('a backfill in the same file can make a type change possible', async () => {
    await world.settle(table('{ name: name, type: text }'));
    await world.sql(`insert into people values (1, null), (2, '7')`);
    await world.settle(
      table(`{ name: name, type: integer, required: true, using: "coalesce(name, '0')::integer", min: 0 }`),
    );
    expect(await world.sql('select name from people order by id')).toEqual([{ name: 0 }, { name: 7 }]);
  });

  test.each([
    ['in place', {}],
    ['shadow', { maxWriteBlockMs: 0 }],
  ])('an allowed loss of text is accepted, %s', async (_way, policy) => {
    await world.settle(table('{ name: name, type: text }'));
    await world.sql(`insert into people values (1, 'far too long'); analyze people`);
    const after = table(`{ name: name, type: 'varchar(6)' }`);
    await world.settle(after, { ...policy, allow: ['data_loss=tables.people.fields.name'] });
    expect(await world.sql('select name from people')).toEqual([{ name: 'far to' }]);
  });

  test('a refusal during a run reports that the run had begun', async () => {
    await world.settle(table('{ name: name, type: text }'));
    await world.sql(`insert into people values (1, 'a'); analyze people`);
    const after = table('{ name: name, type: text, unique: true }\n{ name: more, type: text }');
    const outcome = await world.apply(
      after,
      { maxWriteBlockMs: 0 },
      {
        onStatement: async (step) => {
          if (step.lane === 'concurrent')
            await world.sql(`insert into people values (2, 'a') on conflict do nothing`);
        },
      },
    );
    expect(outcome).toMatchObject({ kind: 'refused', begun: true });
    await world.sql('delete from people where id = 2');
    await world.settle(after, { maxWriteBlockMs: 0 });
  });

  for (const testCase of CASES) {
    test(testCase.name, async () => {
      await world.settle(testCase.before);
      await world.sql(testCase.rows);
      const before = await everything();
      const outcome = await world.apply(testCase.after);
      const problems = outcome.kind === 'refused' ? outcome.problems : [];
      expect(problems.map((found) => `${found.code} ${found.place}: ${found.message}`).join('\n')).toMatch(
        testCase.refusal,
      );
      expect(await everything(), 'a refused plan changes nothing').toEqual(before);
      for (const found of problems) await expectPrintedQueriesToRun(world.url, found);
      if (testCase.mend) await world.sql(testCase.mend);
      if (testCase.mend ?? testCase.mended) await world.settle(testCase.mended ?? testCase.after);
    });
  }

  test('a key column can be removed if another key replaces it', async () => {
    await world.settle(table('{ name: code, type: integer, required: true }'));
    await world.sql(`insert into people select n, n * 10 from generate_series(1, 3) n`);
    await world.settle(
      `tables: { people: { fields: [{ name: code, type: integer, primary_key: true }], rls: [] } }`,
    );
    expect(await world.sql(`insert into people (code) values (5) returning id, code`)).toEqual([
      { id: null, code: 5 },
    ]);
  });

  test('an allowed loss is accepted', async () => {
    await world.settle(table(`{ name: price, type: 'numeric(10,4)' }`));
    await world.sql(`insert into people values (1, 1.2345)`);
    await world.settle(table(`{ name: price, type: 'numeric(10,2)' }`), {
      allow: ['data_loss=tables.people.fields.price'],
    });
    expect(await world.sql('select price from people')).toEqual([{ price: '1.23' }]);
  });

  async function everything(): Promise<unknown> {
    const rows = await world.sql(`select to_jsonb(p) as row from people p order by id`);
    const catalog = await world.sql(`
      select md5(string_agg(line, '' order by line)) as text from (
        select attname || atttypid || attnotnull || coalesce(pg_get_expr(adbin, adrelid), '') as line from pg_attribute
          left join pg_attrdef on adrelid = attrelid and adnum = attnum where attrelid = 'people'::regclass
        union all select conname || pg_get_constraintdef(oid) from pg_constraint where conrelid = 'people'::regclass
        union all select indexrelid::text from pg_index where indrelid = 'people'::regclass
        union all select identity || definition::text from svc_meta.object
        union all select relacl::text || relrowsecurity::text from pg_class where oid = 'people'::regclass) lines`);
    return { rows, catalog };
  }
});
