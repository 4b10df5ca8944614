// Tests tables that leave the file and return, with their name or another name: they match the current file, and keep
// no attributes that the file does not declare.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
});

const TEAMS = `
tables:
  teams:
    fields:
      - { name: id, type: integer, primary_key: true }
    rls: []
`;
const STORAGE = `storage:\n  images: {}\n`;

const RICH = `${TEAMS}  notes:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: title, type: text, required: true, unique: true, default: none }
      - { name: state, type: text, enum: [open, closed] }
      - { name: code, type: text, pattern: '^[a-z]+$' }
      - { name: size, type: integer, min: 1, max: 9 }
      - { name: odd, type: integer, check: odd % 2 = 1 }
      - { name: team, foreign_key: { references: teams.id } }
      - { name: image, type: text, ref: storage.images }
      - { name: number, type: bigserial }
      - { name: extra, type: text, required: true, unique: true, default: x }
    indexes:
      - { columns: [size] }
      - { columns: [code, size], unique: true }
      - { columns: [state], where: state = 'open' }
    rls:
      - { operations: [select], using: 'true' }
      - { operations: [insert, update], using: 'id > 0' }
${STORAGE}`;

/** The same table with only its columns. */
const plain = (name: string, more = ''): string => `${TEAMS}  ${name}:
${more}    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: title, type: text }
      - { name: state, type: text }
      - { name: code, type: text }
      - { name: size, type: integer }
      - { name: odd, type: integer }
      - { name: team, type: integer }
      - { name: image, type: text }
      - { name: number, type: bigint }
    rls: []
${STORAGE}`;

const GONE = `${TEAMS}${STORAGE}`;

async function asCaller(role: 'anon' | 'service_role', text: string): Promise<unknown[]> {
  const client = new pg.Client(world.url);
  await client.connect();
  try {
    await client.query(`set role ${role}`);
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

/** Describes all dependent objects of a table. */
async function describeDependants(table: string): Promise<unknown[]> {
  const rows = await world.sql(`
    select 'constraint ' || conname as what from pg_constraint where conrelid = '${table}'::regclass and contype <> 'n'
    union all select 'index ' || indexrelid::regclass from pg_index where indrelid = '${table}'::regclass
    union all select 'policy ' || polname from pg_policy where polrelid = '${table}'::regclass
    union all select 'trigger ' || tgname from pg_trigger where tgrelid = '${table}'::regclass and not tgisinternal
    union all select 'default ' || attname from pg_attribute where attrelid = '${table}'::regclass and atthasdef
      and not attisdropped
    union all select 'required ' || attname from pg_attribute where attrelid = '${table}'::regclass and attnotnull
      and attnum > 0
    order by 1`);
  return rows.map((row) => row['what']);
}

describe.each([
  ['under its own name', 'notes', ''],
  ['under another name', 'letters', '    renamed_from: notes\n'],
])('a table that returns %s', (_, name, renamed) => {
  const primary = [`constraint ${name}_pkey`, `index ${name}_pkey`];

  test.each([
    ['on a small database', {}],
    ['with every table counted as large', { maxWriteBlockMs: 0 }],
  ])('keeps its rows and nothing else, %s', async (_size, policy) => {
    await world.settle(RICH);
    await world.sql(
      `insert into teams values (1); insert into notes values (1, 'a', 'open', 'abc', 5, 3, 1, 'a.png')`,
    );
    await world.settle(GONE, policy);
    await expect(asCaller('service_role', 'select * from notes')).rejects.toThrow(/permission denied/);
    await world.settle(plain(name, renamed), policy);
    // `extra` was retired with the table and returns as a retired column, which is kept.
    expect(await describeDependants(name)).toEqual(
      [...primary, 'default extra', 'required id', 'required extra'].sort(),
    );
    expect(await asCaller('anon', `select * from ${name}`)).toEqual([]);
    expect(await asCaller('service_role', `select id, title, extra from ${name}`)).toEqual([
      { id: 1, title: 'a', extra: 'x' },
    ]);
    expect(await world.sql(`select * from storage.object_refs`)).toEqual([]);
    expect((await world.plan(plain(name, renamed))).unmanaged).toEqual([]);
  });

  test('has all its attributes if the file declares them again', async () => {
    await world.settle(RICH);
    const before = await describeDependants('notes');
    await world.settle(GONE);
    await world.settle(RICH.replace('  notes:\n', `  ${name}:\n${renamed}`));
    const after = (await describeDependants(name)).map((dependant) =>
      String(dependant).replaceAll(name, 'notes'),
    );
    const sorted = (list: unknown[]): unknown[] =>
      list.map((item) => String(item).replace(/notes_\w+_idx/, 'idx')).sort();
    expect(sorted(after)).toEqual(sorted(before));
    expect((await world.plan(RICH.replace('  notes:\n', `  ${name}:\n${renamed}`))).unmanaged).toEqual([]);
  });

  test('without rls it is as accessible as any new table', async () => {
    const bare = (key: string): string =>
      `tables:\n  ${key}:\n${key === 'notes' ? '' : renamed}    fields:\n` +
      '      - { name: id, type: integer, primary_key: true }\n';
    await world.settle(bare('notes'));
    await world.sql('insert into notes values (1)');
    await world.settle(GONE);
    await world.settle(bare(name));
    expect(await asCaller('anon', `select * from ${name}`)).toEqual([{ id: 1 }]);
    expect(await asCaller('service_role', `select * from ${name}`)).toEqual([{ id: 1 }]);
  });

  test('without rls it is refused if it had policies', async () => {
    await world.settle(RICH);
    await world.settle(GONE);
    const [refused] = await world.refusal(plain(name, renamed).replace(/    rls: \[\]\n(?=storage)/, ''));
    expect(refused).toMatch(/^MIG-303/);
    await expect(asCaller('anon', 'select * from notes')).rejects.toThrow(/permission denied/);
  });

  test('undeclared objects are listed and kept', async () => {
    await world.settle(RICH);
    await world.settle(GONE);
    await world.sql(
      `create policy by_hand on notes for select to anon using (false); create index by_hand on notes (odd)`,
    );
    await world.settle(plain(name, renamed));
    expect(
      (await world.plan(plain(name, renamed))).unmanaged
        .map((object) => `${object.what} ${object.name}`)
        .sort(),
    ).toEqual(['index by_hand', 'policy by_hand']);
  });
});

test('a column that returns has the constraints of the current file', async () => {
  const more = plain('notes').replace(
    '    rls: []\nstorage',
    '      - { name: extra, type: text }\n    rls: []\nstorage',
  );
  await world.settle(RICH);
  await world.settle(plain('notes'));
  await world.settle(more);
  expect(await describeDependants('notes')).toEqual([
    'constraint notes_pkey',
    'index notes_pkey',
    'required id',
  ]);
});

test('renaming a column keeps its records', async () => {
  await world.sql(
    `create table notes (id integer primary key, title text); alter table notes owner to svc_owner`,
  );
  const closed = (field: string): string =>
    'tables:\n  notes:\n    fields:\n      - { name: id, type: integer, primary_key: true }\n' +
    `      - { ${field}, type: text }\n`;
  await world.settle(closed('name: title'));
  await world.settle(closed('name: headline, renamed_from: title'));
  await world.settle(closed('name: headline'));
  await expect(asCaller('anon', 'select * from notes')).rejects.toThrow(/permission denied/);
});
