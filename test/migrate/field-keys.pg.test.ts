// Tests generated columns, identity, collations, comments and actions of foreign keys: created, changed, renamed,
// removed and pulled, on small and large tables.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
let version = 0;
beforeAll(async () => {
  world = await aWorld();
  const [row] = await world.sql(`select current_setting('server_version_num')::int as version`);
  version = Number(row?.['version']);
});
afterAll(() => world.close());
beforeEach(() => world.empty());

const notes = (...fields: string[]): string => `tables:
  notes:
    rls: []
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: title, type: text }
${fields.map((field) => `      - ${field}\n`).join('')}`;
const LARGE = { maxWriteBlockMs: 0 };
const one = async (query: string): Promise<unknown> => Object.values((await world.sql(query))[0] ?? {})[0];
/** Expects an empty plan for the pulled file. */
const expectPulled = async (text: string): Promise<void> => {
  const declared = await pulled(world);
  expect(declared).not.toContain('Left alone');
  expect(declared).toContain(text);
  await world.sql('truncate svc_meta.stamp, svc_meta.object');
  const plan = await world.plan(declared);
  expect(plan.steps.map((step) => step.sql)).toEqual([]);
  await world.settle(declared);
};

describe('generated columns', () => {
  const SEARCH = `{ name: search, type: tsvector, generated: "to_tsvector('english', coalesce(title, ''))" }`;
  const withIndex = `${notes(SEARCH)}    indexes: [{ columns: [search], using: gin }]\n`;

  test('a stored column is created, indexed, used, read-only, and pulled', async () => {
    await world.settle(withIndex);
    await world.sql(`insert into notes (id, title) select n, 'note ' || n from generate_series(1, 9000) n;
      insert into notes (id, title) values (9001, 'A rare walrus');`);
    await world.sql('vacuum analyze notes');
    const plan = await world.sql(
      `explain (format json) select id from notes where search @@ to_tsquery('english', 'walrus')`,
    );
    expect(JSON.stringify(plan)).toContain('Bitmap Index Scan');
    await expect(world.sql(`update notes set search = null`)).rejects.toThrow(/only be updated to DEFAULT/);
    await expectPulled('generated: "to_tsvector(');
  });

  test('is added to a table with rows, and keeps its position in a new table', async () => {
    await world.settle(notes());
    await world.sql(`insert into notes values (1, 'Red')`);
    await world.settle(notes('{ name: upper, type: text, required: true, generated: upper(title) }'));
    expect(await one('select upper from notes')).toBe('RED');
    await world.empty();
    await world.settle(
      notes('{ name: upper, type: text, generated: upper(title) }', '{ name: last, type: text }'),
    );
    expect(
      await one(`select string_agg(attname, ',' order by attnum) from pg_attribute
        where attrelid = 'notes'::regclass and attnum > 0 and not attisdropped`),
    ).toBe('id,title,upper,last');
  });

  test('a required column is refused if the expression is null for a row', async () => {
    await world.settle(notes());
    await world.sql(`insert into notes values (1, null), (2, 'b')`);
    const yaml = notes('{ name: upper, type: text, required: true, generated: upper(title) }');
    expect(await world.refusal(yaml)).toEqual([expect.stringMatching(/^MIG-201 .*NULL for 1 of 2 rows/)]);
  });

  test('another expression updates every row and keeps objects that use the column', async () => {
    const file = (expression: string): string =>
      (
        notes(`{ name: slug, type: text, generated: "${expression}", check: length(slug) < 100 }`) +
        `    indexes: [{ columns: [slug] }, { columns: [id], where: "slug <> ''" }]\n`
      ).replace('rls: []', `rls: [{ operations: [select], using: "slug <> 'secret'" }]`);
    await world.settle(file('lower(title)'));
    await world.sql(`insert into notes (id, title) values (1, 'Red')`);
    await world.settle(file(`lower(title) || '-'`));
    expect(await one('select slug from notes')).toBe('red-');
    expect(await one(`select count(*)::int from pg_indexes where tablename = 'notes'`)).toBe(3);
    expect(await one(`select count(*)::int from pg_policies where tablename = 'notes'`)).toBe(1);
    expect(
      await one(
        `select count(*)::int from pg_constraint where conrelid = 'notes'::regclass and contype = 'c'`,
      ),
    ).toBe(1);
  });

  test('undeclared objects are never dropped with the column', async () => {
    if (version >= 170_000) return;
    await world.settle(notes('{ name: slug, type: text, generated: lower(title) }'));
    await world.sql('create index by_hand on notes (slug)');
    expect(await world.refusal(notes('{ name: slug, type: text, generated: upper(title) }'))).toEqual([
      expect.stringMatching(/^MIG-304 .*by_hand/),
    ]);
  });

  test('becomes a plain column with the same values, and a generated column again', async () => {
    await world.settle(notes('{ name: slug, type: text, generated: lower(title) }'));
    await world.sql(`insert into notes (id, title) values (1, 'Red'), (2, 'Blue')`);
    await world.settle(notes('{ name: slug, type: text }'));
    await world.sql(`update notes set slug = 'by hand' where id = 2`);
    expect(await one(`select string_agg(slug, ',' order by id) from notes`)).toBe('red,by hand');
    const again = notes('{ name: slug, type: text, generated: lower(title) }');
    expect(await world.refusal(again)).toEqual([expect.stringMatching(/^MIG-208 .*1 of 2 rows/)]);
    await world.settle(again, { allow: ['data_loss=tables.notes.fields.slug'] });
    expect(await one(`select string_agg(slug, ',' order by id) from notes`)).toBe('red,blue');
  });

  test('follows a renamed column, is retired, and returns', async () => {
    await world.settle(notes('{ name: slug, type: text, generated: lower(title) }'));
    await world.sql(`insert into notes (id, title) values (1, 'Red')`);
    const renamed = notes('{ name: handle, type: text, renamed_from: slug, generated: lower(name) }').replace(
      'name: title,',
      'name: name, renamed_from: title,',
    );
    await world.settle(renamed);
    expect(await one('select handle from notes')).toBe('red');
    const without = renamed.replace(/ {6}- \{ name: handle.*\n/, '');
    await world.settle(without);
    await world.sql(`insert into notes (id, name) values (2, 'Blue')`);
    await world.settle(renamed);
    expect(await one(`select string_agg(handle, ',' order by id) from notes`)).toBe('red,blue');
  });

  test('can call a declared function', async () => {
    const yaml = `${notes('{ name: slug, type: text, generated: slugged(title) }')}rpc:
  slugged:
    language: sql
    volatility: immutable
    args: [{ name: text, type: text, required: true }]
    returns: { type: text }
    body: select lower($1)
`;
    await world.settle(yaml);
    await world.sql(`insert into notes (id, title) values (1, 'Red')`);
    expect(await one('select slug from notes')).toBe('red');
  });

  test('on a large table the rewrite is refused, unless it is allowed', async () => {
    await world.settle(notes());
    await world.sql(`insert into notes select n, n || '' from generate_series(1, 50) n`);
    const yaml = notes('{ name: slug, type: text, generated: lower(title) }');
    expect(await world.refusal(yaml, LARGE)).toEqual([expect.stringMatching(/^MIG-301/)]);
    await world.settle(yaml, { ...LARGE, allow: ['rewrite=tables.notes.fields.slug'] });
  });

  test('an invalid expression is reported at its position', async () => {
    const [message] = await world.refusal(notes('{ name: slug, type: text, generated: lower(titel) }'));
    expect(message).toMatch(/^MIG-101 svc.yaml:\d+:\d+: column "titel" does not exist\n.*lower\(titel\)/);
    expect(await world.refusal(notes('{ name: made, type: timestamptz, generated: now() }'))).toEqual([
      expect.stringMatching(/immutable/),
    ]);
  });

  const VIRTUAL = '{ name: slug, type: text, generated: { sql: lower(title), virtual: true } }';
  test('a virtual column needs PostgreSQL 18', async () => {
    if (version < 180_000)
      expect(await world.refusal(notes(VIRTUAL))).toEqual([
        expect.stringMatching(/^MIG-113 .*slug is virtual/),
      ]);
    else {
      await world.settle(notes(VIRTUAL));
      await world.sql(`insert into notes (id, title) values (1, 'Red')`);
      expect(await one('select slug from notes')).toBe('red');
      await expectPulled('virtual: true');
      await world.settle(notes(VIRTUAL.replace('lower', 'upper')));
      expect(await one('select slug from notes')).toBe('RED');
      await world.settle(notes('{ name: slug, type: text, generated: lower(title) }'));
      await world.settle(notes(VIRTUAL));
      await world.settle(notes('{ name: slug, type: text }'));
      expect(await one('select slug from notes')).toBe('red');
    }
  });
});

describe('identity', () => {
  const numbered = (number: string): string => notes(`{ name: number, ${number} }`);
  const insert = (columns: string, values: string): Promise<unknown> =>
    world.sql(`insert into notes (${columns}) values (${values})`);

  test('always: an explicit value is rejected, and the column is pulled', async () => {
    const yaml = numbered('type: bigint, identity: always');
    await world.settle(yaml);
    await insert('id', '1');
    await expect(insert('id, number', '2, 7')).rejects.toThrow(/cannot insert a non-DEFAULT value/);
    expect(await one('select number::int from notes')).toBe(1);
    await expectPulled('identity: always');
  });

  test('by_default: an explicit value is accepted, and callers need no right on the sequence', async () => {
    const yaml = numbered('type: integer, identity: by_default');
    await world.settle(yaml);
    await insert('id, number', '1, 7');
    await world.sql(`set role service_role; insert into notes (id) values (2); reset role`);
    expect(await one('select number from notes where id = 2')).toBe(1);
    await expectPulled('identity: by_default');
  });

  test('a serial column counts as identity, becomes always and back, and keeps its sequence value', async () => {
    await world.settle(numbered('type: bigserial'));
    await world.sql('insert into notes (id) values (1), (2)');
    expect((await world.plan(numbered('type: bigint, identity: by_default'))).steps).toEqual([]);
    await world.settle(numbered('type: bigint, identity: always'));
    await insert('id', '3');
    expect(await one('select number::int from notes where id = 3')).toBe(3);
    expect((await world.plan(numbered('type: bigserial'))).steps).toEqual([]);
    await world.settle(numbered('type: bigint, identity: by_default'));
    await insert('id, number', '4, 99');
    await world.settle(numbered('type: bigint, required: true'));
    await expect(insert('id', '5')).rejects.toThrow(/null value/);
  });

  test('a plain column with rows becomes an identity column and continues after the highest value', async () => {
    for (const policy of [{}, LARGE]) {
      await world.empty();
      await world.settle(numbered('type: bigint'));
      await world.sql('insert into notes (id, number) select n, n * 10 from generate_series(1, 5) n');
      await world.settle(numbered('type: bigint, identity: by_default'), policy);
      await insert('id', '6');
      expect(await one('select number::int from notes where id = 6')).toBe(51);
    }
  });

  test('is added to a table with rows', async () => {
    await world.settle(notes());
    await world.sql('insert into notes (id) values (1), (2)');
    await world.settle(numbered('type: bigint, identity: always'));
    expect(await one('select count(distinct number)::int from notes')).toBe(2);
  });

  test('is kept when its type changes, in place and online', async () => {
    for (const policy of [{}, LARGE]) {
      await world.empty();
      await world.settle(numbered('type: integer, identity: always'));
      await world.sql('insert into notes (id) select n from generate_series(1, 50) n');
      await world.settle(numbered('type: bigint, identity: always'), policy);
      await expect(insert('id, number', '51, 7')).rejects.toThrow(/non-DEFAULT/);
      await insert('id', '51');
      expect(await one('select number::int from notes where id = 51')).toBe(51);
    }
  });
});

describe('collations', () => {
  const collated = (more: string): string =>
    notes(`{ name: code, type: text${more} }`).concat('    indexes: [{ columns: [code] }]\n');
  const found = (): Promise<unknown> =>
    one(`select collname from pg_attribute a join pg_collation c on c.oid = a.attcollation
      where attrelid = 'notes'::regclass and attname = 'code'`);

  test('is created, changed, reverted and pulled, and an undeclared collation is kept', async () => {
    await world.settle(collated(', collate: C'));
    expect(await found()).toBe('C');
    await expectPulled('collate: C');
    await world.settle(collated(', collate: POSIX'));
    expect(await found()).toBe('POSIX');
    await world.settle(collated(''));
    expect(await found()).toBe('default');
    await world.sql('alter table notes alter column code type text collate "C"');
    await world.settle(collated(''));
    expect(await found()).toBe('C');
  });

  test('changes online on a large table that is sorted by it', async () => {
    await world.settle(collated(''));
    await world.sql(`insert into notes (id, code) select n, n || '' from generate_series(1, 50) n`);
    const plan = await world.plan(collated(', collate: C'), LARGE);
    expect(plan.steps.map((step) => step.lane)).toContain('shadow');
    await world.settle(collated(', collate: C'), LARGE);
    expect(await found()).toBe('C');
  });

  test('a missing collation is refused at its position', async () => {
    expect(await world.refusal(collated(', collate: nosuch'))).toEqual([
      expect.stringMatching(/^MIG-101 svc.yaml:.*nosuch/),
    ]);
  });
});

describe('comments', () => {
  const commented = (table: string, field: string): string =>
    notes(`{ name: body, type: text${field} }`).replace('    rls: []\n', `    rls: []\n${table}`);
  const both = async (): Promise<unknown[]> =>
    Object.values(
      (
        await world.sql(
          `select obj_description('notes'::regclass) as t, col_description('notes'::regclass, 3) as c`,
        )
      )[0] ?? {},
    );

  test('of a table and a field are created, changed, restored after drift, removed and pulled', async () => {
    await world.settle(commented('    comment: "It\'s notes"\n', ', comment: As typed'));
    expect(await both()).toEqual(["It's notes", 'As typed']);
    await expectPulled("comment: It's notes");
    await world.settle(commented('    comment: Notes\n', ', comment: Typed'));
    expect(await both()).toEqual(['Notes', 'Typed']);
    await world.sql(`comment on table notes is 'By hand'`);
    expect((await world.plan(commented('    comment: Notes\n', ', comment: Typed'))).steps).toHaveLength(1);
    await world.settle(commented('    comment: Notes\n', ', comment: Typed'));
    await world.settle(commented('', ''));
    expect(await both()).toEqual([null, null]);
    await world.sql(`comment on table notes is 'By hand'`);
    await world.settle(commented('', ''));
    expect(await both()).toEqual(['By hand', null]);
  });

  test('stay with a renamed column, and change together with an online type change', async () => {
    await world.settle(commented('', ', comment: As typed'));
    const renamed = commented('', ', comment: As typed, renamed_from: body').replace(
      'name: body',
      'name: text',
    );
    await world.settle(renamed);
    await world.settle(commented('', ', renamed_from: body').replace('name: body', 'name: text'));
    expect(await both()).toEqual([null, null]);
    await world.settle(notes('{ name: size, type: integer, comment: Small }'), { drop: 'drop' });
    await world.sql(`insert into notes (id, size) select n, n from generate_series(1, 50) n`);
    await world.settle(notes('{ name: size, type: bigint, comment: Large }'), LARGE);
    expect(
      await one(`select col_description(attrelid, attnum) from pg_attribute
        where attrelid = 'notes'::regclass and attname = 'size'`),
    ).toBe('Large');
  });
});

describe('foreign keys', () => {
  const file = (more: string, field = ''): string => `tables:
  lists:
    rls: []
    fields:
      - { name: id, type: integer, primary_key: true }
  todos:
    rls: []
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: list_id, type: integer${field}, foreign_key: { references: lists.id${more} } }
`;
  const print = (): Promise<unknown> =>
    one(
      `select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'todos'::regclass and contype = 'f'`,
    );

  test.each([
    [', on_update: cascade', 'ON UPDATE CASCADE ON DELETE RESTRICT'],
    [', on_update: set_null, on_delete: cascade', 'ON UPDATE SET NULL ON DELETE CASCADE'],
    [', on_delete: set_default, on_update: set_default', 'ON UPDATE SET DEFAULT ON DELETE SET DEFAULT'],
    [', on_delete: no_action, deferrable: deferred', 'DEFERRABLE INITIALLY DEFERRED'],
    [', on_delete: cascade, deferrable: immediate', 'ON DELETE CASCADE DEFERRABLE'],
  ])('foreign_key: { references: lists.id%s }', async (more, ending) => {
    await world.settle(file(more));
    expect(String(await print())).toMatch(new RegExp(`${ending}$`));
    await expectPulled('foreign_key:');
    await world.settle(file(''));
    expect(await print()).toBe('FOREIGN KEY (list_id) REFERENCES lists(id) ON DELETE RESTRICT');
    await world.settle(file(more), LARGE);
    expect(String(await print())).toMatch(new RegExp(`${ending}$`));
  });

  test('on_update: cascade carries a changed key to the rows that refer to it', async () => {
    await world.settle(file(', on_update: cascade'));
    await world.sql('insert into lists values (1); insert into todos values (1, 1); update lists set id = 2');
    expect(await one('select list_id from todos')).toBe(2);
  });

  test('an existing foreign key with NO ACTION matches the declaration', async () => {
    await world.settle(file(''));
    await world.sql(`alter table todos drop constraint todos_list_id_fkey,
      add constraint todos_list_id_fkey foreign key (list_id) references lists (id)`);
    expect((await world.plan(file(''))).steps).toEqual([]);
    expect((await world.plan(file(', on_delete: no_action'))).steps).toEqual([]);
  });
});
