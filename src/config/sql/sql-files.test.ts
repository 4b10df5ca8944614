import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import type { Config } from '../config.ts';
import { loadConfig, type Loaded } from '../load.ts';
import { prepareToRead } from '../read/read-parts.ts';

const directories: string[] = [];
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true });
});

const YAML = `version: 1
project: { name: p }
sql: [sql/*.sql]
tables:
  profiles:
    fields:
      - { name: id, type: uuid, primary_key: true }
      - { name: name, type: text }
    rls: []
`;

async function load(files: Readonly<Record<string, string>>, yaml = YAML): Promise<Loaded> {
  const directory = mkdtempSync(join(tmpdir(), 'svc-sql-'));
  directories.push(directory);
  for (const [path, text] of Object.entries({ 'svc.yaml': yaml, ...files })) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
  const source = { name: 'svc.yaml', directory, text: yaml };
  await prepareToRead(source);
  return loadConfig(source, { variables: { HOME: '/root' } });
}

async function read(sql: string, yaml = YAML): Promise<Config> {
  const loaded = await load({ 'sql/app.sql': sql }, yaml);
  if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join('\n'));
  return loaded.config;
}

async function mistakes(sql: string | Readonly<Record<string, string>>, yaml = YAML): Promise<string[]> {
  const loaded = await load(typeof sql === 'string' ? { 'sql/app.sql': sql } : sql, yaml);
  if (loaded.ok) return [];
  return loaded.mistakes.map(
    ({ position: { file, line, column }, message }) => `${file ?? 'svc.yaml'}:${line}:${column} ${message}`,
  );
}

/** Removes positions. */
function bare(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(bare);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, child]) => (key === 'position' ? [] : [[key, bare(child)]])),
  );
}

const FUNCTIONS: ReadonlyArray<readonly [what: string, sql: string, keys: string]> = [
  [
    'a trigger function',
    `create or replace function public.f() returns trigger language plpgsql security definer
     set search_path = '' as $$ begin return new; end $$;`,
    `{ language: plpgsql, security: definer, returns: { type: trigger },
     settings: { search_path: '' }, body: " begin return new; end " }`,
  ],
  [
    'arguments of all modes, with defaults',
    `create function f(a int, b text default 'x, y', out c numeric(10, 2), variadic "d e" int[])
     language sql immutable strict parallel safe cost 5 as 'select 1'`,
    `{ language: sql, volatility: immutable, strict: true, parallel: safe, cost: 5,
      expose: false, body: select 1, args: [
      { name: a, type: int, required: true }, { name: b, type: text, default: { sql: "'x, y'" } },
      { name: c, type: "numeric(10, 2)", mode: out }, { name: d e, type: "int[]", mode: variadic } ] }`,
  ],
  [
    'modes before and after names, and unnamed arguments',
    `create function f(in a int, b inout int, double precision = 1.5) returns record language sql as 'select 1'`,
    `{ language: sql, expose: false, returns: { type: record }, body: select 1, args: [
      { name: a, type: int, required: true }, { name: b, type: int, mode: inout, required: true },
      { type: double precision, default: { sql: "1.5" } } ] }`,
  ],
  [
    'rows as the result',
    `create function f() returns table (a int, "B b" timestamp with time zone)
     stable rows 3 language sql as 'select 1, now()'`,
    `{ language: sql, volatility: stable, rows: 3, expose: false, body: "select 1, now()",
      returns: { table: [{ name: a, type: int }, { name: B b, type: timestamp with time zone }] } }`,
  ],
  [
    'settings',
    `create function f() returns setof profiles language sql set search_path = public, "My S"
     set work_mem to '8MB' as 'select * from profiles'`,
    `{ language: sql, expose: false, returns: { type: setof profiles }, body: select * from profiles,
      settings: { search_path: 'public, "My S"', work_mem: 8MB } }`,
  ],
  [
    'a body that the server parses when it creates the function',
    `create function f(a int) returns int strict
     begin atomic insert into profiles (name) values (';'); select case when a > 1 then a end; end;
     create function "begin"() returns int return 1`,
    `{ language: sql, atomic: true, strict: true, expose: false,
      args: [{ name: a, type: int, required: true }], returns: { type: int },
      body: "insert into profiles (name) values (';'); select case when a > 1 then a end;" }
  begin: { language: sql, atomic: true, expose: false, returns: { type: int }, body: return 1 }`,
  ],
  [
    'an expression for a body',
    `create function f(a int, b int default 1) returns int immutable language sql return (a + b) * 2`,
    `{ language: sql, volatility: immutable, atomic: true, expose: false, args: [
      { name: a, type: int, required: true }, { name: b, type: int, default: { sql: "1" } }],
      returns: { type: int }, body: return (a + b) * 2 }`,
  ],
  [
    'a procedure',
    `create procedure f(inout a int) language plpgsql as $x$ begin a := a + 1; end $x$`,
    `{ kind: procedure, language: plpgsql, args: [{ name: a, type: int, mode: inout, required: true }],
      body: " begin a := a + 1; end " }`,
  ],
  [
    'privileges and a comment',
    `create function f(a int) returns int language sql as 'select a';
     revoke all on function f(int) from public; grant execute on function f(int) to authenticated, reporting;
     revoke execute on function f from reporting; comment on function f(int) is 'Twice';`,
    `{ language: sql, description: Twice, expose: false, execute: [authenticated],
      args: [{ name: a, type: int, required: true }], returns: { type: int }, body: select a }`,
  ],
  [
    'a separate schema',
    `create function private.f() returns int language sql as 'select 1'; grant execute on function private.f() to anon`,
    `{ schema: private, language: sql, expose: false, execute: [anon], returns: { type: int }, body: select 1 }`,
  ],
  [
    'a text that looks like a variable',
    "create function f() returns text language sql as $f$ select '${HOME} $${HOME:-x} ${' $f$",
    `{ language: sql, expose: false, returns: { type: text }, body: " select '$\${HOME} $\${HOME:-x} \${' " }`,
  ],
];

