// Tests enum types: created before the tables that use them, changed without a rewrite if possible, kept while in use,
// and equal whether svc created them or they were pulled.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { prune } from '../../src/migrate/commands/prune.ts';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(() => world.empty());

const LARGE = { maxWriteBlockMs: 0 };

const file = (types: string, ...fields: string[]): string =>
  `types:\n${types.replaceAll(/^/gm, '  ')}\n` +
  'tables:\n  todos:\n    rls: []\n    fields:\n      - { name: id, type: integer, primary_key: true }\n' +
  fields.map((field) => `      - ${field}\n`).join('');

const labels = async (type: string): Promise<unknown> => {
  const [row] = await world.sql(
    `select array(select enumlabel::text from pg_enum where enumtypid = to_regtype($1)
      order by enumsortorder) as labels`,
    [type],
  );
  return row?.['labels'];
};

const exists = async (type: string): Promise<unknown> => {
  const [row] = await world.sql('select to_regtype($1) is not null as found', [type]);
  return row?.['found'];
};

const MOOD = 'mood: { enum: [sad, ok, happy] }';
const FIELD = '{ name: mood, type: mood, default: ok }';

describe('a new type', () => {
  test('is created with the column and the default that use it', async () => {
    await world.settle(file(MOOD, FIELD, '{ name: all, type: "mood[]", default: [sad, happy] }'));
    await world.sql('insert into todos (id) values (1)');
    expect(await world.sql('select mood::text, "all"::text from todos')).toEqual([
      { mood: 'ok', all: '{sad,happy}' },
    ]);
  });

  test('can be used with and without its schema, and with a quoted name', async () => {
    await world.settle(file(MOOD, FIELD));
    expect((await world.plan(file(MOOD, FIELD.replace('type: mood', 'type: public.mood')))).steps).toEqual(
      [],
    );
    const odd = `Big Plan: { enum: [free, "it's"], schema: crm, comment: What it costs }`;
    await world.settle(file(odd, '{ name: plan, type: Big Plan, default: "it\'s" }'));
    expect(await labels('crm."Big Plan"')).toEqual(['free', "it's"]);
    expect(await world.sql(`select obj_description('crm."Big Plan"'::regtype) as comment`)).toEqual([
      { comment: 'What it costs' },
    ]);
    await world.settle(file(odd.replace('What it costs', 'A price'), '{ name: plan, type: crm.Big Plan }'));
    expect(await world.sql(`select obj_description('crm."Big Plan"'::regtype) as comment`)).toEqual([
      { comment: 'A price' },
    ]);
  });

  test('that already exists in the database is adopted unchanged', async () => {
    await world.sql(`set role svc_owner; create type mood as enum ('sad', 'ok', 'happy');
      create table todos (id integer primary key, mood mood default 'ok'); reset role`);
    const outcome = await world.settle(file(MOOD, FIELD));
    expect(outcome.kind === 'applied' && outcome.plan.steps.map((step) => step.summary)).not.toContain(
      'type mood: sad, ok, happy',
    );
  });

  test('can be used by functions, indexes and policies of the same file', async () => {
    await world.settle(
      `${file(MOOD, FIELD, '{ name: worse, type: mood, check: "worse < mood" }')}
    indexes: [{ columns: [mood], where: "mood > 'sad'" }]
rpc:
  cheer: { language: sql, args: [{ name: from, type: mood, default: sad }], returns: { type: mood },
    body: "select 'happy'::public.mood" }
`.replace('    rls: []', `    rls: [{ operations: [select], using: "mood <> 'sad'::public.mood" }]`),
    );
    expect(await world.sql('select cheer()::text as mood')).toEqual([{ mood: 'happy' }]);
  });
});

