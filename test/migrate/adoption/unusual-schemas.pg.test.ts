// Tests that unusual schemas are pulled into a valid file, which has an empty plan and builds the same database again.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readHiddenFunctions } from '../../../src/migrate/commands/adoption/hidden-functions.ts';
import { readSchemas } from '../../../src/migrate/commands/adoption/project-schemas.ts';
import { readUses } from '../../../src/migrate/commands/adoption/read-uses.ts';
import { renderPulled, withoutOmitted } from '../../../src/migrate/commands/pull.ts';
import { readLive } from '../../../src/migrate/schema/live/read-live.ts';
import { aWorld, type World } from '../world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
  await world.sql(`drop schema if exists crm, "odd schema" cascade; create schema if not exists extensions;
    grant create on database ${new URL(world.url).pathname.slice(1)} to svc_owner`);
});

async function made(sql: string): Promise<void> {
  await world.sql(`begin; set local role svc_owner; ${sql}; commit`);
}

async function pulled(isTaken: (key: string) => boolean = () => true): Promise<string> {
  return world.owner.session(async (session) => {
    const { read } = await readSchemas(session);
    const found = await readLive(session, read);
    const { live, omitted } = withoutOmitted(found, isTaken, await readUses(session, read));
    return renderPulled(live, isTaken, { omitted, hidden: await readHiddenFunctions(session) }).replace(
      'version: 1\n',
      '',
    );
  });
}

/** Returns the planned steps, without changes of rights. */
async function plannedChanges(text: string): Promise<string[]> {
  const { steps, problems } = await world.plan(text);
  return [
    ...problems.map(({ message }) => message),
    ...steps
      .filter(({ stage, sql }) => stage !== 'grants' && !sql.startsWith('grant usage on schema'))
      .map(({ sql }) => sql),
  ];
}

type Case = {
  readonly name: string;
  readonly sql: string;
  /** Texts that the file contains. */
  readonly says?: readonly (string | RegExp)[];
  readonly lacks?: readonly (string | RegExp)[];
  /** True if the pull adds search paths to functions. */
  readonly repairs?: boolean;
};

const ROWS = 'id integer primary key, x integer not null, y integer';