describe('a function in SQL equals the same keys in YAML', () => {
  test.each(FUNCTIONS)('%s', async (_, sql, keys) => {
    const fromSql = await read(sql);
    const fromKeys = await read('', `${YAML}rpc:\n  f: ${keys}\n`);
    expect(bare(fromSql.rpc)).toEqual(bare(fromKeys.rpc));
    expect(fromSql.rpc.map(({ name }) => name)).toContain('f');
  });
});

describe('overloaded functions', () => {
  const PAIR = `create function f(a int) returns int language sql as 'select a';
    create function f(in b text, variadic c integer[]) returns int language sql as 'select 1';
    create function crm.f(a int) returns int language sql as 'select a';`;
  const entries = async (sql: string, yaml = YAML): Promise<string[]> =>
    (await read(sql, yaml)).rpc.map(({ key, schema, name, expose, description = '', execute = [] }) =>
      [`${key}:`, `${schema}.${name}`, expose ? 'exposed' : '', description, ...execute]
        .filter((word) => word !== '')
        .join(' '),
    );

  test('each overload has its own entry, and COMMENT, GRANT and expose select one', async () => {
    expect(
      await entries(
        `${PAIR} comment on function f(text, int[]) is 'Other'; grant execute on function public.f(int4) to anon;
         grant execute on function crm.f to reporting`,
        `${YAML}expose: { functions: ["f(integer)"] }\n`,
      ),
    ).toEqual([
      'f(integer): public.f exposed anon',
      'f(text, integer[]): public.f Other',
      'crm.f(integer): crm.f reporting',
    ]);
    expect(await entries(PAIR, `${YAML}expose: { functions: [f] }\n`)).toEqual([
      'f(integer): public.f exposed',
      'f(text, integer[]): public.f exposed',
      'crm.f(integer): crm.f',
    ]);
  });

  test('an ambiguous or unknown overload is a mistake', async () => {
    expect(await mistakes(`${PAIR}\ngrant execute on function f to anon;`)).toEqual([
      'sql/app.sql:4:1 several functions are called f',
    ]);
    expect(await mistakes(`${PAIR}\ncomment on function f(uuid) is 'x';`)).toEqual([
      'sql/app.sql:4:1 no SQL file creates f',
    ]);
    expect(
      await mistakes(`${PAIR}\ncreate function f(x integer) returns int language sql as 'select 2'`),
    ).toEqual(['sql/app.sql:4:1 f is created twice, first in sql/app.sql:1']);
  });

  test('overloads that the API serves must have different argument names', async () => {
    const sql = PAIR.replace('in b text, variadic c integer[]', 'a text');
    expect(await mistakes(sql)).toEqual([]);
    expect(await mistakes(sql, `${YAML}expose: { functions: [f] }\n`)).toEqual([
      'sql/app.sql:2:5 rpc.f(integer) is also called f, with the arguments a: the API cannot choose between them',
    ]);
  });
});

