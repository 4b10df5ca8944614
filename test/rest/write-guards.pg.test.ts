// Guards of a write count the changed rows, whatever part of them the representation shows.
import { createClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { createRestWorld, KEYS, type Answer, type RestWorld } from '../support/rest-world.ts';

const SQL = `
create table projects (id int primary key, name text);
create table tasks (id int primary key, project_id int references projects, title text);
create table log (id int generated always as identity, line text);
create domain size as int check (value > 0);
create table papers (id int primary key, label text, pages int, code varchar(3), size size, data jsonb);
insert into projects values (1, 'one'), (2, 'two'), (3, 'three');
create function add_tasks(first int, last int) returns setof tasks language sql volatile as
  'insert into tasks select generate_series(first, last), 1, ''new'' returning *';
create function add_ids(first int, last int) returns setof int language sql volatile as
  'insert into tasks select generate_series(first, last), 1, ''new'' returning id';
create function note_lines(count int) returns table (line text) language sql volatile as
  'insert into log (line) select ''line '' || i from generate_series(1, count) i returning line';
grant all on all tables in schema public to anon, service_role;
`;

let database: TestDatabase;
let world: RestWorld;
let admin: pg.Client;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({ url: database.url, sql: SQL });
  admin = new pg.Client(database.url);
  await admin.connect();
});
afterAll(async () => {
  await admin.end();
  await world.close();
  await database.drop();
});
beforeEach(async () => {
  await world.send('/tasks?id=not.is.null', { method: 'DELETE' });
  const rows = [1, 2, 3, 4].map((id) => ({ id, project_id: id < 4 ? id : null, title: 'old' }));
  await world.send('/tasks', { method: 'POST', body: JSON.stringify(rows) });
});

const OBJECT = 'application/vnd.pgrst.object+json';

type Write = {
  readonly method: string;
  readonly path: string;
  readonly prefer?: string;
  readonly accept?: string;
  readonly body?: string;
};

async function write({ method, path, prefer = '', accept, body }: Write): Promise<Answer> {
  const headers = {
    prefer: prefer === '' ? 'return=representation' : `return=representation,${prefer}`,
    'content-type': 'application/json',
    ...(accept === undefined ? {} : { accept }),
  };
  return world.send(path, { method, headers, ...(body === undefined ? {} : { body }) });
}

async function titles(): Promise<string> {
  const { json } = await world.send('/tasks?select=id,title&order=id');
  return (json as ReadonlyArray<{ id: number; title: string }>)
    .map(({ id, title }) => `${id}${title}`)
    .join();
}

const UNCHANGED = '1old,2old,3old,4old';

// Each shows fewer rows than the write changes.
const NARROW_VIEWS = [
  'select=id,projects!inner(name)&projects.name=eq.two',
  'select=count()',
  'select=n:id.count()&having=n.gt.100',
];

describe.each(NARROW_VIEWS)('a representation of %s', (view) => {
  test.each(['PATCH', 'DELETE'])('%s: max-affected counts the changed rows', async (method) => {
    const path = `/tasks?id=lt.5&${view}`;
    const sent = { method, path, body: method === 'PATCH' ? '{"title":"new"}' : '' };
    const refused = await write({ ...sent, prefer: 'handling=strict,max-affected=3' });
    expect([refused.status, refused.json]).toMatchObject([
      400,
      { code: 'PGRST124', details: 'The query affects 4 rows' },
    ]);
    expect(await titles()).toBe(UNCHANGED);
    expect((await write({ ...sent, prefer: 'handling=strict,max-affected=4' })).status).toBe(200);
  });

  test.each(['PATCH', 'DELETE'])('%s: one object is refused when more rows change', async (method) => {
    const path = `/tasks?id=lt.5&${view}`;
    const refused = await write({
      method,
      path,
      accept: OBJECT,
      body: method === 'PATCH' ? '{"title":"new"}' : '',
    });
    expect([refused.status, refused.json]).toMatchObject([
      406,
      { code: 'PGRST116', details: 'The request affects 4 rows' },
    ]);
    expect(await titles()).toBe(UNCHANGED);
  });

  test('the exact count counts the changed rows', async () => {
    const path = `/tasks?id=lt.5&${view}`;
    const { headers } = await write({
      method: 'PATCH',
      path,
      prefer: 'count=exact',
      body: '{"title":"new"}',
    });
    expect(headers.get('content-range')).toMatch(/\/4$/);
    const gone = await write({ method: 'DELETE', path, prefer: 'count=exact' });
    expect(gone.headers.get('content-range')).toBe('*/4');
  });
});

