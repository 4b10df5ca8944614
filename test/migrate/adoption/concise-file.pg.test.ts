// Tests that a pulled file is as short as a handwritten file, has an empty plan, and builds the same database.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { pulled } from '../pulled.ts';
import { aWorld, type World } from '../world.ts';

let world: World;
beforeEach(async () => {
  world = await aWorld();
});
afterEach(() => world.close());

const DATABASE = `
set role svc_owner;
create type mood as enum ('sad', 'ok');
create domain code as varchar(6) default 'x' check (value <> '');
create type pair as (a character varying, b timestamp without time zone);
create table people (
  id serial primary key, name varchar(20) not null default 'pending', price numeric(10,2) default 0.5,
  level integer default -1,
  seen timestamp default now(), opens time default '10:00', info jsonb default '{}', list json default '[]',
  tags text[] default '{}', marks text[] default array['a', 'it''s'], born date default '2020-01-01',
  rest interval default '1 day',
  mood mood default 'ok', moods mood[], code code, pair pair, state varchar(3) check (state in ('on', 'off')));
create index people_name_idx on people (name);
create index by_price on people (price);
create table posts (id bigint generated always as identity primary key,
  author integer references people on delete cascade);
create index posts_author_idx on posts (author);
alter table posts enable row level security;
create policy "read all" on posts for select to anon, authenticated using (true);
create function twice(a integer, b character varying) returns setof people language sql stable
  as 'select * from people';
revoke all on function twice from public;
revoke all on people, posts from public;
grant select, insert, update, delete on people, posts to anon, authenticated;
grant all on people, posts to service_role;
grant usage, select on sequence people_id_seq to anon, authenticated, service_role`;

const FIELDS = `
      - { name: id, type: serial, primary_key: true }
      - { name: name, type: varchar(20), required: true, default: pending }
      - { name: price, type: "numeric(10,2)", default: 0.5 }
      - { name: level, type: integer, default: -1 }
      - { name: seen, type: timestamp, default: now() }
      - { name: opens, type: time, default: 10:00:00 }
      - { name: info, type: jsonb, default: {} }
      - { name: list, type: json, default: [] }
      - { name: tags, type: "text[]", default: [] }
      - { name: marks, type: "text[]", default: [ a, it's ] }
      - { name: born, type: date, default: 2020-01-01 }
      - { name: rest, type: interval, default: 1 day }
      - { name: mood, type: mood, default: ok }
      - { name: moods, type: "mood[]" }
      - { name: code, type: code }
      - { name: pair, type: pair }
      - { name: state, type: varchar(3), enum: [ on, off ] }
    indexes:
      - { name: by_price, columns: [ price ] }
      - { columns: [ name ] }
`;

test('types, values, names and lists are short', async () => {
  await world.sql(DATABASE);
  const text = await pulled(world);
  expect(text).toContain(FIELDS);
  expect(text).toContain("  code: { domain: varchar(6), check: (VALUE)::text <> ''::text, default: x }\n");
  expect(text).toContain('  pair: { composite: { a: varchar, b: timestamp } }\n');
  expect(text).toContain('      - { columns: [ author ] }\n');
  expect(text).toContain('      - { name: read all, operations: [ select ], using: "true" }\n');
  expect(text).toContain(
    '      - { name: b, type: varchar, required: true }\n    returns: { type: setof people }\n',
  );
  expect(text).not.toContain('grants:');
  await world.sql('truncate svc_meta.stamp, svc_meta.object');
  const { steps, problems } = await world.plan(text);
  expect([...steps.map(({ sql }) => sql), ...problems]).toEqual([]);
  await world.empty();
  await world.settle(text);
  expect(await pulled(world)).toBe(text);
});

test('partitions at regular times become a schedule in one line', async () => {
  const file = `
tables:
  events:
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: at, type: timestamptz, primary_key: true }
    partition_by: { range: [ at ] }
    partitions: { every: 1 month, ahead: 2, from: 2025-01-01 }
`;
  await world.settle(file);
  const partitions = `select string_agg(relname, ' ' order by relname) as names from pg_class where relispartition`;
  const before = await world.sql(partitions);
  const text = await pulled(world);
  expect(text).toContain(file.trimStart());
  await world.sql('truncate svc_meta.stamp, svc_meta.object');
  expect((await world.plan(text)).steps).toEqual([]);
  await world.empty();
  await world.settle(text);
  expect(await world.sql(partitions)).toEqual(before);
});
