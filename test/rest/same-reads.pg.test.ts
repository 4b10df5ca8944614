// Concurrent equal requests: one statement answers all of them, unless each needs its own response.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { exposed } from '../../src/rest/plan/exposed.ts';
import { relationOrigin, planRead } from '../../src/rest/plan/plan-read.ts';
import { isRepeatable } from '../../src/rest/plan/repeatable.ts';
import { parseQuery } from '../../src/rest/request/parse-query.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { createRestWorld, type RestWorld } from '../support/rest-world.ts';

let database: TestDatabase;
let world: RestWorld;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({
    url: database.url,
    poolSize: 1,
    sql: `
      create table owners (id uuid primary key, name text not null);
      create table notes (id int primary key, owner uuid references owners, tags jsonb, body text not null);
      create table labels (id int primary key, name text);
      create table notes_labels (note int references notes, label int references labels, primary key (note, label));
      create view dice as select id, random() as face from notes;
      create function luck(notes) returns float8 language sql volatile as 'select random()';
      create function neighbours(notes) returns setof notes language sql stable as 'select * from notes';
      alter table notes enable row level security;
      create policy own on notes for select using (owner is null or owner = auth.uid());
      insert into owners select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'owner ' || n
        from generate_series(1, 3) n;
      insert into notes values (0, null, '{}', 'for all'), (1, '00000000-0000-0000-0000-000000000001', '{}', 'one'),
        (2, '00000000-0000-0000-0000-000000000002', '{}', 'two');
      grant select on all tables in schema public to anon, authenticated;`,
  });
});

afterAll(async () => {
  await world.close();
  await database.drop();
});

test.each([
  ['notes', 'select=*', true],
  ['notes', 'select=id,t:tags->a,owners(name)&body=eq.x&order=tags->b,id&limit=3', true],
  ['notes', 'select=id,labels(name)&or=(id.gt.1,body.like.*x*)&labels.name=eq.a', true],
  ['notes', 'select=owner,n:count()&having=n.gt.1&order=n', true],
  ['notes', 'select=id,owners!inner(name)&order=owners(name)', true],
  ['notes', 'select=id,owners(name)&owners=not.is.null', true],
  ['dice', 'select=*', false],
  ['notes', 'select=id,luck', false],
  ['notes', 'select=id&luck=gt.0.5', false],
  ['notes', 'select=id&and=(id.gt.0,or(luck.gt.0.5,id.eq.1))', false],
  ['notes', 'select=id&order=luck', false],
  ['notes', 'select=id,neighbours(id)', false],
  ['owners', 'select=id,notes(id,luck)', false],
  ['owners', 'select=id,notes(id)&notes.luck=gt.0.5', false],
])('%s?%s can be shared: %s', (name, query, expected) => {
  const current = exposed(world.snapshot());
  const relation = current.relations.get(`public.${name}`);
  expect(relation).toBeDefined();
  const { node } = planRead(current, relationOrigin(relation!), parseQuery(query, 'relation').query);
  expect(isRepeatable(node)).toBe(expected);
});

/** Occupies the only connection, so that new requests wait. */
async function atOnce<T>(statements: number, ask: () => Array<Promise<T>>): Promise<T[]> {
  const gate = new pg.Client(database.url);
  await gate.connect();
  await gate.query('select pg_advisory_lock(4711)');
  const caller = { role: 'service_role', claims: '{}' } as const;
  const taken = world.callers.run(caller, [
    { text: 'select pg_advisory_xact_lock_shared(4711)', values: [] },
  ]);
  const asked = ask();
  await expect.poll(() => world.callers.size.waiting).toBe(statements);
  await gate.end();
  await taken;
  return Promise.all(asked);
}

const times = <T>(count: number, ask: () => Promise<T>): Array<Promise<T>> =>
  Array.from({ length: count }, ask);

test('equal requests share one statement; requests with random results do not', async () => {
  const answers = await atOnce(1 + 1 + 5, () => [
    ...times(10, () => world.send('/notes?select=body&order=id')),
    ...times(10, () => world.send('/notes?select=body&order=id.desc')),
    ...times(5, () => world.send('/dice?select=face&id=eq.0')),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  const texts = answers.map(({ text }) => text);
  expect(new Set(texts.slice(0, 20))).toEqual(new Set(['[{"body":"for all"}]']));
  expect(new Set(texts.slice(20)).size).toBe(5);
});

test('requests of different callers for the same path are not shared', async () => {
  const tokens = await Promise.all(
    ['1', '2'].map((last) => world.token({ sub: `00000000-0000-0000-0000-00000000000${last}` })),
  );
  const answers = await atOnce(3, () =>
    [undefined, ...tokens].flatMap((token) =>
      times(4, () => world.send('/notes?select=body&order=id', token === undefined ? {} : { token })),
    ),
  );
  const bodies = answers.map(({ json }) => (json as Array<{ body: string }>).map(({ body }) => body));
  const expected = [['for all'], ['for all', 'one'], ['for all', 'two']];
  expect(bodies).toEqual(expected.flatMap((body) => [body, body, body, body]));
});

test('each request gets its own headers and errors', async () => {
  const answers = await atOnce(2, () => [
    world.send('/notes?select=body&order=id', { headers: { prefer: 'count=exact' } }),
    world.send('/notes?select=body&order=id', { headers: { prefer: 'count=exact' } }),
    world.send('/notes?select=body&order=id', { method: 'GET', headers: { accept: 'text/csv' } }),
  ]);
  expect(answers.map(({ headers }) => headers.get('content-range'))).toEqual(['0-0/1', '0-0/1', '0-0/*']);
  expect(new Set(answers.map(({ headers }) => headers.get('x-request-id'))).size).toBe(3);
  const refused = await atOnce(1, () => times(3, () => world.send('/notes?id=eq.x')));
  expect(refused.map(({ status, json }) => [status, (json as { code: string }).code])).toEqual(
    refused.map(() => [400, '22P02']),
  );
});
