// Tests published tables: membership in the publication, and replica identity.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readUnmanagedObjects } from '../../src/migrate/state/unmanaged.ts';
import { toModel } from '../../src/migrate/schema/declared.ts';
import { parseConfig } from './parse-config.ts';
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
beforeEach(async () => {
  await world.empty();
});

const ID = '{ name: id, type: integer, primary_key: true }';
const NOTE = '{ name: note, type: text }';
const file = (realtime: string, fields = `${ID}, ${NOTE}`, rls = 'rls: []'): string =>
  `tables:\n  t: { ${realtime === '' ? '' : `realtime: ${realtime}, `}${rls}, fields: [${fields}] }\n`;

async function members(): Promise<string[]> {
  const rows = await world.sql(
    `select schemaname || '.' || tablename as name from pg_publication_tables where pubname = 'svc_realtime'
     and schemaname <> 'realtime' order by 1`,
  );
  return rows.map((row) => String(row['name']));
}

async function identity(table = 't'): Promise<unknown> {
  const [row] = await world.sql('select relreplident as identity from pg_class where oid = $1::regclass', [
    table,
  ]);
  return row?.['identity'];
}

describe('realtime of a table', () => {
  test('publishes a table and unpublishes it again, without changing its rows', async () => {
    await world.settle(file('true'));
    expect(await members()).toEqual(['public.t']);
    expect(await identity()).toBe('d');
    await world.sql(`insert into t values (1, 'a')`);
    await world.settle(file('false'));
    expect(await members()).toEqual([]);
    await world.sql(`update t set note = 'b'`);
    await world.settle(file('true'));
    expect(await members()).toEqual(['public.t']);
  });

  test('old: full sets the replica identity, shows this in the plan, and can be reverted', async () => {
    await world.settle(file('true'));
    const plan = await world.plan(file('{ old: full }'));
    expect(plan.notes).toEqual([expect.stringContaining('writes the whole row to the write-ahead log')]);
    await world.settle(file('{ old: full }'));
    expect(await identity()).toBe('f');
    await world.settle(file('true'));
    expect(await identity()).toBe('d');
    await world.settle(file('{ old: full }'));
    await world.settle(file(''));
    expect(await identity()).toBe('d');
  });

  test('a change of events does not change the database', async () => {
    await world.settle(file('true'));
    expect((await world.plan(file('{ events: [insert], deletes: none }'))).steps).toEqual([]);
  });

  test('a new table is published after its policies are created', async () => {
    const { steps } = await world.plan(
      file('true', `${ID}, ${NOTE}`, 'rls: [{ operations: [select], check: "id > 0" }]'),
    );
    const place = (text: RegExp): number => steps.findIndex(({ sql }) => text.test(sql));
    expect(place(/add table/)).toBeGreaterThan(place(/create policy/));
    expect(place(/add table/)).toBeGreaterThan(place(/enable row level security/));
    expect(place(/add table/)).toBeGreaterThan(place(/primary key/));
    expect(new Set(steps.map(({ lane }) => lane))).toEqual(new Set(['metadata']));
  });

  test('unpublishing a table is reported as breaking for subscribers', async () => {
    await world.settle(file('true'));
    expect(await world.refusal(file(''), { strictRollout: true })).toEqual([
      expect.stringMatching(/^MIG-302 svc\.yaml:\d+:\d+: changes are no longer published may break replicas/),
    ]);
  });

  test('a rename keeps the publication', async () => {
    await world.settle(file('{ old: full }'));
    const renamed = file('{ old: full }').replace('  t: {', '  u: { renamed_from: t,');
    const { steps } = await world.plan(renamed);
    expect(steps.filter(({ sql }) => /publication|replica/.test(sql))).toEqual([]);
    await world.settle(renamed);
    expect(await members()).toEqual(['public.u']);
    await world.settle(renamed.replace('realtime: { old: full }, ', ''));
    expect(await members()).toEqual([]);
    expect(await identity('u')).toBe('d');
  });

  test('a retired table is unpublished with its rows kept, and a restored table is published as declared', async () => {
    await world.settle(file('{ old: full }'));
    await world.sql(`insert into t values (1, 'a')`);
    await world.settle('tables: {}\n');
    expect(await members()).toEqual([]);
    expect(await world.sql('select note from t')).toEqual([{ note: 'a' }]);
    await world.settle(file(''));
    expect(await identity()).toBe('d');
    expect(await members()).toEqual([]);
  });

  test('manual changes are reverted', async () => {
    await world.settle(file('{ old: full }'));
    await world.sql('alter publication svc_realtime drop table t; alter table t replica identity default');
    expect((await world.plan(file('{ old: full }'))).steps).toHaveLength(2);
    await world.settle(file('{ old: full }'));
    await world.sql('alter publication svc_realtime set table realtime.messages, t (id)');
    await world.sql('alter table t replica identity nothing');
    await world.settle(file('true'));
    expect(await members()).toEqual(['public.t']);
    const [row] = await world.sql(
      `select prattrs is null as whole from pg_publication_rel where prrelid = 't'::regclass`,
    );
    expect(row).toEqual({ whole: true });
    expect(await identity()).toBe('d');
  });

  test('a manually dropped publication is created again', async () => {
    const options = async (): Promise<unknown> =>
      await world.sql(
        `select to_jsonb(p) - 'oid' as options from pg_publication p where pubname = 'svc_realtime'`,
      );
    await world.settle(file('true'));
    const before = await options();
    await world.sql('drop publication svc_realtime');
    await world.settle(file('true'));
    expect(await members()).toEqual(['public.t']);
    expect(await options()).toEqual(before);
  });
});

