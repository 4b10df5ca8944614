// The root of the data API as Swagger 2.0, compared with PostgREST's for the same database.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { hasPostgrest, startPostgrest, type PostgrestProcess } from '../../support/peers/postgrest.ts';
import { createRestWorld, KEYS, send, type RestWorld } from '../../support/rest-world.ts';

const SQL = `
create type mood as enum ('sad', 'ok');
create table teams (id int primary key, name text not null);
comment on table teams is 'Teams

They play.';
create table people (
  id bigint generated always as identity primary key,
  team_id int references teams,
  name varchar(20) not null default 'unnamed',
  mood mood default 'ok',
  tags text[], moods mood[], born date, seen timestamptz default now(), token uuid, data jsonb, doc json, ratio float8,
  price numeric(8,2), small int2, alive boolean not null default true, raw bytea, at time, span interval, code char(3));
comment on column people.name is 'Given name';
comment on column people.team_id is 'Where they play';
create table memberships (person_id bigint references people, team_id int references teams,
  primary key (person_id, team_id));
create view grown as select id, name, team_id from people where born < '2000-01-01';
comment on view grown is 'Adults';
create view totals as select count(*) as n from people;
create function add(a int, b int default 2) returns int language sql immutable as 'select a + b';
comment on function add(int, int) is 'Sum

Adds two numbers.';
create function people_of(team int) returns setof people language sql stable
  as 'select * from people where team_id = team';
create function reset() returns void language sql volatile as '';
create function many(variadic words text[]) returns text language sql immutable as 'select words[1]';
create function whole(jsonb) returns jsonb language sql immutable as 'select $1';
grant select, insert, update, delete on teams, people, memberships to anon;
grant all on grown, totals to anon;
`;

let database: TestDatabase;
let world: RestWorld;
let postgrest: PostgrestProcess | undefined;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({ url: database.url, sql: SQL, exposed: ['grown', 'totals'] });
  if (hasPostgrest) postgrest = await startPostgrest(world.authenticatorUrl);
});

afterAll(async () => {
  await postgrest?.stop();
  await world.close();
  await database.drop();
});

type Document = Readonly<Record<string, unknown>> & {
  readonly definitions: Readonly<Record<string, unknown>>;
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly parameters: Readonly<Record<string, unknown>>;
};

async function both(): Promise<readonly [ours: Document, theirs: Document]> {
  const ours = await world.send('/');
  expect(ours.headers.get('content-type')).toBe('application/openapi+json; charset=utf-8');
  const theirs = await send(`${postgrest?.url}/`, { apikey: null });
  return [ours.json as Document, theirs.json as Document];
}

test.skipIf(!hasPostgrest)(
  'tables, keys, defaults and parameters are described as by PostgREST',
  async () => {
    const [ours, theirs] = await both();
    expect(ours['swagger']).toBe(theirs['swagger']);
    expect(ours.definitions).toEqual(theirs.definitions);
    // PostgREST omits the count preferences that it accepts.
    expect({ ...ours.parameters, preferCount: null }).toEqual({ ...theirs.parameters, preferCount: null });
  },
);

test.skipIf(!hasPostgrest)('paths are described like in PostgREST', async () => {
  const [ours, theirs] = await both();
  expect(Object.keys(ours.paths).toSorted()).toEqual(Object.keys(theirs.paths).toSorted());
  for (const [path, operations] of Object.entries(theirs.paths)) {
    const { get, ...others } = operations;
    const { get: ourGet, ...ourOthers } = ours.paths[path] ?? {};
    // A GET call of a volatile function is rejected, and a function without argument names takes a body.
    if (path === '/rpc/reset' || path === '/rpc/whole') expect(ourGet).toBeUndefined();
    else expect(ourGet, path).toEqual(get);
    if (path !== '/rpc/whole') expect(ourOthers, path).toEqual(others);
  }
});

test('OpenAPI 3.1 is returned on request, and operations follow the rights of the caller', async () => {
  const accept = 'application/vnd.oai.openapi+json';
  const newer = await world.send('/', { headers: { accept } });
  expect(newer.headers.get('content-type')).toBe(`${accept}; charset=utf-8`);
  expect(newer.json).toMatchObject({ openapi: '3.1.0' });
  const { json } = await world.send('/', { apikey: KEYS.secret });
  expect((json as Document).paths['/teams']).toBeUndefined();
  expect((await world.send('/', { headers: { accept: 'text/csv' } })).status).toBe(406);
});