test('an upsert counts rows that are inserted or updated, and not those it ignores', async () => {
  const path = '/tasks?select=id,projects!inner(name)&projects.name=eq.two';
  const body = JSON.stringify([4, 5, 6].map((id) => ({ id, project_id: 1, title: 'new' })));
  const upsert = (resolution: string, most: number): Promise<Answer> =>
    write({ method: 'POST', path, body, prefer: `resolution=${resolution},max-affected=${most}` });
  expect((await upsert('merge-duplicates', 2)).json).toMatchObject({ details: 'The query affects 3 rows' });
  expect((await upsert('ignore-duplicates', 1)).json).toMatchObject({ details: 'The query affects 2 rows' });
  expect(await titles()).toBe(UNCHANGED);
  expect((await upsert('ignore-duplicates', 2)).status).toBe(201);
  expect((await upsert('merge-duplicates', 3)).status).toBe(200);
  expect(await titles()).toBe('1old,2old,3old,4new,5new,6new');
});

test('PUT compares the body with the URL, whatever the representation shows', async () => {
  for (const view of ['select=tasks!inner(id)', 'select=tasks!inner(id)&tasks.limit=0']) {
    const name = `put by ${view}`;
    const answer = await write({
      method: 'PUT',
      path: `/projects?id=eq.9&${view}`,
      body: JSON.stringify({ id: 9, name }),
    });
    expect([answer.status, answer.json]).toEqual([view.includes('limit') ? 200 : 201, []]);
    expect((await world.send('/projects?id=eq.9&select=name')).json).toEqual([{ name }]);
  }
  const mismatch = await write({
    method: 'PUT',
    path: '/projects?id=eq.9&select=count()',
    body: '{"id":8,"name":"x"}',
  });
  expect([mismatch.status, mismatch.json]).toMatchObject([400, { code: 'PGRST115' }]);
  await world.send('/projects?id=eq.9', { method: 'DELETE' });
});

test('a null test of an embed is a filter of the write itself', async () => {
  const path = '/tasks?select=id,projects(name)&projects=is.null';
  const { json } = await write({ method: 'PATCH', path, prefer: 'max-affected=1', body: '{"title":"new"}' });
  expect(json).toEqual([{ id: 4, projects: null }]);
  expect(await titles()).toBe('1old,2old,3old,4new');
});

test('a single object is rejected if one row changes but none is shown', async () => {
  const path = '/tasks?id=eq.1&select=id,projects!inner(name)&projects.name=eq.two';
  const answer = await write({ method: 'PATCH', path, accept: OBJECT, body: '{"title":"new"}' });
  expect([answer.status, answer.json]).toMatchObject([406, { details: 'The result contains 0 rows' }]);
  expect(await titles()).toBe(UNCHANGED);
});

test('an insert contains its rows, so only its response must be a single object', async () => {
  const body = JSON.stringify([5, 6].map((id) => ({ id, title: 'new' })));
  const answer = await write({ method: 'POST', path: '/tasks?select=count()', accept: OBJECT, body });
  expect([answer.status, answer.json]).toEqual([201, { count: 2 }]);
});

test('the count of supabase-js counts the changed rows', async () => {
  const client = createClient(world.url, KEYS.publishable);
  const { count, data, error } = await client
    .from('tasks')
    .update({ title: 'new' }, { count: 'exact' })
    .lt('id', 5)
    .select('id, projects!inner(name)')
    .eq('projects.name', 'two');
  expect([error, data?.length, count]).toEqual([null, 1, 4]);
});

describe('a PATCH that changes no row still validates its body', () => {
  // The plans differ: index scan, sequential scan, and with statistics of many rows.
  const paths = ['/papers?id=eq.-1', '/papers?id=lt.0', '/papers?label=eq.none', '/papers?id=in.()'];
  const bodies = [
    ['application/json', '{"pages":"many"}', '22P02'],
    ['application/json', '[{"pages":"many"}]', '22P02'],
    ['application/json', '{"pages":9999999999}', '22003'],
    ['application/json', '{"code":"too long"}', '22001'],
    ['application/json', '{"size":0}', '23514'],
    ['text/csv', 'data\n{', '22P02'],
  ] as const;

  test.each(bodies)('%s %j', async (type, body, code) => {
    for (const rows of [0, 2000]) {
      await admin.query(`truncate papers`);
      await admin.query(`insert into papers (id) select generate_series(1, ${rows}); analyze papers`);
      for (const path of paths)
        for (const prefer of [
          'return=minimal',
          'return=representation',
          'missing=default',
          'max-affected=1',
        ]) {
          const headers = { 'content-type': type, prefer };
          const { status, json } = await world.send(path, { method: 'PATCH', headers, body });
          expect([path, rows, prefer, status, json]).toMatchObject([path, rows, prefer, 400, { code }]);
        }
    }
  });

  test('a valid body changes nothing and succeeds', async () => {
    for (const body of ['{"pages":1,"data":{"a":1}}', '[]', '[{"pages":null}]', '{}']) {
      const { status } = await world.send('/papers?id=eq.-1', { method: 'PATCH', body });
      expect([body, status]).toEqual([body, 204]);
    }
  });
});

