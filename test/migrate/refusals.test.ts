// What rows can make impossible is refused before anything is changed, with the place, the counts, the keys of some
// rows and the line to add. And the same file goes through once the rows allow it.
import { afterAll, beforeEach, beforeAll, describe, expect, test } from 'vitest';
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
  /** A file, or statements, after which it works. */
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

const ROWS = `insert into people select n, case when n % 3 = 0 then null else 'name ' || n % 4 end from generate_series(1, 30) n`;

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
    name: 'MIG-201: required over nulls',
    before: table('{ name: name, type: text }'),
    rows: ROWS,
    after: table('{ name: name, type: text, required: true }'),
    refusal: /^MIG-201 svc\.yaml:\d+:\d+: required, but 10 of 30 rows are NULL \(id 3, 6, 9 …\)$/,
    mended: table(`{ name: name, type: text, required: true, backfill: "'nobody'" }`),
  },
  {
    name: 'MIG-202: unique over duplicates',
    before: table('{ name: name, type: text }'),
    rows: ROWS,
    after: table('{ name: name, type: text, unique: true }'),
    refusal:
      /^MIG-202 svc\.yaml:\d+:\d+: unique over \(name\), but 4 values occur more than once \("name \d" ×\d, .* …\)$/,
    mend: `update people set name = null`,
  },
  {
    name: 'MIG-202: a unique partial index over duplicates',
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
    after: table(`{ name: name, type: text, unique: true, required: true, backfill: "'nobody'" }`),
    refusal:
      /^MIG-202 svc\.yaml:\d+:\d+: unique over \(name\), but 1 value occurs more than once \("nobody" ×2\)$/,
    mended: table(`{ name: name, type: text, unique: true, required: true, backfill: "'nobody ' || id" }`),
  },
  {
    name: 'MIG-203: a backfill that points nowhere',
    before: table('{ name: boss, foreign_key: { references: people.id } }'),
    rows: `insert into people values (1, null), (2, 1)`,
    after: table('{ name: boss, foreign_key: { references: people.id }, required: true, backfill: "99" }'),
    refusal: /^MIG-203 svc\.yaml:\d+:\d+: 1 row would point to missing people$/,
    mended: table('{ name: boss, foreign_key: { references: people.id }, required: true, backfill: "id" }'),
  },
  {
    name: 'MIG-204: a backfill against the range',
    before: table('{ name: age, type: integer, min: 1 }'),
    rows: `insert into people values (1, 5), (2, null)`,
    after: table('{ name: age, type: integer, min: 1, required: true, backfill: "0" }'),
    refusal: /^MIG-204 svc\.yaml:\d+:\d+: 1 row would be against the range 1\.\.$/,
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
    refusal: /^MIG-208 svc\.yaml:\d+:\d+: the value cannot be computed: division by zero$/,
    mended: table(`{ name: age, type: integer, required: true, backfill: "1 / (id - 3)" }`),
  },
  {
    name: 'MIG-202: a computed default that is the same in all rows of a new unique column',
    before: table('{ name: note, type: text }'),
    rows: 'insert into people values (1), (2)',
    after: table(
      `{ name: note, type: text }\n{ name: name, type: text, unique: true, default: { sql: lower('NOBODY') } }`,
    ),
    refusal: /^MIG-202 svc\.yaml:\d+:\d+: unique, but 2 rows would all get the default lower\('NOBODY'\)$/,
    mended: table(
      '{ name: note, type: text }\n{ name: name, type: uuid, unique: true, default: { sql: gen_random_uuid() } }',
    ),
  },
  {
    name: 'MIG-202: a unique index over a new column and one that is there',
    before: table('{ name: part, type: integer }'),
    rows: 'insert into people values (1, 7), (2, 7)',
    after: table(`{ name: part, type: integer }\n{ name: name, type: text, default: nobody }`).replace(
      '    rls: []',
      '    indexes: [{ columns: [part, name], unique: true }]\n    rls: []',
    ),
    refusal: /^MIG-202 svc\.yaml:\d+:\d+: unique over \(part, name\), but 1 value occurs more than once/,
    mend: 'update people set part = id',
  },
  {
    name: 'MIG-204: a default against the pattern of its new column',
    before: table('{ name: note, type: text }'),
    rows: 'insert into people values (1), (2)',
    after: table(
      `{ name: note, type: text }\n{ name: name, type: text, pattern: '^[A-Z]+$', default: { sql: lower('NOBODY') } }`,
    ),
    refusal: /^MIG-204 svc\.yaml:\d+:\d+: every row would be against the pattern /,
    mended: table(
      `{ name: note, type: text }\n{ name: name, type: text, pattern: '^[A-Z]+$', default: { sql: upper('nobody') } }`,
    ),
  },
  {
    name: 'MIG-203: a default that points nowhere',
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
    name: 'MIG-203: a foreign key over orphans',
    before: table('{ name: boss, type: integer }'),
    rows: `insert into people values (1, null), (2, 1), (3, 77), (4, 78)`,
    after: table('{ name: boss, foreign_key: { references: people.id } }'),
    refusal: /^MIG-203 svc\.yaml:\d+:\d+: 2 rows point to missing people \(boss 77, 78\)$/,
    mend: `update people set boss = null where boss > 70`,
  },
  {
    name: 'MIG-204: a smaller enum',
    before: table('{ name: state, type: text, enum: [open, done, archived] }'),
    rows: `insert into people select n, (array['open', 'done', 'archived'])[1 + n % 3] from generate_series(1, 9) n`,
    after: table('{ name: state, type: text, enum: [open, done] }'),
    refusal:
      /^MIG-204 svc\.yaml:\d+:\d+: 3 of 9 rows are not in the enum \[open, done\]: "archived" \(3 rows\) \(id 2, 5, 8\)$/,
    mend: `update people set state = 'done' where state = 'archived'`,
  },
  {
    name: 'MIG-204: a narrower range, pattern and check',
    before: table('{ name: age, type: integer }\n{ name: code, type: text }\n{ name: size, type: integer }'),
    rows: `insert into people select n, n, 'X' || n, n from generate_series(1, 5) n`,
    after: table(
      `{ name: age, type: integer, max: 4 }\n{ name: code, type: text, pattern: '^X[1-3]$' }\n{ name: size, type: integer, check: size < 5 }`,
    ),
    refusal:
      /^MIG-204 .*against the range \.\.4: "5" \(1 rows\) \(id 5\)\nMIG-204 .*pattern.*"X4".*"X5".*\nMIG-204 .*check size < 5/,
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
    refusal: /^MIG-208 svc\.yaml:\d+:\d+: text → integer: 2 rows cannot be cast \("n\/a", "–"\)$/,
    mended: table(
      `{ name: name, type: integer, using: "case when name ~ '^[0-9]+$' then name::integer end" }`,
    ),
  },
  {
    name: 'MIG-208: a cast that would round',
    before: table(`{ name: price, type: 'numeric(10,4)' }`),
    rows: `insert into people values (1, 1.5), (2, 1.2345)`,
    after: table(`{ name: price, type: 'numeric(10,2)' }`),
    refusal: /^MIG-208 .*1 rows would lose something \("1\.2345" would become "1\.23"\) \(id 2\)$/,
    mend: `update people set price = round(price, 2)`,
  },
  {
    name: 'MIG-208: a text that does not fit any more',
    before: table('{ name: name, type: text }'),
    rows: `insert into people values (1, 'short'), (2, 'far too long')`,
    after: table(`{ name: name, type: 'varchar(6)' }`),
    refusal: /^MIG-208 .*"far too long" would become "far to"/,
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
    name: 'MIG-304: a view over a column that changes its type',
    before: table('{ name: age, type: integer }'),
    rows: `create view grown as select age from people; alter view grown owner to svc_owner`,
    after: table('{ name: age, type: bigint }'),
    refusal: /^MIG-304 .*view grown uses age$/,
    mend: 'drop view grown',
  },
  {
    name: 'MIG-305: the key column leaves without a successor',
    before: table('{ name: name, type: text }'),
    rows: ROWS,
    after: table('{ name: name, type: text }').replace(
      '      - { name: id, type: integer, primary_key: true }\n',
      '',
    ),
    refusal: /^MIG-305 .*id is part of the primary key and was removed from the file$/,
  },
  {
    name: 'MIG-101: a policy that names a column nobody has',
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

/** What only the values of the new type can be asked about. */
const OF_THE_NEW_TYPE: readonly Case[] = [
  {
    name: 'MIG-208: a value that using makes does not fit',
    before: table('{ name: name, type: text }'),
    rows: `insert into people values (1, 'short'), (2, 'far too long')`,
    after: table(`{ name: name, type: 'varchar(6)', using: upper(name) }`),
    refusal:
      /^MIG-208 tables\.people\.fields\.name\.using: text → character varying\(6\): 1 value does not fit \("FAR TOO LONG"\) \(id 2\)$/,
    mend: `update people set name = left(name, 6)`,
  },
  {
    name: 'MIG-208: a value whose text is longer than the length',
    before: table('{ name: at, type: timestamp }'),
    rows: `insert into people values (1, '2020-01-01')`,
    after: table(`{ name: at, type: 'varchar(10)', using: "at::text" }`),
    refusal: /^MIG-208 .*1 value does not fit \("2020-01-01 00:00:00"\)/,
    mend: `update people set at = null`,
  },
  {
    name: 'MIG-204: text becomes varchar with an enum',
    before: table('{ name: state, type: text }'),
    rows: `insert into people values (1, 'on'), (2, 'odd')`,
    after: table(`{ name: state, type: 'varchar(10)', enum: [on, off] }`),
    refusal: /^MIG-204 tables\.people\.fields\.state\.enum: .*1 row is not in the enum .*"odd"/,
    mend: `update people set state = 'off' where id = 2`,
  },
  {
    name: 'MIG-204: a range that was kept before the values were rounded',
    before: table(`{ name: price, type: 'numeric(6,2)', max: 9.8 }`),
    rows: `insert into people values (1, 9.7)`,
    after: table(`{ name: price, type: integer, max: 9.8, using: round(price) }`),
    refusal: /^MIG-204 .*as integer, 1 row is against the range \.\.9\.8: "10"/,
    mend: `update people set price = 9`,
  },
  {
    name: 'MIG-202: values that are told apart no more',
    before: table('{ name: code, type: text, unique: true }'),
    rows: `insert into people values (1, '1.0'), (2, '1.00')`,
    after: table('{ name: code, type: numeric, unique: true, using: "code::numeric" }'),
    refusal:
      /^MIG-202 tables\.people\.fields\.code\.using: unique over \(code\), but 1 value occurs more than once/,
    mend: `update people set code = '2' where id = 2`,
  },
  {
    name: 'MIG-201: a value is gone with the old type',
    before: table('{ name: age, type: text, required: true }'),
    rows: `insert into people values (1, '7'), (2, '')`,
    after: table(`{ name: age, type: integer, required: true, using: "nullif(age, '')::integer" }`),
    refusal: /^MIG-201 tables\.people\.fields\.age\.using: required, but 1 row would be NULL as integer$/,
    mend: `update people set age = '0' where id = 2`,
  },
  {
    name: 'MIG-203: what points to nothing as the type that it points to',
    before: table('{ name: friend, type: text }'),
    rows: `insert into people values (1, '1'), (2, '9')`,
    after: table(
      '{ name: friend, type: integer, using: "friend::integer", foreign_key: { references: people.id } }',
    ),
    refusal:
      /^MIG-203 tables\.people\.fields\.friend\.foreign_key: 1 row points to missing people \(friend 9\)$/,
    mend: `update people set friend = null where id = 2`,
  },
];

describe('a refusal', () => {
  beforeEach(async () => {
    await world.empty();
  });

  for (const one of OF_THE_NEW_TYPE) {
    test.each([
      ['', {}],
      [', on a large table', { maxWriteBlockMs: 0 }],
    ])(`${one.name}%s`, async (_size, policy) => {
      await world.settle(one.before);
      await world.sql(`${one.rows}; analyze people`);
      const before = await everything();
      const { problems } = await world.plan(one.after, policy);
      expect(problems.map((found) => `${found.code} ${found.at}: ${found.message}`).join('\n')).toMatch(
        one.refusal,
      );
      expect(await world.apply(one.after, policy)).toMatchObject({ kind: 'refused', begun: false });
      expect(await everything(), 'a refused plan changes nothing').toEqual(before);
      await world.sql(one.mend ?? '');
      await world.settle(one.after, policy);
    });
  }

  test('values that are given while their type changes may make it possible', async () => {
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
  ])('a loss of text that is named is accepted, %s', async (_way, policy) => {
    await world.settle(table('{ name: name, type: text }'));
    await world.sql(`insert into people values (1, 'far too long'); analyze people`);
    const after = table(`{ name: name, type: 'varchar(6)' }`);
    await world.settle(after, { ...policy, allow: ['data_loss=tables.people.fields.name'] });
    expect(await world.sql('select name from people')).toEqual([{ name: 'far to' }]);
  });

  test('what is refused on its way says that it had begun', async () => {
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

  for (const one of CASES) {
    test(one.name, async () => {
      await world.settle(one.before);
      await world.sql(one.rows);
      const before = await everything();
      expect((await world.refusal(one.after)).join('\n')).toMatch(one.refusal);
      expect(await everything(), 'a refused plan changes nothing').toEqual(before);
      if (one.mend) await world.sql(one.mend);
      if (one.mend ?? one.mended) await world.settle(one.mended ?? one.after);
    });
  }

  test('a key column may go when another key takes its place', async () => {
    await world.settle(table('{ name: code, type: integer, required: true }'));
    await world.sql(`insert into people select n, n * 10 from generate_series(1, 3) n`);
    await world.settle(
      `tables: { people: { fields: [{ name: code, type: integer, primary_key: true }], rls: [] } }`,
    );
    expect(await world.sql(`insert into people (code) values (5) returning id, code`)).toEqual([
      { id: null, code: 5 },
    ]);
  });

  test('a loss that is named is accepted', async () => {
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
        select attname || atttypid || attnotnull || coalesce(pg_get_expr(adbin, adrelid), '') as line from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum where attrelid = 'people'::regclass
        union all select conname || pg_get_constraintdef(oid) from pg_constraint where conrelid = 'people'::regclass
        union all select indexrelid::text from pg_index where indrelid = 'people'::regclass
        union all select identity || definition::text from svc_meta.object
        union all select relacl::text || relrowsecurity::text from pg_class where oid = 'people'::regclass) lines`);
    return { rows, catalog };
  }
});