const CASES: readonly Case[] = [
  {
    name: 'equal indexes, constraints and policies',
    sql: `create table t (${ROWS}, constraint one unique (x, y), constraint c1 check (x > 0),
      constraint c2 check (x > 0),
        constraint f1 foreign key (y) references t, constraint f2 foreign key (y) references t);
      alter table t add constraint two unique (x, y); create index a on t (x); create index b on t (x);
      create unique index c on t (x, y);
      alter table t enable row level security; create policy p on t using (true); create policy q on t using (true)`,
    says: [
      'index b: it duplicates a',
      'index c: it duplicates one',
      'constraint two: it duplicates one',
      'check c2: it duplicates c1',
      'foreign key f2: it duplicates f1',
    ],
  },
  {
    name: 'types and tables with names that resemble built-in types',
    sql: `create type region as enum ('eu'); create type registration_mode as enum ('open');
      create type anything as enum ('a');
      create domain "Name" as varchar(50);
      create table point (${ROWS}, at region default 'eu', "Title" "Name", any_mode anything[],
        mode registration_mode);
      create table "Text" ("ID" integer primary key, "Kind" "Name" not null default 'x')`,
  },
  {
    name: 'a type with the name of a built-in type, and a column of this type',
    sql: `create type public.name as enum ('a'); create table t (${ROWS}, n public.name); create index on t (n);
      create view v as select n from t; create table u (id integer primary key)`,
    says: [
      'type public.name: PostgreSQL has a type of this name',
      'column n of public.t: it uses type public.name',
      'view public.v: it uses',
    ],
    lacks: [/name: n,/],
  },
  {
    name: 'set null on a required column',
    sql: `create table a (id integer primary key);
      create table t (${ROWS}, a_id integer not null references a on delete set null)`,
    says: ['on_delete: set_null'],
  },
  {
    name: 'policies that lack an expression',
    sql: `create table t (${ROWS}); alter table t enable row level security;
      create policy p1 on t for update with check (true);
      create policy p2 on t as restrictive for update with check (x > 0);
      create policy p3 on t for all with check (x > 1); create policy p4 on t for select;
      create policy p5 on t as restrictive for delete;
      create policy p6 on t for insert; create policy p7 on t for all using (x > 2);
      create policy p8 on t as restrictive for insert`,
    says: [/name: p1\b[^-]*using: "false"/, /name: p2\b[^-]*using: "true"/],
  },
  {
    name: 'keys that refer to tables of svc',
    sql: `create table t (id integer primary key, object uuid references storage.objects (id),
      owner uuid references auth.users (id))`,
    says: ['it refers to storage.objects(id)', 'references: auth.users.id'],
  },
  {
    name: 'empty bodies',
    sql: `create function void_func() returns void language sql as '';
      create function spaces() returns void language sql as ' -- nothing ';
      create procedure nothing() language sql as ''`,
    says: ['body: ""'],
  },
  {
    name: 'actions, and names of constraints and policies',
    sql: `create table t (${ROWS}, constraint pair unique (x, y), constraint lonely unique (y),
      constraint positive check (x > 0));
      create table u (id integer primary key, t_id integer constraint to_t references t on delete no action,
        r integer references t on delete restrict);
      alter table t enable row level security;
      create policy "Allow logged-in read" on t for select to authenticated using (true)`,
    says: [
      '{ unique: [ x, y ], name: pair }',
      'name: lonely',
      'name: positive',
      'name: to_t, on_delete: no_action',
      'name: Allow logged-in read',
    ],
  },
  {
    name: 'names with dots, spaces and quotes',
    sql: `create schema "odd schema";
      create table "a.b" ("c.d" integer primary key, "e f" integer unique, "g""h" integer);
      create table "odd schema"."Order Details" (id integer primary key, "x,y" integer references "a.b",
        z integer references "a.b" ("e f"));
      create table u (id integer primary key, d integer references "odd schema"."Order Details")`,
  },
  {
    name: 'security definer functions without a search path, and their callers',
    sql: `create table profiles (id uuid primary key, name text);
      create function handle_new_user() returns trigger language plpgsql security definer
        as 'begin insert into profiles (id) values (new.id); return new; end';
      create trigger on_auth_user_created after insert on auth.users for each row execute function handle_new_user();
      create function mine(p uuid) returns boolean language sql stable security definer
        as 'select exists (select from profiles where id = p)';
      alter table profiles enable row level security; create policy own on profiles for select using (mine(id))`,
    says: ['settings: { search_path: "public, extensions, pg_temp" }', 'on_auth_user_created'],
    repairs: true,
  },
  {
    name: 'other schemas, and names that exist in two schemas',
    sql: `create schema crm; create table crm.t (id integer primary key); create table t (${ROWS});
      create type crm.mood as enum ('a');
      create table crm.notes (id integer primary key, mood crm.mood, t integer references crm.t);
      create view crm.second as select id from crm.t;
      create function crm.f() returns integer language sql as 'select 1'`,
    says: ['schema: crm', 'table crm.t: another schema has a table of this name', 'it uses table crm.t'],
  },
  {
    name: 'constraints without columns, and columns that refer to themselves',
    sql: `create table t (${ROWS}, constraint always check (true), parent integer references t,
      unique nulls not distinct (x, y));
      create table empty_one (); create index on t ((x + y)) where y is not null`,
  },
];

describe.each(CASES)('$name', ({ sql, says = [], lacks = [], repairs }) => {
  test('is pulled with an empty plan, and built again', async () => {
    await made(sql);
    const text = await pulled();
    for (const expected of says)
      expect(text).toEqual(
        typeof expected === 'string' ? expect.stringContaining(expected) : expect.stringMatching(expected),
      );
    for (const unwanted of lacks) expect(text).not.toMatch(unwanted);
    if (repairs !== true) expect(await plannedChanges(text)).toEqual([]);
    await world.settle(text);
    await world.empty();
    await world.sql(`drop schema if exists crm, "odd schema" cascade;
      drop trigger if exists on_auth_user_created on auth.users`);
    await world.settle(text);
    expect(parse(await pulled())).toEqual(parse(text));
  });
});