test('a manually added table stays in the publication and is listed', async () => {
  await world.settle(file('true') + file('').replace('tables:\n', '').replace('  t:', '  u:'));
  await world.sql('create table by_hand (id integer primary key)');
  await world.sql('alter publication svc_realtime add table by_hand, u');
  await world.sql('alter table u replica identity full');
  const yaml = file('true') + file('').replace('tables:\n', '').replace('  t:', '  u:');
  await world.settle(yaml);
  expect(await members()).toEqual(['public.by_hand', 'public.t', 'public.u']);
  expect(await identity('u')).toBe('f');
  const found = await world.owner.session((session) =>
    readUnmanagedObjects(session, toModel(parseConfig(yaml)), ['public']),
  );
  expect(found.filter(({ what }) => what.startsWith('member')).map(({ name }) => name)).toEqual([
    'public.by_hand',
    'public.u',
  ]);
});

describe('a published table accepts updates', () => {
  test('with generated columns and old: full', async () => {
    const yaml = file('{ old: full }', `${ID}, ${NOTE}, { name: loud, type: text, generated: upper(note) }`);
    await world.settle(yaml);
    await world.sql(`insert into t values (1, 'a'); update t set note = 'b'; delete from t`);
  });

  test('while its key is built again', async () => {
    const keyed = (on: string): string =>
      file(
        'true',
        ['id', 'other']
          .map(
            (name) =>
              `{ name: ${name}, type: integer, required: true${name === on ? ', primary_key: true' : ''} }`,
          )
          .join(', '),
      );
    await world.settle(keyed('id'));
    await world.sql('insert into t select n, n from generate_series(1, 20) n');
    await world.sql('analyze t');
    const { steps } = await world.plan(keyed('other'), { maxWriteBlockMs: 0 });
    expect(steps.map(({ sql, lane }) => `${lane}: ${sql}`)).toEqual([
      'metadata: alter table "public"."t" replica identity full',
      'metadata: alter table "public"."t" drop constraint "t_pkey"',
      expect.stringMatching(/^concurrent: create unique index concurrently/),
      expect.stringMatching(
        /^concurrent: alter table "public"."t" add constraint .* primary key using index/,
      ),
      'concurrent: alter table "public"."t" replica identity default',
    ]);
    await world.settle(keyed('other'), { maxWriteBlockMs: 0 });
    expect(await identity()).toBe('d');
  });

  test.each([
    ['a new column', ''],
    ['a column that becomes required', ', { name: note, type: text }'],
  ])('while its key moves during a backfill: %s', async (_name, before) => {
    const keyed = (on: string, more: string): string =>
      file(
        'true',
        `${['id', 'other']
          .map(
            (name) =>
              `{ name: ${name}, type: integer, required: true${name === on ? ', primary_key: true' : ''} }`,
          )
          .join(', ')}${more}`,
      );
    await world.settle(keyed('id', before));
    await world.sql('insert into t (id, other) select n, n from generate_series(1, 20) n');
    await world.settle(keyed('other', `, { name: note, type: text, required: true, backfill: "'x'" }`));
    expect(await identity()).toBe('d');
    expect(await world.sql('select count(*)::int as n from t where note is not null')).toEqual([{ n: 20 }]);
  });

  test.for(['true', '{ old: full }', ''])(
    'while its key moves to a column whose type changes, followed by realtime: %s',
    async (realtime) => {
      const keyed = (on: string, type: string, tracked: string): string =>
        file(
          tracked,
          [`{ name: id, type: ${type}`, '{ name: other, type: integer']
            .map((field) => `${field}, required: true${field.includes(on) ? ', primary_key: true' : ''} }`)
            .join(', '),
        );
      await world.settle(keyed('other', 'bigint', 'true'));
      await world.sql('insert into t values (1, 1), (2, 2)');
      await world.settle(keyed('id', 'integer', realtime), { maxWriteBlockMs: 0 });
      expect(await members()).toEqual(realtime === '' ? [] : ['public.t']);
      expect(await identity()).toBe(realtime === '{ old: full }' ? 'f' : 'd');
      await world.sql('update t set other = 3 where id = 1');
    },
  );

  test('a large table is published after its key is built', async () => {
    await world.settle(file('', `{ name: id, type: integer, required: true }, ${NOTE}`));
    await world.sql('insert into t select n from generate_series(1, 20) n');
    await world.sql('analyze t');
    const { steps } = await world.plan(file('true'), { maxWriteBlockMs: 0 });
    expect(steps.at(-1)).toMatchObject({ lane: 'concurrent', stage: 'publication' });
    await world.settle(file('true'), { maxWriteBlockMs: 0 });
    expect(await members()).toEqual(['public.t']);
  });

  test.for([
    [
      'alter table t set unlogged',
      file('true'),
      /is unlogged: the write-ahead log does not contain its changes/,
    ],
    [
      'alter table t drop constraint t_pkey, add constraint t_pkey primary key (id) deferrable',
      file('true'),
      /deferrable: PostgreSQL would refuse updates and deletes/,
    ],
  ] as const)('is refused: %s', async ([by, yaml, message]) => {
    await world.settle(file(''));
    await world.sql(by);
    expect((await world.refusal(yaml)).join('\n')).toMatch(message);
  });

  test('is refused: old: full with a virtual column', async ({ skip }) => {
    if (version < 180_000) skip('no virtual columns');
    const fields = `${ID}, ${NOTE}, { name: loud, type: text, generated: { sql: upper(note), virtual: true } }`;
    expect(await world.refusal(file('{ old: full }', fields))).toEqual([
      expect.stringMatching(/MIG-304 .*the column loud is generated and not stored/),
    ]);
    await world.settle(file('true', fields));
    await world.sql(`insert into t values (1, 'a'); update t set note = 'b'; delete from t`);
  });
});