describe('new values', () => {
  const more = 'mood: { enum: [awful, sad, meh, ok, happy, great] }';

  test.each([{}, LARGE])(
    'are added in the declared order and can be used immediately: %o',
    async (policy) => {
      await world.settle(file(MOOD, FIELD));
      await world.sql(`insert into todos (id, mood) values (1, 'sad'), (2, 'happy')`);
      const outcome = await world.settle(
        file(
          more,
          '{ name: mood, type: mood, default: meh, check: "mood <> \'awful\'" }',
          '{ name: next, type: mood, default: great, required: true }',
        ),
        policy,
      );
      expect(await labels('mood')).toEqual(['awful', 'sad', 'meh', 'ok', 'happy', 'great']);
      expect(await world.sql('select mood::text, next::text from todos order by id')).toEqual([
        { mood: 'sad', next: 'great' },
        { mood: 'happy', next: 'great' },
      ]);
      const lanes = outcome.kind === 'applied' ? outcome.plan.steps.map((step) => step.lane) : [];
      expect(lanes.filter((lane) => lane === 'values')).toHaveLength(3);
      expect(lanes.lastIndexOf('values')).toBeLessThan(lanes.indexOf('metadata'));
      expect(outcome.kind === 'applied' && outcome.plan.steps.some((step) => step.rewrites)).toBe(false);
    },
  );

  test('stay when a later step fails, and the next run continues', async () => {
    await world.settle(file(MOOD, FIELD));
    await world.sql(`insert into todos (id) values (1)`);
    const next = file(more, FIELD, '{ name: next, type: mood, default: great, check: "next = \'awful\'" }');
    expect((await world.refusal(next)).join()).toContain('MIG-');
    expect(await labels('mood')).toHaveLength(6);
    await world.settle(file(more, FIELD));
  });

  test('can be used by a default, a check and a view of the same file', async () => {
    const views = (value: string): string =>
      `views:\n  days: { query: "select id, mood from todos where mood <> '${value}'" }\n`;
    await world.settle(file(MOOD, FIELD) + views('sad'));
    await world.sql(`insert into todos (id) values (1)`);
    await world.settle(
      file(more, FIELD.replace('default: ok', `default: great, check: "mood <> 'awful'"`)) + views('meh'),
    );
    await world.sql(`insert into todos (id) values (2), (3); update todos set mood = 'meh' where id = 3`);
    expect(await world.sql('select id, mood::text from days order by id')).toEqual([
      { id: 1, mood: 'ok' },
      { id: 2, mood: 'great' },
    ]);
    // Remove the value again, with the view that uses the column.
    await world.sql(`update todos set mood = 'sad'`);
    await world.settle(file('mood: { enum: [sad, ok] }', FIELD) + views('ok'));
    expect(await world.sql('select mood::text from days order by id limit 1')).toEqual([{ mood: 'sad' }]);
  });

  test('that were added manually are reported, and adopted by a file that declares them', async () => {
    await world.settle(file(MOOD, FIELD));
    await world.sql(`alter type mood add value 'great'`);
    await world.settle(file('mood: { enum: [sad, ok, happy, great] }', FIELD));
  });
});

describe('a type that leaves the file', () => {
  test('is dropped when nothing uses it', async () => {
    await world.settle(file(MOOD, FIELD));
    await world.settle(file(MOOD, '{ name: mood, type: text }'));
    expect(await exists('mood')).toBe(true);
    await world.settle('tables: {}\n');
    expect(await exists('mood')).toBe(false);
  });

  test.each([{}, LARGE])('is dropped when its last column changes its type: %o', async (policy) => {
    await world.settle(file(MOOD, FIELD));
    await world.sql(`insert into todos (id) values (1)`);
    await world.settle(
      file(MOOD, '{ name: mood, type: text, using: "mood::text", default: ok }').replace(/types:\n.*\n/, ''),
      policy,
    );
    expect(await exists('mood')).toBe(false);
    expect(await world.sql('select mood from todos')).toEqual([{ mood: 'ok' }]);
  });

  test('is kept while a retired column uses it, and returns with the column', async () => {
    await world.settle(file(MOOD, FIELD));
    await world.sql(`insert into todos (id, mood) values (1, 'happy')`);
    await world.settle(file(MOOD).replace(/types:\n.*\n/, ''));
    expect(await exists('mood')).toBe(true);
    await world.settle(file('mood: { enum: [sad, ok, happy, great] }', FIELD));
    expect(await world.sql('select mood::text from todos')).toEqual([{ mood: 'happy' }]);
  });

  test('is kept while an undeclared object uses it', async () => {
    await world.settle(file(MOOD, FIELD));
    await world.sql('create table strange (mood mood)');
    await world.settle('tables: {}\n', { drop: 'drop' });
    expect(await exists('mood')).toBe(true);
  });
});

