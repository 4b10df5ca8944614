// Rows of a Supabase project: all arrive, no trigger fires, and a later run writes exactly the differences.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openBoxes } from '../../src/auth/auth-context.ts';
import { Keyring } from '../../src/identity/keyring.ts';
import { copy } from '../../src/import/copy.ts';
import type { Changes } from '../../src/import/write-users.ts';
import { trackProgress } from '../../src/lib/progress.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { raw } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { provisionAt } from '../support/provision.ts';
import { createTypicalProject, IDS, type SupabaseProject } from './supabase-project.ts';

const FILE = `
version: 1
tables:
  lists:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: owner, required: true, foreign_key: { references: auth.users.id, on_delete: cascade } }
      - { name: title, type: text, required: true, unique: true }
      - { name: parent, foreign_key: { references: lists.id } }
      - { name: favourite, foreign_key: { references: items.id } }
    rls: []
  items:
    fields:
      - { name: id, type: uuid, primary_key: true }
      - { name: list_id, required: true, foreign_key: { references: lists.id } }
      - { name: title, type: text, required: true }
      - { name: price, type: numeric }
      - { name: tags, type: "text[]" }
      - { name: extra, type: jsonb }
    rls: []
  visits:
    fields: [{ name: page, type: text }, { name: at, type: timestamptz }]
    rls: []
  many:
    fields: [{ name: id, type: bigint, primary_key: true }, { name: text, type: text }]
    rls: []
`;

/** The role of the hosted product: not a superuser, but it bypasses every policy. */
const ROLE = `project_role_${process.pid}`;
let project: SupabaseProject;
let world: BackendWorld;

beforeAll(async () => {
  project = await createTypicalProject();
  await project.query(`
    create role ${ROLE} login password 'of the project' bypassrls in role pg_read_all_data;
    create table public.many (id bigint primary key, text text);
    insert into public.many select n, 'text ' || n from generate_series(1, 60000) n;
    analyze`);
  world = await startBackendWorld(FILE);
  await onTarget(`
    alter table public.items add column title_length integer generated always as (length(title)) stored;
    create table public.fired (id text);
    create function public.fire() returns trigger language plpgsql security definer as
      $$ begin insert into public.fired values (tg_op); return null; end $$;
    create trigger fire after insert or update or delete on public.lists for each row execute function public.fire();
    create trigger always after insert on public.items for each row execute function public.fire();
    alter table public.items enable always trigger always;`);
});
afterAll(async () => {
  await world?.close();
  await project?.query(`drop role ${ROLE}`);
  await project?.drop();
});

const onTarget = async (text: string): Promise<Array<Record<string, unknown>>> =>
  await world.owner.query(raw(text));

function sourceUrl(): string {
  const url = new URL(project.url);
  url.username = ROLE;
  url.password = 'of the project';
  return url.href;
}

async function run(): Promise<Record<string, Changes>> {
  const { ownerUrl } = await provisionAt(world.databaseUrl);
  const keyring = await Keyring.open(world.owner, { current: world.keys.secret, previous: [] });
  const changes = await copy({
    source: parseAddress(sourceUrl()),
    target: parseAddress(ownerUrl),
    secrets: { sourceKeys: new Map(), boxes: openBoxes(keyring) },
  });
  return Object.fromEntries(changes.map((change) => [change.kind, change]));
}

const counts = (added: number, changed: number, removed: number) =>
  expect.objectContaining({ added, changed, removed });

/** A query whose result must be equal on both sides. */
async function expectEqualRows(): Promise<void> {
  for (const table of ['lists', 'items', 'visits', 'many']) {
    const query = `select to_jsonb(t)::text as row from public.${table} t order by 1`;
    expect(await onTarget(query)).toEqual((await project.query(query)).rows);
  }
}

/** Constraints and triggers that the load removes temporarily. */
const SHAPE = `
  select conrelid::regclass::text as table, conname as name, pg_get_constraintdef(oid) || convalidated as what
  from pg_constraint where connamespace = 'public'::regnamespace
  union all
  select tgrelid::regclass::text, tgname, tgenabled::text from pg_trigger where not tgisinternal
  order by 1, 2`;