test('a type change keeps a large table published', async () => {
  await world.settle(file('true'));
  await world.sql(`insert into t select n, n from generate_series(1, 20) n`);
  await world.sql('analyze t');
  const retyped = file('true').replace('note, type: text', 'note, type: integer, using: "note::integer"');
  await world.settle(retyped, { maxWriteBlockMs: 0 });
  expect(await members()).toEqual(['public.t']);
});

describe('pull', () => {
  const columns = '(id integer primary key, note text)';

  test('writes realtime: true for tables that a Supabase project publishes', async () => {
    await world.sql(`begin; set local role svc_owner; create table tracked ${columns}; create table quiet ${columns};
      create table whole ${columns};
      alter table whole replica identity full; create publication supabase_realtime for table tracked, whole; commit`);
    try {
      const text = await pulled(world);
      expect(text.match(/realtime/g)).toHaveLength(2);
      const old = parseConfig(text).tables.map(({ name, realtime }) => [name, realtime?.old]);
      expect(Object.fromEntries(old)).toEqual({ quiet: undefined, tracked: 'key', whole: 'full' });
      await world.settle(text);
      expect(await members()).toEqual(['public.tracked', 'public.whole']);
      expect(await pulled(world)).toBe(text);
    } finally {
      await world.sql('drop publication supabase_realtime');
    }
  });

  test('does not publish more than before: without a key, with a row filter, with some events', async () => {
    await world.sql(`create table keyless (note text); create table part ${columns}; create table tracked ${columns};
      create publication supabase_realtime for table keyless, part
        where (id > 0), tracked with (publish = 'insert, truncate')`);
    try {
      const text = await pulled(world);
      expect(text).toMatch(/publication of its changes: it has no primary key/);
      expect(text).toMatch(/publication of its changes: only some of its columns or rows are/);
      const events = parseConfig(text).tables.map(({ name, realtime }) => [name, realtime?.events]);
      expect(Object.fromEntries(events)).toEqual({
        keyless: undefined,
        part: undefined,
        tracked: ['insert'],
      });
    } finally {
      await world.sql('drop publication supabase_realtime');
    }
  });

  test('writes realtime: true for a publication FOR ALL TABLES', async () => {
    await world.sql(`create table tracked ${columns}; create publication supabase_realtime for all tables`);
    try {
      expect(await pulled(world)).toMatch(/realtime: true/);
    } finally {
      await world.sql('drop publication supabase_realtime');
    }
  });
});