const GRANTS = 'grants: { anon: [], authenticated: [], service_role: [] }';
const OTHERS: ReadonlyArray<readonly [what: string, sql: string, keys: string]> = [
  [
    'a view runs with the rights of its owner by default',
    `create view v as select 1 as a, ';' as b`,
    `views: { v: { security: definer, expose: false, ${GRANTS}, query: "select 1 as a, ';' as b" } }`,
  ],
  [
    'options of a view',
    `create or replace view crm.v with (security_invoker = on, security_barrier) as
     with x as (select 1 as a) select a from x with local check option;
     comment on view crm.v is 'One'; grant select, insert on crm.v to anon; grant all on table crm.v to service_role`,
    `views: { v: { schema: crm, security: invoker, barrier: true, check_option: local, comment: One, expose: false,
      grants: { anon: [select, insert], authenticated: [], service_role: [select, insert, update, delete] },
      query: with x as (select 1 as a) select a from x } }`,
  ],
  [
    'a materialized view',
    `create materialized view if not exists v as select 1 as a with no data`,
    `views: { v: { materialized: true, expose: false, ${GRANTS}, query: select 1 as a } }`,
  ],
  [
    'types',
    `create type mood as enum ('sad', 'it''s ok'); create type pair as (low int, high numeric(4, 1)[]);
     create domain email as text collate "C" default 'a@b'
       constraint at check (value ~ '@') check (length(value) < 99) not null;
     comment on type mood is 'How'; comment on domain email is 'Where';`,
    `types: { mood: { enum: [sad, "it's ok"], comment: How },
      pair: { composite: { low: int, high: "numeric(4, 1)[]" } },
      email: { domain: text, collate: C, default: { sql: "'a@b'" }, check: ["value ~ '@'", "length(value) < 99"],
        not_null: true, comment: Where } }`,
  ],
  [
    'sequences, which no role can use before a grant',
    `create sequence if not exists a; comment on sequence a is 'One';
     grant all on sequence a to anon, reporting; revoke usage on sequence a from reporting;
     -- svc: renamed_from=c
     create sequence crm.b as bigint increment by -5 minvalue -9223372036854775808 maxvalue -1
       start with -7 cache 3 cycle owned by none;
     create sequence d no minvalue no maxvalue no cycle as smallint start 12`,
    `sequences: { a: { usage: [anon], comment: One },
      b: { schema: crm, type: bigint, increment: -5, min: -9223372036854775808, max: -1, start: -7, cache: 3,
        cycle: true, usage: [], renamed_from: c },
      d: { type: smallint, start: 12, usage: [] } }`,
  ],
  [
    'objects without a key, with their comments, grants and ALTER statements',
    `comment on aggregate public.a(int) is 'All';
     grant execute on function a(integer) to anon, reporting; revoke all on function a(integer) from anon;
     create aggregate a(int) (sfunc = int4pl, stype = int);
     alter text search configuration public.c add mapping for word with simple;
     create text search configuration c (parser = default);
     create rule r as on delete to public.profiles do instead nothing; comment on rule r on profiles is 'Kept';
     alter aggregate a(int) owner to me`,
    `statements: { "aggregate a(int4)": {
        create: "create aggregate a(int) (sfunc = int4pl, stype = int)", execute: [reporting], comment: All },
      "text search configuration c": { create: create text search configuration c (parser = default),
        alter: [alter text search configuration public.c add mapping for word with simple] },
      "rule r on profiles": {
        create: create rule r as on delete to public.profiles do instead nothing, comment: Kept } }`,
  ],
];