test('a subset of tables is pulled without objects that use other tables', async () => {
  await made(`create table users (id integer primary key, name text);
    create table teams (id integer primary key, lead integer references users);
    create type pair as (one users, n integer);
    create view leads as select u.name from teams t join users u on u.id = t.lead;
    create function names() returns setof text language sql as 'select name from public.users';
    create function lead(teams) returns setof users rows 1 language sql stable
      as 'select * from users where id = $1.lead';
    create function team_count() returns bigint language sql as 'select count(*) from teams';
    create function rename(user_id integer) returns void language plpgsql
      as 'begin update users set name = $$x$$ where id = user_id; end'`);
  const text = await pulled((key) => key === 'public.teams');
  for (const what of [
    'type public.pair',
    'function public.names()',
    'function public.lead(public.teams)',
    'function public.rename(user_id integer)',
    'constraint teams_lead_fkey of public.teams',
  ])
    expect(text).toContain(`${what}: it uses table public.users`);
  expect(Object.keys(parse(text))).toEqual(['tables', 'rpc']);
  expect(Object.keys(parse(text).rpc)).toEqual(['team_count']);
  await world.settle(text);
});

test('functions in other languages are omitted with the triggers, policies and defaults that use them', async () => {
  await world.sql(`create function made_in_c(integer) returns integer language internal immutable strict as 'int4abs';
    alter function made_in_c(integer) owner to svc_owner`);
  await made(`create table t (id integer primary key, n integer default made_in_c(-1),
    m integer generated always as (made_in_c(id)) stored, check (made_in_c(n) > 0));
    create index on t (made_in_c(n)); alter table t enable row level security;
    create policy own on t using (made_in_c(n) = 1);
    create view v as select made_in_c(n) as a from t;
    create function calls() returns integer language sql as 'select made_in_c(1)'`);
  const text = await pulled();
  for (const what of [
    'column n of public.t',
    'column m of public.t',
    'policy own of public.t',
    'view public.v',
    'function public.calls()',
    'index t_made_in_c_idx of public.t',
  ])
    expect(text).toContain(`${what}: it uses function public.made_in_c(integer)`);
  expect(await plannedChanges(text)).toEqual([]);
  await world.settle(text);
});

test('an omitted restrictive policy takes the policies that it restricts with it', async () => {
  await world.sql(`create function made_in_c(integer) returns integer language internal immutable strict as 'int4abs';
    alter function made_in_c(integer) owner to svc_owner`);
  await made(`create table t (id integer primary key); alter table t enable row level security;
    create policy shown on t for select using (true);
    create policy changed on t for update using (id = 1);
    create policy limits on t as restrictive for select to authenticated using (made_in_c(id) < 10)`);
  const text = await pulled();
  expect(text).toContain('policy limits of public.t: it uses function public.made_in_c(integer)');
  expect(text).toContain('policy shown of public.t: it would allow more without policy limits of public.t');
  const policies: readonly { name: string }[] = parse(text).tables.t.rls;
  expect(policies.map(({ name }) => name)).toEqual(['changed']);
  expect(await plannedChanges(text)).toEqual([]);
});

test('a function means the table that its search path finds first', async () => {
  await made(`create schema crm; create table users (id integer primary key);
    create table crm.users (id integer primary key);
    create function first_user() returns integer language sql stable as 'select min(id) from users';
    create function second_user() returns integer language sql stable as 'select min(id) from crm.users';
    create function third_user() returns integer language sql stable set search_path = crm, public
      as 'select min(id) from users'`);
  const text = await pulled();
  expect(Object.keys(parse(text).rpc)).toEqual(['first_user']);
  for (const name of ['second_user', 'third_user'])
    expect(text).toContain(`function public.${name}(): it uses table crm.users`);
  await world.settle(text);
});
