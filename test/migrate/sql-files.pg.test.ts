// Tests SQL files: statements in any order have the same effect as keys of the file.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { prepareToRead } from '../../src/config/read/read-parts.ts';
import { silentLog } from '../../src/log/log.ts';
import { planMigration } from '../../src/migrate/commands/plan.ts';
import type { Config } from '../../src/config/config.ts';
import { shuffled } from './shuffled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
let folder: string;
beforeAll(async () => {
  world = await aWorld();
  folder = mkdtempSync(join(tmpdir(), 'svc-sql-files-'));
  mkdirSync(join(folder, 'sql'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await world.close();
});
beforeEach(async () => {
  await world.empty();
});

const TABLES = `
tables:
  notes:
    fields:
      - { name: id, type: bigint, primary_key: true, identity: always }
      - { name: owner, type: uuid }
      - { name: title, type: text }
      - { name: state, type: note_state, default: open }
      - { name: reply_to, type: mail }
      - { name: changes, type: integer, default: 0 }
    rls: [{ operations: [select, insert, update, delete], check: owner = auth.uid() }]
`;

const STATEMENTS = [
  `create type note_state as enum ('open', 'done')`,
  `create domain mail as text check (value ~ '@')`,
  `create type extent as (low integer, high integer)`,
  `create function public.touch() returns trigger language plpgsql
    as $$ begin new.changes := new.changes + 1; return new; end $$`,
  `create trigger touch before update on public.notes for each row when (old.* is distinct from new.*)
    execute function public.touch()`,
  `create function public.first_note() returns trigger language plpgsql security definer set search_path = '' as $$
   begin insert into public.notes (owner, title) values (new.id, 'Welcome; it''s public.notes'); return new; end $$`,
  `create trigger first_note after insert on auth.users for each row execute procedure public.first_note()`,
  `create view open_notes with (security_invoker = true) as select id, title, owner from notes where state = 'open'`,
  `create view long_notes as select * from open_notes where length(title) > 10`,
  `create function add_note() returns trigger language plpgsql
    as $$ begin insert into notes (title, owner) values (new.title, new.owner); return new; end $$`,
  `create trigger add_note instead of insert on open_notes for each row execute function add_note()`,
  `create materialized view counts as select state, count(*) as n from notes group by state`,
  `create function span(notes) returns extent language sql stable as $$ select row(1, length(($1).title))::extent $$`,
  `create function search(words text, most int default 10) returns setof open_notes language sql stable
    as $$ select * from open_notes where title ~* words limit most $$`,
  `create function search_all(words text) returns table (id bigint, at text) language sql stable
    as $$ select id, 'public.notes' from search(words) $$`,
  `create function search(words text, after bigint) returns bigint stable begin atomic select count(*)
    from open_notes where title ~* words and id > after; end`,
  `create function titles() returns text stable
    return (select string_agg(title, ', ' order by id) from notes where search(title, -id) > 0)`,
  `create procedure close_all() language plpgsql as $$ begin update notes set state = 'done'; end $$`,
  `grant execute on function search(text, int) to authenticated`,
  `revoke all on function search(text, int) from public`,
  `grant select on open_notes to authenticated`,
  `comment on view open_notes is 'Not done yet'`,
  `comment on type note_state is 'How far'`,
  `comment on function search(text, bigint) is 'How many'`,
];

async function loadFiles(files: Readonly<Record<string, string>>, tables = TABLES): Promise<Config> {
  rmSync(join(folder, 'sql'), { recursive: true });
  mkdirSync(join(folder, 'sql'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, 'sql', name), text);
  const source = {
    name: 'svc.yaml',
    directory: folder,
    text: `version: 1\nproject: { name: p }\nsql: sql/*.sql\n${tables}`,
  };
  await prepareToRead(source);
  const loaded = loadConfig(source, { variables: {} });
  if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join('\n'));
  return loaded.config;
}

const applied = async (files: Readonly<Record<string, string>>, tables?: string): Promise<void> => {
  const config = await loadFiles(files, tables);
  const outcome = await world.apply('', undefined, { config });
  if (outcome.kind !== 'applied') throw new Error(JSON.stringify(outcome));
  expect(await summaries(config)).toEqual([]);
};
const planConfig = (config: Config) => planMigration({ owner: world.owner, config, log: silentLog });
const summaries = async (config: Config): Promise<string[]> => {
  const planned = await planConfig(config);
  if (planned.kind === 'refused') throw new Error(JSON.stringify(planned.problems));
  return planned.plan.steps.map(({ sign, summary }) => `${sign} ${summary}`);
};
const one = (statements: readonly string[]): Record<string, string> => ({
  'a.sql': statements.join(';\n\n'),
});

async function asAuthenticated(id: string, query: string): Promise<unknown[]> {
  const client = new pg.Client(world.url);
  await client.connect();
  try {
    await client.query(
      `set request.jwt.claims = '{"sub":"${id}","role":"authenticated"}'; set role authenticated`,
    );
    return (await client.query<Record<string, unknown>>(query)).rows;
  } finally {
    await client.end();
  }
}

describe.each([1, 2, 3, 4])('statements in any order over several files (%i)', (seed) => {
  test('are applied, and the second plan is empty', async () => {
    const order = shuffled(STATEMENTS, seed * 7919);
    await applied({
      'one.sql': order.slice(0, 8).join(';\n'),
      'two.sql': `-- Nothing but a comment.\n`,
      'zoo.sql': order.slice(8).join(';\n\n'),
    });
    await world.sql(
      `insert into auth.users (id, email) values ('00000000-0000-4000-8000-000000000001', 'a@example.com')`,
    );
    expect(await world.sql('select title, state, changes from notes')).toEqual([
      { title: `Welcome; it's public.notes`, state: 'open', changes: 0 },
    ]);
    await world.sql(`update notes set title = 'Something else'`);
    expect(await world.sql('select changes, (span(notes)).high from notes')).toEqual([
      { changes: 1, high: 14 },
    ]);
    expect(await world.sql(`select at from search_all('something')`)).toEqual([{ at: 'public.notes' }]);
    expect(await world.sql('select titles()')).toEqual([{ titles: 'Something else' }]);
    await world.sql(`call close_all()`);
    expect(await world.sql(`select count(*)::int as n from open_notes`)).toEqual([{ n: 0 }]);
    await world.sql('delete from auth.users');
  });
});

test('callers have only the privileges that GRANT statements declare', async () => {
  await applied(one(STATEMENTS));
  const hasPrivilege = async (call: string): Promise<unknown> =>
    (await world.sql(`select ${call} as allowed`))[0]?.['allowed'];
  for (const role of ['anon', 'authenticated', 'service_role']) {
    const isNamed = role === 'authenticated';
    expect(await hasPrivilege(`has_function_privilege('${role}', 'search(text, int)', 'execute')`)).toBe(
      isNamed,
    );
    expect(await hasPrivilege(`has_function_privilege('${role}', 'search_all(text)', 'execute')`)).toBe(
      false,
    );
    expect(await hasPrivilege(`has_function_privilege('${role}', 'touch()', 'execute')`)).toBe(false);
    expect(await hasPrivilege(`has_table_privilege('${role}', 'open_notes', 'select')`)).toBe(isNamed);
    expect(await hasPrivilege(`has_table_privilege('${role}', 'long_notes', 'select')`)).toBe(false);
    expect(await hasPrivilege(`has_table_privilege('${role}', 'counts', 'select')`)).toBe(false);
  }
});

test('a policy can call a function in a schema that callers cannot use', async () => {
  const functions = `create function private.is_member(room bigint) returns boolean language sql stable
    security definer set search_path = ''
      as $$ select exists (select from public.members m where m.room = is_member.room and m.person = auth.uid()) $$;
    grant execute on function private.is_member(bigint) to anon, authenticated;`;
  const tables = `
tables:
  members:
    fields: [{ name: room, type: bigint, primary_key: true }, { name: person, type: uuid, primary_key: true }]
    rls: [{ operations: [select], using: private.is_member(room) }]
`;
  await applied({ 'a.sql': functions }, tables);
  const [ann, ben] = ['00000000-0000-4000-8000-00000000000a', '00000000-0000-4000-8000-00000000000b'];
  await world.sql(`insert into members values (1, '${ann}'), (2, '${ann}'), (1, '${ben}')`);
  const seen = await asAuthenticated(ben, 'select person, room from members order by person');
  expect(seen).toEqual([
    { person: ann, room: '1' },
    { person: ben, room: '1' },
  ]);
  await expect(asAuthenticated(ben, 'select private.is_member(1)')).rejects.toThrow(
    /permission denied for schema/,
  );
  await applied({ 'a.sql': functions.replace('= auth.uid()', '= auth.uid() and true') }, tables);
  await applied({ 'a.sql': '' }, tables.replace('private.is_member(room)', 'person = auth.uid()'));
  expect(await world.sql(`select from pg_proc where proname = 'is_member'`)).toEqual([]);
});

test('an edit changes only its objects', async () => {
  await applied(one(STATEMENTS));
  const edited = STATEMENTS.map((text) =>
    text.replace('new.changes + 1', 'new.changes + 2').replace('> 10', '> 20'),
  );
  const plan = await summaries(await loadFiles(one(edited)));
  expect(plan.join('\n')).toMatch(/touch/);
  expect(plan.join('\n')).toMatch(/long_notes/);
  expect(plan.filter((line) => !/touch|long_notes/.test(line))).toEqual([]);
  await applied(one(edited));
});

test('removed objects are dropped, and created again when they return', async () => {
  await applied(one(STATEMENTS));
  const left = STATEMENTS.filter(
    (text) => !/\bsearch\(|search_all|long_notes|\btouch|comment on view/.test(text),
  );
  await applied(one(left));
  expect(
    await world.sql(
      `select proname::text as name from pg_proc where pronamespace = 'public'::regnamespace
        and proname in ('touch', 'search', 'search_all', 'span')`,
    ),
  ).toEqual([{ name: 'span' }]);
  expect(await world.sql(`select to_regclass('long_notes') as at`)).toEqual([{ at: null }]);
  expect(await world.sql(`select obj_description('open_notes'::regclass) as text`)).toEqual([{ text: null }]);
  await applied(one(STATEMENTS));
});

test('a type change keeps the views and functions that use it', async () => {
  await applied(one(STATEMENTS));
  await applied(
    one(STATEMENTS),
    TABLES.replace('{ name: title, type: text }', '{ name: title, type: varchar(90) }'),
  );
  await applied(
    one(STATEMENTS.map((text) => text.replace(`('open', 'done')`, `('open', 'late', 'done')`))),
    TABLES.replace('{ name: title, type: text }', '{ name: title, type: varchar(90) }'),
  );
});

test('moving declarations between keys and statements changes nothing', async () => {
  const keys = `
rpc:
  touch: { language: plpgsql, returns: { type: trigger }, body: begin new.changes := new.changes + 1; return new; end }
`;
  const table = TABLES.replace('type: note_state', 'type: text').replace('type: mail', 'type: text');
  const withTrigger = table.replace(
    '    rls:',
    '    triggers: [{ name: touch, timing: before, events: update, call: touch }]\n    rls:',
  );
  await applied({ 'a.sql': '' }, `${withTrigger}${keys}`);
  const same = `create function touch() returns trigger language plpgsql
    as 'begin new.changes := new.changes + 1; return new; end';
    create trigger touch before update on notes for each row execute function touch()`;
  expect(await summaries(await loadFiles({ 'a.sql': same }, table))).toEqual([]);
});

test('manual changes are reverted', async () => {
  await applied(one(STATEMENTS));
  await world.sql(`create or replace function touch() returns trigger language plpgsql as 'begin return new; end';
    alter table notes disable trigger touch; create or replace view long_notes as select * from open_notes
      where false`);
  const config = await loadFiles(one(STATEMENTS));
  expect((await summaries(config)).join('\n')).toMatch(/touch[^]*long_notes|long_notes[^]*touch/);
  await applied(one(STATEMENTS));
});

test('an error of the database is reported with the position of the statement', async () => {
  const lines = '\n'.repeat(38);
  const config = await loadFiles({
    'a.sql': STATEMENTS.join(';\n'),
    'b.sql': `${lines}create view broken as\n  select titel from notes;`,
    'c.sql': `create function broken() returns bigint language sql as $$\n  select idd from notes $$;`,
  });
  const planned = await planConfig(config);
  if (planned.kind !== 'refused') throw new Error('it was planned');
  expect(planned.problems.map(({ place, message }) => `${place} ${message}`)).toEqual([
    expect.stringMatching(/^sql\/b\.sql:39:\d+ .*titel/),
    expect.stringMatching(/^sql\/c\.sql:1:\d+ .*idd/),
  ]);
});

describe('a statement with a schema-qualified name', () => {
  const BASE = `
types: { tone: { enum: [low, high] } }
tables:
  notes: { rls: [], fields: [{ name: id, type: integer, primary_key: true }, { name: title, type: text }] }
rpc:
  same: { language: sql, volatility: immutable, expose: false,
    args: [{ name: a, type: integer, required: true }, { name: b, type: integer, required: true }],
    returns: { type: integer }, body: select a }
  level: { language: sql, volatility: immutable, expose: false,
    args: [{ name: a, type: tone, required: true }], returns: { type: integer }, body: select 1 }
  touch: { language: plpgsql, expose: false, returns: { type: trigger }, body: "begin return new; end" }
`;
  test.each([
    ['an enum', `create type public.mine as enum ('a')`],
    ['a domain', `create domain public.mine as text`],
    ['a composite', `create type public.mine as (low integer)`],
    ['a range', `create type public.mine as range (subtype = time)`],
    ['a function', `create function public.mine() returns integer language sql as 'select 1'`],
    ['a procedure', `create procedure public.mine() language sql as 'select 1'`],
    [
      'a trigger',
      `create trigger mine before update on public.notes for each row execute function public.touch()`,
    ],
    ['a view', `create view public.mine as select id from public.notes`],
    ['a materialized view', `create materialized view public.mine as select id from public.notes`],
    ['a sequence', `create sequence public.mine`],
    ['an aggregate', `create aggregate public.mine(integer) (sfunc = public.same, stype = integer)`],
    [
      'an operator',
      `create operator public.=== (function = public.same, leftarg = integer, rightarg = integer)`,
    ],
    ['a cast', `create cast (public.tone as integer) with function public.level(public.tone)`],
    ['a rule', `create rule mine as on delete to public.notes where old.id > 9 do instead nothing`],
    ['statistics', `create statistics public.mine on id, title from public.notes`],
    ['a collation', `create collation public.mine (provider = icu, locale = 'de')`],
    ['a dictionary', `create text search dictionary public.mine (template = simple)`],
    ['a configuration', `create text search configuration public.mine (parser = default)`],
  ])('%s is created in that schema', async (_kind, statement) => {
    await applied(one([statement]), BASE);
    await expect(world.sql(statement)).rejects.toThrow(/already exists|duplicate key/);
  });
});