describe('other objects in SQL equal the same keys in YAML', () => {
  test.each(OTHERS)('%s', async (_, sql, keys) => {
    const fromSql = await read(sql);
    const fromKeys = await read('', `${YAML}${keys}\n`);
    expect(bare(fromSql.views)).toEqual(bare(fromKeys.views));
    expect(bare(fromSql.types)).toEqual(bare(fromKeys.types));
    expect(bare(fromSql.sequences)).toEqual(bare(fromKeys.sequences));
    expect(bare(fromSql.statements)).toEqual(bare(fromKeys.statements));
  });

  test('triggers belong to their table, their view, or auth.users', async () => {
    const { tables, auth, views } = await read(
      `create trigger a before update of name or delete on public.profiles for each row
         when (old.name is distinct from new.name) execute function public.f('x');
       create constraint trigger b after insert on profiles deferrable initially deferred
         for each row execute function f();
       create trigger c after update on profiles referencing old table as before new table as later
         for each statement execute procedure f();
       create trigger d after insert on auth.users for each row execute function f();
       create trigger e instead of insert on v for each row execute function f();
       create trigger g instead of delete on w for each row execute function f();
       create view v as select 1 as a;
       create function f() returns trigger language plpgsql as 'begin return new; end';`,
      `${YAML}views: { w: { query: select 2 as b } }\n`,
    );
    expect(tables[0]?.triggers).toMatchObject([
      {
        name: 'a',
        timing: 'before',
        events: ['update', 'delete'],
        of: ['name'],
        when: 'old.name is distinct from new.name',
        call: 'f',
        args: ['x'],
      },
      { name: 'b', timing: 'after', constraint: { deferrable: 'deferred' } },
      { name: 'c', each: 'statement', oldTable: 'before', newTable: 'later' },
    ]);
    expect(auth.triggers).toMatchObject([{ name: 'd', timing: 'after', events: ['insert'], call: 'f' }]);
    expect(views.map(({ name, triggers }) => [name, triggers[0]?.name])).toEqual([
      ['w', 'g'],
      ['v', 'e'],
    ]);
  });

  test('triggers in SQL files and in YAML are combined', async () => {
    const { tables } = await read(
      `create trigger b before update on profiles for each row execute function f();
       create function f() returns trigger language plpgsql as 'begin return new; end';`,
      YAML.replace(
        'rls: []',
        'rls: []\n    triggers: [{ name: a, timing: before, events: insert, call: f }]',
      ),
    );
    expect(tables[0]?.triggers.map(({ name }) => name)).toEqual(['a', 'b']);
  });
});

test('only objects under expose are served', async () => {
  const sql = `create function f() returns int language sql as 'select 1';
      create function g() returns int language sql as 'select 1';
    create view v as select 1 as a; create view w as select 1 as a; grant select on v to anon;`;
  const { rpc, views, expose } = await read(
    sql,
    `${YAML}expose: { functions: [{ name: f, auth_required: true }, theirs], relations: [public.v] }\n`,
  );
  expect(
    rpc.map(({ name, expose: served, authRequired, execute }) => [name, served, authRequired, execute]),
  ).toEqual([
    ['f', true, true, undefined],
    ['g', false, false, undefined],
  ]);
  expect(views.map(({ name, expose: served, grants }) => [name, served, grants])).toEqual([
    ['v', true, { anon: ['select'] }],
    ['w', false, { anon: [], authenticated: [], service_role: [] }],
  ]);
  expect(expose).toEqual({
    relations: [],
    routines: [{ schema: 'public', name: 'theirs', authRequired: false }],
  });
});