test('all rows arrive in tables with circular foreign keys, and no trigger fires', async () => {
  const shape = await onTarget(SHAPE);
  const steps = new Set<string>();
  const changes = await trackProgress(({ step }) => void steps.add(step), run);
  expect(changes).toMatchObject({
    'public.lists': counts(2, 0, 0),
    'public.items': counts(2, 0, 0),
    'public.visits': counts(1000, 0, 0),
    'public.many': counts(60_000, 0, 0),
  });
  expect([...steps]).toEqual(
    expect.arrayContaining([
      'comparing users',
      'comparing public.many',
      'writing users',
      'copying public.many',
    ]),
  );
  await expectEqualRows();
  expect(await onTarget('select * from public.fired')).toEqual([]);
  expect(await onTarget(SHAPE)).toEqual(shape);
});

test('the next row gets the number after the last of the source', async () => {
  const [row] = await onTarget(
    `insert into public.lists (owner, title) values ('${IDS.ann}', 'New') returning id::int`,
  );
  expect(row).toEqual({ id: 3 });
  expect(await onTarget('select * from public.fired')).toEqual([{ id: 'INSERT' }]);
  await onTarget(`delete from public.lists where id = 3; delete from public.fired`);
});

test('a second run writes nothing', async () => {
  await run();
  const version =
    'select xmin::text, ctid::text from public.lists union all select xmin::text, ctid::text from public.visits';
  const before = await onTarget(version);
  const changes = await run();
  // The deleted row had advanced the sequence.
  expect(
    Object.values(changes).filter(({ added, changed, removed }) => added + changed + removed > 0),
  ).toEqual([]);
  expect(await onTarget(version)).toEqual(before);
});

test('exactly what was changed, added and deleted at the source is written', async () => {
  const shape = await onTarget(SHAPE);
  await project.query(`
    update public.many set text = 'changed' where id in (17, 40000);
    delete from public.many where id = 59999;
    insert into public.many values (60001, 'added');
    -- Two rows swap their unique values.
    update public.lists set title = 'x' where id = 1;
    update public.lists set title = 'Shopping' where id = 2;
    update public.lists set title = 'Tools' where id = 1;
    insert into public.visits values ('page 1', now())`);
  const unchanged = 'select ctid::text from public.many where id not in (17, 40000, 59999, 60001)';
  const before = await onTarget(unchanged);
  const changes = await run();
  expect(changes).toMatchObject({
    'public.many': counts(1, 2, 1),
    'public.lists': counts(0, 2, 0),
    'public.visits': counts(1001, 0, 1000),
  });
  expect(changes['public.items']).toBeUndefined();
  await expectEqualRows();
  expect(await onTarget(unchanged)).toEqual(before);
  expect(await onTarget('select * from public.fired')).toEqual([]);
  expect(await onTarget(SHAPE)).toEqual(shape);
});

test('a user deleted at the source is deleted with the rows that reference it', async () => {
  await project.query(
    `delete from public.items where list_id = 2; delete from auth.users where id = '${IDS.ben}'`,
  );
  const changes = await run();
  expect(changes).toMatchObject({
    user: counts(0, 0, 1),
    'public.lists': counts(0, 0, 1),
    'public.items': counts(0, 0, 1),
  });
  await expectEqualRows();
});

test('a row that the target rejects rolls back the whole run', async () => {
  await project.query(`
    alter table public.items drop constraint items_list_id_fkey;
    update public.many set text = 'not to arrive' where id = 1;
    insert into public.items (id, list_id, title) values (gen_random_uuid(), 999, 'orphan')`);
  const before = await onTarget(SHAPE);
  await expect(run()).rejects.toThrow(/items_list_id_fkey/);
  expect(await onTarget(SHAPE)).toEqual(before);
  expect(await onTarget('select text from public.many where id = 1')).toEqual([{ text: 'text 1' }]);
  await project.query(`delete from public.items where title = 'orphan'`);
  await run();
  await expectEqualRows();
});

test('rows that no import has copied are not overwritten', async () => {
  await project.query('create table public.own (id int primary key); insert into public.own values (1)');
  await onTarget('create table public.own (id int primary key); insert into public.own values (2)');
  await expect(run()).rejects.toThrow('The table public.own of the target has rows already');
  expect(await onTarget('select id from public.own')).toEqual([{ id: 2 }]);
  await project.query('drop table public.own');
  await onTarget('drop table public.own');
});

test('a value that does not fit is not shown', async () => {
  await project.query(
    'create table public.narrow (id bigint primary key); insert into public.narrow values (98765)',
  );
  await onTarget('create table public.narrow (id smallint primary key)');
  await expect(run()).rejects.toThrow(
    /refuses a row of the source: a value is out of range for type smallint$/,
  );
  await onTarget('drop table public.narrow');
  await project.query('drop table public.narrow');
});