describe('renames', () => {
  test('of values keep the rows, together with new values', async () => {
    await world.settle(file(MOOD, FIELD));
    await world.sql(`insert into todos (id, mood) values (1, 'sad'), (2, 'ok')`);
    const outcome = await world.settle(
      file(
        'mood: { enum: [awful, unhappy, fine, happy], renamed_values: { sad: unhappy, ok: fine } }',
        FIELD.replace('default: ok', 'default: fine'),
      ),
    );
    expect(await world.sql('select mood::text from todos order by id')).toEqual([
      { mood: 'unhappy' },
      { mood: 'fine' },
    ]);
    expect(await labels('mood')).toEqual(['awful', 'unhappy', 'fine', 'happy']);
    expect(outcome.kind === 'applied' && outcome.plan.steps.some((step) => step.rewrites)).toBe(false);
  });

  test('of the type keep its columns, together with new values and columns', async () => {
    await world.settle(file(MOOD, FIELD));
    await world.sql(`insert into todos (id, mood) values (1, 'sad')`);
    await world.settle(
      file(
        'feeling: { enum: [awful, sad, okay, happy], renamed_from: mood, renamed_values: { ok: okay } }',
        '{ name: mood, type: feeling, default: okay }',
        '{ name: next, type: feeling, default: awful }',
      ),
    );
    expect(await world.sql('select mood::text, next::text from todos')).toEqual([
      { mood: 'sad', next: 'awful' },
    ]);
    expect(await exists('mood')).toBe(false);
  });

  test('that were done manually are adopted, and both names in one file are refused', async () => {
    await world.settle(file(MOOD, FIELD));
    const next = file(
      'feeling: { enum: [sad, ok, happy], renamed_from: mood }',
      '{ name: mood, type: feeling, default: ok }',
    );
    await world.sql(`set role svc_owner; create type feeling as enum ('sad', 'ok', 'happy'); reset role`);
    expect(await world.refusal(next)).toEqual([expect.stringMatching(/^MIG-206 svc\.yaml:\d+:3: /)]);
    await world.sql('drop type feeling; alter type mood rename to feeling');
    await world.settle(next);
  });
});