test('a policy that calls a function without a privilege causes a warning', async () => {
  const sql =
    'create function private.is_member(team bigint) returns boolean ' +
    `language sql security definer as 'select true';`;
  const yaml = YAML.replace(
    'rls: []',
    'rls: [{ operations: [select], using: private.is_member(1), to: authenticated }]',
  );
  const warned = await load({ 'sql/a.sql': sql }, yaml);
  expect(warned.ok && warned.warnings.map(({ message, hint }) => [message, hint])).toEqual([
    [
      'authenticated cannot execute is_member, which the policy calls: their requests fail',
      'Add them to rpc.is_member.execute, or write in its SQL file: ' +
        'grant execute on function private.is_member to authenticated;',
    ],
  ]);
  const granted = await load(
    { 'sql/a.sql': `${sql} grant execute on function private.is_member to authenticated` },
    yaml,
  );
  expect(granted.ok && granted.warnings).toEqual([]);
});

test('the merged text of SQL and YAML is equivalent', async () => {
  const sql = [...FUNCTIONS.slice(0, 1), ...OTHERS.slice(0, 1), ...OTHERS.slice(3)]
    .map(([, text]) => text)
    .join(';\n')
    .replaceAll(';;', ';');
  const config = await read(
    `${sql}; create function g() returns text language sql as '\n\n  select ''\${HOME}'' \n\n';
     create trigger t before update on profiles for each row execute function f()`,
    YAML.replace('rls: []', 'rls: []\n    triggers: [{ name: a, timing: before, events: insert, call: f }]'),
  );
  const again = loadConfig(
    { name: 'svc.yaml', directory: undefined, text: config.source.text },
    { variables: {} },
  );
  if (!again.ok) throw new Error(JSON.stringify(again.mistakes));
  const { source: _source, ...original } = config;
  const { source: _mergedSource, ...merged } = again.config;
  expect(bare(merged)).toEqual(bare(original));
});

const REJECTED: ReadonlyArray<readonly [sql: string, message: RegExp]> = [
  ['create table t (id int)', /CREATE TABLE is not supported/],
  ['create table t as select 1', /CREATE TABLE AS is not supported/],
  ['insert into profiles values (1)', /INSERT is not supported/],
  ['select 1', /SELECT is not supported/],
  ['do $$ begin end $$', /DO is not supported/],
  ['alter table profiles enable row level security', /ALTER is not supported/],
  ['alter function f() rename to g', /RENAME is not supported/],
  ['create policy p on profiles using (true)', /CREATE POLICY is not supported/],
  ['create index on profiles (id)', /CREATE INDEX is not supported/],
  ['create extension pg_trgm', /CREATE EXTENSION is not supported/],
  ['create role r', /CREATE ROLE is not supported/],
  ['drop view v', /DROP is not supported/],
  ['begin', /a transaction statement is not supported/],
  ['set search_path = x', /SET is not supported/],
  ['grant select on profiles to anon', /no SQL file creates profiles/],
  ['grant usage on schema public to anon', /this GRANT is not supported/],
  ['create temp sequence s', /temporary or unlogged sequence/],
  ['create sequence s owned by profiles.id', /created with its column/],
  ['create sequence s; grant update on sequence s to anon', /does not grant update on sequences/],
  ['grant usage on sequence s to anon', /no SQL file creates s/],
  [
    'create rule r as on insert to nothing do instead nothing',
    /refers to nothing, which is not a table or view/,
  ],
  ['create rule "_RETURN" as on select to profiles do instead select 1', /a rule ON SELECT is a view/],
  ['create statistics on id, name from profiles', /these statistics have no name/],
  ['create type t as range (subtype = int, canonical = f)', /with CANONICAL/],
  ['create aggregate a (basetype = int, sfunc = f, stype = int)', /argument type after the name/],
  [
    'alter text search configuration c add mapping for word with simple',
    /no SQL file creates the text search conf/,
  ],
  [`comment on aggregate a(int) is 'x'`, /no SQL file creates the aggregate a\(int4\)/],
  [
    'create operator class c for type int using btree as operator 1 <',
    /CREATE OPERATOR CLASS is not supported/,
  ],
  ['create type t (input = f, output = g)', /this CREATE is not supported/],
  [`-- svc: renamed_from=a\ncreate collation c (locale = 'C')`, /svc does not rename a collation/],
  [`comment on table profiles is 'x'`, /comments on this kind of object are not supported/],
  ['comment on function f() is null', /no SQL file creates f/],
  [`create function f() returns int as 'select 1'`, /no language/],
  [`create function f() returns int language c as 'lib', 'sym'`, /a C library|must be one of/],
  [`create function f() returns int as 'select 1'`, /the function has no language/],
  [`create view v (a) as select 1`, /column names of the query/],
  [`create view v with (check_option = local, x = 1) as select 1`, /views with x/],
  [
    `create trigger t before insert on nowhere for each row execute function f()`,
    /the trigger refers to nowhere/,
  ],
  [
    `create trigger t after insert on auth.users for each statement execute function f()`,
    /must run for each row/,
  ],
  [`-- svc: keep\ncreate view v as select 1 as a`, /unknown annotation “keep”/],
  [`\\d profiles`, /syntax error/],
];