describe('a function that writes', () => {
  test.each(['/rpc/add_tasks?limit=1', '/rpc/add_tasks?id=eq.11', '/rpc/add_ids?limit=1'])(
    '%s: max-affected counts the rows that it returns, before filters and limits',
    async (path) => {
      const body = '{"first":11,"last":13}';
      const refused = await write({ method: 'POST', path, body, prefer: 'max-affected=2' });
      expect([refused.status, refused.json]).toMatchObject([400, { code: 'PGRST124' }]);
      expect(await titles()).toBe(UNCHANGED);
      const allowed = await write({ method: 'POST', path, body, prefer: 'max-affected=3' });
      expect([allowed.status, allowed.json]).toEqual([
        200,
        [path.includes('ids') ? 11 : { id: 11, project_id: 1, title: 'new' }],
      ]);
      expect(await titles()).toBe(`${UNCHANGED},11new,12new,13new`);
    },
  );

  test.each(['/rpc/add_tasks?limit=1', '/rpc/add_ids?limit=1', '/rpc/add_tasks?id=eq.11'])(
    '%s: runs once when its rows are counted',
    async (path) => {
      const body = '{"first":11,"last":13}';
      const { status, headers } = await write({ method: 'POST', path, body, prefer: 'count=exact' });
      expect([status, headers.get('content-range')]).toEqual(
        path.includes('limit') ? [206, '0-0/3'] : [200, '0-0/1'],
      );
      expect(await titles()).toBe(`${UNCHANGED},11new,12new,13new`);
    },
  );

  test('a function with named result columns runs once too', async () => {
    const path = '/rpc/note_lines?limit=1&select=l:line';
    const { json } = await write({ method: 'POST', path, body: '{"count":3}', prefer: 'count=exact' });
    expect(json).toEqual([{ l: 'line 1' }]);
    const { headers } = await world.send('/log?select=id', { headers: { prefer: 'count=exact' } });
    expect(headers.get('content-range')).toBe('0-2/3');
  });
});

describe('parameters that do not restrict a write', () => {
  test.each([
    ['limit=1', {}],
    ['order=id&limit=1', {}],
    ['offset=1', {}],
    ['order=id', { prefer: 'return=minimal' }],
    ['order=id', {}],
    ['', { range: '0-0' }],
    ['', { range: '1-' }],
    ['', { prefer: 'max-affected=abc' }],
    ['', { prefer: 'handling=lenient, max-affected=-1' }],
    ['', { prefer: 'max-affected=9, max-affected=' }],
    ['', { prefer: 'Max-Affected=9' }],
    ['', { prefer: 'tx=rolback' }],
  ])('%s with %j is rejected on PATCH and DELETE', async (parameters, headers) => {
    for (const method of ['PATCH', 'DELETE']) {
      const body = method === 'PATCH' ? { body: '{"title":"new"}' } : {};
      const { status, json } = await world.send(`/tasks?id=gt.0&${parameters}`, { method, headers, ...body });
      const code = 'prefer' in headers && parameters === '' ? 'PGRST122' : 'SVC109';
      expect([status, json]).toMatchObject([400, { code }]);
    }
    expect(await titles()).toBe(UNCHANGED);
  });

  test.each([
    ['order=id.desc&select=id', {}, [{ id: 4 }, { id: 3 }, { id: 2 }, { id: 1 }]],
    ['select=id,projects(id)&projects.limit=1&id=eq.1', {}, [{ id: 1, projects: { id: 1 } }]],
    ['select=id&id=eq.1', { range: '0-' }, [{ id: 1 }]],
    ['select=id&id=eq.1', { range: 'bytes=0-0' }, [{ id: 1 }]],
  ])('%s with %j applies to the answer only, and is accepted', async (parameters, headers, rows) => {
    const answer = await world.send(`/tasks?id=gt.0&${parameters}`, {
      method: 'DELETE',
      headers: { prefer: 'return=representation', ...headers },
    });
    expect([answer.status, answer.json]).toEqual([200, rows]);
  });

  test('supabase-js gets an error for a limit on a delete, and nothing is deleted', async () => {
    const client = createClient(world.url, KEYS.publishable);
    const { error } = await client.from('tasks').delete().gt('id', 0).order('id').limit(1);
    expect(error).toMatchObject({ code: 'SVC109', message: 'limit does not restrict a write' });
    expect(await titles()).toBe(UNCHANGED);
  });

  test('an invalid guard is rejected on a call, and ignored by a read', async () => {
    const headers = { prefer: 'max-affected=abc' };
    const call = await world.send('/rpc/add_ids', {
      method: 'POST',
      headers,
      body: '{"first":11,"last":12}',
    });
    expect([call.status, call.json]).toMatchObject([400, { code: 'PGRST122' }]);
    expect((await world.send('/tasks', { headers })).status).toBe(200);
    expect(await titles()).toBe(UNCHANGED);
  });
});
