// Tests manual changes to the database: changes to declared objects are reverted, and undeclared objects are listed and
// kept.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readUnmanagedObjects } from '../../src/migrate/state/unmanaged.ts';
import { toModel } from '../../src/migrate/schema/declared.ts';
import { parseConfig } from './parse-config.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
});

const FILE = `
tables:
  teams:
    fields:
      - { name: id, type: integer, primary_key: true }
    rls: []
  notes:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: team, foreign_key: { references: teams.id } }
      - { name: size, type: integer, min: 1 }
      - { name: image, type: text, ref: storage.images }
    indexes: [{ columns: [size] }]
    rls: [{ operations: [select], using: size > 0 }]
storage:
  images: {}
rpc:
  twice: { language: sql, args: [{ name: a, type: integer }], returns: { type: integer }, body: select a * 2 }
`;

test.each([
  ['row-level security forced on the owner', 'alter table notes force row level security', /forced/],
  ['a disabled reference trigger', 'alter table notes disable trigger svc_ref_image_row', /reference image/],
  [
    'a disabled truncate trigger',
    'alter table notes disable trigger svc_ref_image_truncate',
    /reference image/,
  ],
  [
    'a reference trigger for replication only',
    'alter table notes enable replica trigger svc_ref_image_row',
    /reference image/,
  ],
  ['a foreign key with disabled triggers', 'alter table notes disable trigger all', /foreign key team/],
  [
    'a foreign key with disabled triggers on its target',
    'alter table teams disable trigger all',
    /foreign key team/,
  ],
])('%s is restored', async (_name, text, summary) => {
  await world.settle(FILE);
  await world.sql(text);
  expect((await world.plan(FILE)).steps.map((step) => step.summary).join('\n')).toMatch(summary);
  await world.settle(FILE);
  expect((await world.plan(FILE)).steps).toEqual([]);
  await world.sql(`insert into teams values (1); insert into notes values (1, 1, 1, 'a.png')`);
  await expect(world.sql(`insert into notes values (2, 99, 1, null)`)).rejects.toThrow(/notes_team_fkey/);
  expect(await world.sql(`select object_key from storage.object_refs where rel = 'notes'::regclass`)).toEqual(
    [{ object_key: 'a.png' }],
  );
  expect(
    await world.sql(`select relforcerowsecurity as forced from pg_class where oid = 'notes'::regclass`),
  ).toEqual([{ forced: false }]);
});

test('constraints that were set to NOT ENFORCED are restored', async () => {
  const [server] = await world.sql(`select current_setting('server_version_num')::int >= 180000 as can`);
  if (server?.['can'] !== true) return;
  await world.settle(FILE);
  await world.sql(`alter table notes drop constraint notes_size_range,
    add constraint notes_size_range check (size >= 1) not enforced,
    alter constraint notes_team_fkey not enforced`);
  await world.settle(FILE);
  await expect(world.sql(`insert into notes values (2, 99, 1, null)`)).rejects.toThrow(/notes_team_fkey/);
  await expect(world.sql(`insert into notes values (2, null, 0, null)`)).rejects.toThrow(/notes_size_range/);
});

test('undeclared objects are listed with their accessibility to callers', async () => {
  await world.settle(FILE);
  const list = async (): Promise<string[]> =>
    (
      await world.owner.session((session) =>
        readUnmanagedObjects(session, toModel(parseConfig(FILE)), ['public']),
      )
    ).map((item) => `${item.what} ${item.name}${item.open ? ' open' : ''}`);
  expect(await list()).toEqual([]);
  await world.sql(`
    create view all_notes as select * from notes; grant select on all_notes to anon;
    create materialized view sizes as select size from notes;
    create table scratch (id integer); create table leaky (id integer, name text);
      grant select (name) on leaky to authenticated;
    create function half(a integer) returns integer language sql as 'select a / 2';
    create procedure nothing() language sql as ''; revoke all on procedure nothing() from public;
    create function touch() returns trigger language plpgsql as 'begin return new; end';
      revoke all on function touch() from public;
    create trigger touch before update on notes for each row execute function touch();
    create trigger other before update on scratch for each row execute function touch();
    create sequence numbers; create statistics related on id, size from notes;
    alter table notes add constraint one_size exclude using btree (size with =);
    create rule quiet as on delete to notes do instead nothing`);
  expect(await list()).toEqual([
    'exclusion constraint one_size of public.notes',
    'function public.half(a integer) open',
    'function public.touch()',
    'materialized view public.sizes',
    'procedure public.nothing()',
    'rule quiet of public.notes',
    'sequence public.numbers',
    'statistics public.related',
    'table public.leaky open',
    'table public.scratch',
    'trigger touch of public.notes',
    'view public.all_notes open',
  ]);
  await world.sql(`create function twice(a text) returns text language sql as 'select a || a'`);
  expect((await world.plan(FILE)).unmanaged).toEqual([
    { table: 'public.twice', what: 'function', name: 'twice(a text)' },
  ]);
});

describe('a manually renamed table', () => {
  test('is detected by its columns and reported with both remedies', async () => {
    await world.settle(FILE);
    await world.sql('insert into notes values (1, null, 1, null); alter table notes rename to letters');
    const refused = await world.refusal(FILE);
    expect(refused).toEqual([
      expect.stringMatching(
        /^MIG-206 svc\.yaml:\d+:\d+: notes does not exist in the database, and letters has its constraints/,
      ),
    ]);
    await world.sql('alter table letters rename to notes');
    await world.settle(FILE);
  });

  test('can be adopted by the file with all its declarations', async () => {
    await world.settle(FILE);
    await world.sql('insert into notes values (1, null, 1, null); alter table notes rename to letters');
    const followed = FILE.replace('  notes:\n', '  letters:\n    renamed_from: notes\n');
    await world.settle(followed.replace('rls: [{ operations: [select], using: size > 0 }]', 'rls: []'));
    expect(await world.sql(`select polname from pg_policy where polrelid = 'letters'::regclass`)).toEqual([]);
    expect(await world.sql('select id from letters')).toEqual([{ id: 1 }]);
    expect(await world.sql(`select identity from svc_meta.object where kind = 'table' order by 1`)).toEqual([
      { identity: 'table public.letters' },
      { identity: 'table public.teams' },
    ]);
  });
});