describe('values that leave the file', () => {
  const less = 'mood: { enum: [sad, happy] }';
  const uses = [
    '{ name: mood, type: mood, default: happy, check: "mood <> \'sad\'" }',
    '{ name: moods, type: "mood[]", default: [happy] }',
  ];
  const all = (types: string): string =>
    `${file(types, ...uses)}    indexes: [{ columns: [mood] }, { columns: [id], where: "mood = 'happy'" }]
rpc:
  cheer: { language: sql, args: [{ name: from, type: mood, required: true }], returns: { type: setof mood },
    body: "select mood from todos where mood <> cheer.from" }
`.replace('    rls: []', `    rls: [{ operations: [select], using: "mood = 'happy'" }]`);

  test.each([{}, LARGE])(
    'are removed if no row contains them, with all objects that use the type: %o',
    async (policy) => {
      await world.settle(all(MOOD));
      await world.sql(`insert into todos (id, moods) values (1, '{sad,happy}')`);
      await world.settle(all(less), policy);
      expect(await labels('mood')).toEqual(['sad', 'happy']);
      expect(await world.sql('select mood::text, moods::text from todos')).toEqual([
        { mood: 'happy', moods: '{sad,happy}' },
      ]);
      expect(await world.sql(`select typname from pg_type where typname like '%svc\\_e\\_%'`)).toEqual([]);
      expect(await world.sql(`select cheer('sad')::text as mood`)).toEqual([{ mood: 'happy' }]);
    },
  );

  test('are refused with the number of rows that contain them', async () => {
    await world.settle(file(MOOD, '{ name: mood, type: mood }', '{ name: moods, type: "mood[]" }'));
    await world.sql(
      `insert into todos (id, mood, moods) values (1, 'ok', null), (2, 'sad', '{ok,sad}'), (3, 'ok', null)`,
    );
    expect(
      await world.refusal(file(less, '{ name: mood, type: mood }', '{ name: moods, type: "mood[]" }')),
    ).toEqual([
      'MIG-204 svc.yaml:9:9: 2 of 3 rows hold a value that public.mood no longer has (key column id)',
      'MIG-204 svc.yaml:10:9: 1 of 3 rows hold a value that public.mood no longer has (key column id)',
    ]);
    expect(await labels('mood')).toEqual(['sad', 'ok', 'happy']);
    const renamed = 'mood: { enum: [sad, happy, fine], renamed_values: { ok: fine } }';
    await world.settle(file(renamed, '{ name: mood, type: mood }', '{ name: moods, type: "mood[]" }'), {
      allow: ['rewrite'],
    });
    expect(await world.sql('select mood::text from todos order by todos.mood')).toEqual([
      { mood: 'sad' },
      { mood: 'fine' },
      { mood: 'fine' },
    ]);
  });

  test('stay with a retired column, whose type is dropped when it is pruned', async () => {
    await world.settle(file(MOOD, FIELD, '{ name: former, type: mood }'));
    await world.sql(`insert into todos (id, former) values (1, 'ok')`);
    await world.settle(file(MOOD, FIELD));
    await world.settle(file(less, '{ name: mood, type: mood, default: happy, using: "\'happy\'" }'));
    expect(await world.sql('select former::text, mood::text from todos')).toEqual([
      { former: 'ok', mood: 'happy' },
    ]);
    const dropped = await world.owner.session((session) =>
      prune(session, {
        names: ['tables.todos.fields.former'],
        allow: ['data_loss=tables.todos.fields.former'],
        pruneAfterMs: 0,
        now: new Date(),
        model: { tables: [], functions: [], buckets: [] },
        locks: { lockTimeoutMs: 1_000, lockBudgetMs: 1_000 },
      }),
    );
    expect(dropped.problems).toEqual([]);
    expect(await world.sql(`select typname from pg_type where typname like '%svc\\_e\\_%'`)).toEqual([]);
  });

  test('are refused while an undeclared object uses the type', async () => {
    await world.settle(file(MOOD, '{ name: mood, type: mood }'));
    await world.sql(
      'create table strange (mood mood); create function odd(mood) returns int language sql as $$ select 1 $$',
    );
    expect(await world.refusal(file(less, '{ name: mood, type: mood }'))).toEqual([
      expect.stringMatching(/^MIG-304 .*column mood of table strange is not in the file/),
      expect.stringMatching(/^MIG-304 .*function odd\(.*\) is not in the file/),
    ]);
  });

  test('a different order is reported, and applied if it is allowed', async () => {
    await world.settle(file(MOOD, FIELD));
    const reordered = file('mood: { enum: [happy, ok, sad] }', FIELD);
    const { steps, notes } = await world.plan(reordered);
    expect(steps).toEqual([]);
    expect(notes).toEqual([expect.stringContaining('--allow rewrite=types.mood')]);
    await world.settle(reordered, { allow: ['rewrite=types.mood'] });
    expect(await labels('mood')).toEqual(['happy', 'ok', 'sad']);
  });
});

test('a pulled file contains the types and has an empty plan', async () => {
  await world.sql(`set role svc_owner; create schema crm; create type crm."Big Plan" as enum ('free', 'it''s');
    create type mood as enum ('sad', 'ok', '1.10'); comment on type mood is 'How it went';
    create table todos (id integer primary key, mood mood default 'ok', moods mood[] default '{ok}',
      plan crm."Big Plan");
    reset role`);
  const text = await pulled(world);
  expect(text).toContain('mood: { enum: [ sad, ok, "1.10" ], comment: How it went }');
  expect((await world.plan(text)).steps).toEqual([]);
  await world.settle(text);
});

test('an unknown type is reported with a suggestion', async () => {
  const [told] = await world.refusal(file(MOOD, '{ name: mood, type: moood }'));
  expect(told).toMatch(/^MIG-101 svc\.yaml:\d+:\d+: type "moood" does not exist/);
});
