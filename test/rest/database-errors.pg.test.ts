// Responses to errors of PostgreSQL, equal on every release.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { createRestWorld, type Answer, type RestWorld } from '../support/rest-world.ts';

const SQL = `
create table teams (id int primary key, name text);
create table players (id int primary key, team_id int references teams on delete restrict on update restrict);
create table fans (id int primary key, team_id int references teams);
insert into teams values (1, 'one'), (2, 'two'), (3, 'three');
insert into players values (1, 1);
insert into fans values (1, 2);
create table moments (id int primary key, at timestamptz);
insert into moments values (1, '2024-07-01 12:00:00Z');
create view team_sizes as select team_id, count(*) as size from players group by team_id;
create view loud_teams as select id, upper(name) as name from teams;
create function write_loud() returns trigger language plpgsql as
  $$ begin insert into teams values (new.id, lower(new.name)); return new; end $$;
create trigger write_loud instead of insert on loud_teams for each row execute function write_loud();
create materialized view stored_teams as select id from teams;
create function refuse() returns void language plpgsql as
  $$ begin raise exception 'on purpose' using errcode = '23001'; end $$;
grant select, insert, update, delete on all tables in schema public to anon;
`;

let database: TestDatabase;
let world: RestWorld;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({
    url: database.url,
    sql: SQL,
    exposed: ['team_sizes', 'loud_teams', 'stored_teams'],
  });
});
afterAll(async () => {
  await world.close();
  await database.drop();
});

const errorCode = ({ json }: Answer): unknown => (json as { code?: unknown } | undefined)?.code;

test.each([
  ['DELETE', '/teams?id=eq.1', ''],
  ['PATCH', '/teams?id=eq.1', '{"id":9}'],
  ['DELETE', '/teams?id=eq.2', ''],
])(
  '%s %s: a row that others refer to is 409 and 23503, with RESTRICT and NO ACTION',
  async (method, path, body) => {
    const answer = await world.send(path, { method, ...(body === '' ? {} : { body }) });
    expect([answer.status, answer.json]).toMatchObject([
      409,
      { code: '23503', hint: 'The row it refers to must exist, or rows that refer to it must go first.' },
    ]);
  },
);

test('a code that a function raises is returned', async () => {
  const answer = await world.send('/rpc/refuse', { method: 'POST', body: '{}' });
  expect([answer.status, errorCode(answer)]).toEqual([400, '23001']);
});

test.each([
  ['POST', '/team_sizes', 'OPTIONS,GET,HEAD'],
  ['PATCH', '/team_sizes?size=eq.1', 'OPTIONS,GET,HEAD'],
  ['DELETE', '/team_sizes?size=eq.1', 'OPTIONS,GET,HEAD'],
  ['PUT', '/team_sizes?team_id=eq.1', 'OPTIONS,GET,HEAD'],
  ['POST', '/stored_teams', 'OPTIONS,GET,HEAD'],
])('%s %s: a view that does not support the write is 405', async (method, path, allow) => {
  const body = method === 'DELETE' ? {} : { body: '{"team_id":1}' };
  const answer = await world.send(path, { method, ...body });
  expect([answer.status, errorCode(answer), answer.headers.get('allow')]).toEqual([405, 'PGRST117', allow]);
  const options = await world.send(path.split('?')[0] ?? '', { method: 'OPTIONS' });
  expect(options.headers.get('allow')).toBe(allow);
});

test('a view with an INSTEAD OF trigger accepts inserts', async () => {
  const answer = await world.send('/loud_teams', { method: 'POST', body: '{"id":7,"name":"SEVEN"}' });
  expect(answer.status).toBe(201);
});

test.each([
  ['+05:30', '2024-07-01T17:30:00+05:30'],
  ['-4', '2024-07-01T08:00:00-04:00'],
  ['+4', '2024-07-01T16:00:00+04:00'],
  ['+04:00', '2024-07-01T16:00:00+04:00'],
  ['UTC-03', '2024-07-01T09:00:00-03:00'],
  ['Asia/Kolkata', '2024-07-01T17:30:00+05:30'],
])('Prefer: timezone=%s has the meaning of ISO 8601', async (zone, at) => {
  const headers = { prefer: `timezone=${zone}` };
  const answer = await world.send('/moments?select=at', { headers });
  expect(answer.json).toEqual([{ at }]);
  expect(answer.headers.get('preference-applied')).toBe(`timezone=${zone}`);
  const filtered = await world.send(`/moments?select=id&at=eq.${encodeURIComponent(at.slice(0, 19))}`, {
    headers,
  });
  expect(filtered.json).toEqual([{ id: 1 }]);
});

test.each(['+25:00', '+05:75', 'Nowhere', '5.5'])('Prefer: timezone=%s is refused', async (zone) => {
  const answer = await world.send('/moments', { headers: { prefer: `timezone=${zone}` } });
  expect([answer.status, errorCode(answer)]).toEqual([400, '22023']);
});

test('eq.null on a number explains how to test for null', async () => {
  const answer = await world.send('/teams?id=eq.null');
  expect([answer.status, errorCode(answer)]).toEqual([400, '22P02']);
  expect((answer.json as { hint: string }).hint).toContain('is.null');
});

test('an upsert of one key twice is 409 with a reason', async () => {
  const answer = await world.send('/teams', {
    method: 'POST',
    headers: { prefer: 'resolution=merge-duplicates' },
    body: '[{"id":3,"name":"a"},{"id":3,"name":"b"}]',
  });
  expect([answer.status, errorCode(answer)]).toEqual([409, '21000']);
});