describe('a statement that SQL files do not support is rejected with its place', () => {
  test.each(REJECTED)('%s', async (sql, message) => {
    const found = await mistakes(`-- One line before.\n${sql};`);
    expect(found.join('\n')).toMatch(message);
    expect(found[0]).toMatch(/^sql\/app\.sql:[23]:/);
  });

  test('a syntax error has the file and the position of the parser', async () => {
    const lines = Array.from({ length: 39 }, (_, n) => `-- Zeile ${n} mit ä`).join('\n');
    expect(
      await mistakes({
        'sql/a.sql': 'create view a as select 1 as x;',
        'sql/c.sql': `${lines}\ncreate view c as selct 1;`,
      }),
    ).toEqual(['sql/c.sql:40:18 syntax error at or near "selct"']);
  });

  test('duplicate objects are mistakes', async () => {
    const view = 'create view v as select 1 as a;';
    expect(await mistakes({ 'sql/a.sql': view, 'sql/b.sql': `\n${view}` })).toEqual([
      'sql/b.sql:2:1 v is created twice, first in sql/a.sql:1',
    ]);
    const yaml = `${YAML}views:\n  v: { query: select 2 as a }\n`;
    expect((await mistakes({ 'sql/a.sql': view }, yaml))[0]).toMatch(
      /^sql\/a\.sql:1:\d+ views\.v\.query is declared in two files, first in svc\.yaml:11$/,
    );
  });

  test('a mistake in the resulting keys has the place of the statement', async () => {
    const sql = `create function f() returns trigger language sql as 'select 1';
create function g(a int) returns int language plpgsql as
  'select a';`;
    expect(await mistakes(sql)).toEqual([
      'sql/app.sql:1:37 a trigger function cannot be written in SQL',
      'sql/app.sql:3:3 the body is a plain SQL statement, and the language is plpgsql',
    ]);
  });

  test('missing files, files outside the directory, and sql in an included file are mistakes', async () => {
    const named = (path: string): Promise<string[]> => mistakes({}, YAML.replace('sql/*.sql', path));
    expect((await named('sql/none.sql'))[0]).toMatch(/there is no file sql\/none\.sql/);
    expect((await named('../x.sql'))[0]).toMatch(/outside the directory/);
    const included = { 'more.yaml': 'sql: [x.sql]\n' };
    expect(await mistakes(included, YAML.replace('sql: [sql/*.sql]', 'include: [more.yaml]'))).toEqual([
      'more.yaml:1:7 sql is only allowed in svc.yaml',
    ]);
  });
});

test('a renamed function or view has its earlier name', async () => {
  const { rpc, views } = await read(
    `-- Counts.\n-- svc: renamed_from=old_f\ncreate function f() returns int language sql as 'select 1';
     -- svc: renamed_from=old_v
     create view v as select 1 as a;`,
  );
  expect([rpc[0]?.renamedFrom, views[0]?.renamedFrom]).toEqual(['old_f', 'old_v']);
});

test('statements about owners are ignored', async () => {
  expect(await mistakes(`create view v as select 1 as a; alter view v owner to postgres;`)).toEqual([]);
});
