// Formats other than JSON: raw values of functions, and rows as GeoJSON.
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { createRestWorld, KEYS, type RestWorld } from '../support/rest-world.ts';

const SQL = `
create table places (id int primary key, name text);
insert into places values (1, 'Rome'), (2, 'Oslo');
create function hello(name text default 'you') returns text language sql immutable
  as $$ select 'hello "' || name || '"' $$;
create function nothing() returns text language sql immutable as 'select null::text';
create function bytes() returns bytea language sql immutable as $$ select '\\x00ff0a5c'::bytea $$;
create function page() returns xml language sql immutable as $$ select xmlelement(name page, 'é') $$;
create function many() returns setof text language sql immutable as $$ values ('a'), ('b') $$;
create function first_place() returns places language sql stable as 'select * from places order by id limit 1';
grant select, insert on places to anon;
`;

/** Replaces PostGIS, which is not installed here. */
const GEOJSON = `
create function st_asgeojson(r record, geom_column text default '', digits int default 9, pretty boolean default false)
returns text language plpgsql stable as $$
begin
  return json_build_object('type', 'Feature', 'geometry', null, 'properties', row_to_json(r));
end $$;
`;

let database: TestDatabase;
let world: RestWorld;
beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({ url: database.url, sql: SQL });
});
afterAll(async () => {
  await world.close();
  await database.drop();
});

describe('a function with one value', () => {
  test.each([
    ['/rpc/hello', 'text/plain', 'hello "you"', 'text/plain; charset=utf-8'],
    ['/rpc/hello?name=Ann', 'application/octet-stream', 'hello "Ann"', 'application/octet-stream'],
    ['/rpc/nothing', 'text/plain', '', 'text/plain; charset=utf-8'],
    ['/rpc/page', 'text/xml', '<page>é</page>', 'text/xml; charset=utf-8'],
    ['/rpc/page', 'text/html, text/xml;q=0.9, */*;q=0.1', '<page>é</page>', 'text/xml; charset=utf-8'],
    ['/rpc/hello', '*/*', '"hello \\"you\\""', 'application/json; charset=utf-8'],
  ])('%s as %s', async (path, accept, text, type) => {
    const answer = await world.send(path, { headers: { accept } });
    expect([answer.status, answer.headers.get('content-type'), answer.text]).toEqual([200, type, text]);
    const posted = await world.send(path, { method: 'POST', body: '{"name":"you"}', headers: { accept } });
    if (path === '/rpc/hello') expect(posted.text).toBe(text);
  });

  test('bytes are returned unchanged', async () => {
    const response = await fetch(`${world.restUrl}/rpc/bytes`, {
      headers: { apikey: KEYS.publishable, accept: 'application/octet-stream' },
    });
    expect([...new Uint8Array(await response.arrayBuffer())]).toEqual([0, 255, 10, 92]);
  });

  test.each(['/places', '/rpc/many', '/rpc/first_place'])(
    'rows do not support this format: %s',
    async (path) => {
      for (const accept of ['text/plain', 'text/xml', 'application/octet-stream']) {
        const answer = await world.send(path, { headers: { accept } });
        expect([answer.status, answer.json]).toMatchObject([406, { code: 'PGRST107' }]);
      }
    },
  );
});

test('without PostGIS the response names the missing extension', async () => {
  const client = createClient(world.url, KEYS.publishable, { auth: { persistSession: false } });
  const { error, status } = await client.from('places').select().geojson();
  expect([status, error]).toMatchObject([
    406,
    { code: 'PGRST107', hint: expect.stringContaining('postgis') as unknown },
  ]);
});

test('with PostGIS rows are a collection of features', async () => {
  const own = await createDatabase();
  const secondWorld = await createRestWorld({
    url: own.url,
    sql: SQL + GEOJSON,
    undeclared: ['st_asgeojson'],
  });
  try {
    const client = createClient(secondWorld.url, KEYS.publishable, { auth: { persistSession: false } });
    const { data, error } = await client.from('places').select().order('id').geojson();
    expect(error).toBeNull();
    const feature = (id: number, name: string): object => ({
      type: 'Feature',
      geometry: null,
      properties: { id, name },
    });
    expect(data).toEqual({ type: 'FeatureCollection', features: [feature(1, 'Rome'), feature(2, 'Oslo')] });
    const headers = { accept: 'application/geo+json', prefer: 'return=representation' };
    const none = await secondWorld.send('/places?id=eq.9', { headers });
    expect([none.headers.get('content-type'), none.json]).toEqual([
      'application/geo+json; charset=utf-8',
      { type: 'FeatureCollection', features: [] },
    ]);
    const written = await secondWorld.send('/places', {
      method: 'POST',
      body: '{"id":3,"name":"Bonn"}',
      headers,
    });
    expect(written.json).toEqual({ type: 'FeatureCollection', features: [feature(3, 'Bonn')] });
    expect((await secondWorld.send('/rpc/first_place', { headers })).json).toMatchObject({
      features: [feature(1, 'Rome')],
    });
    expect((await secondWorld.send('/rpc/hello', { headers })).status).toBe(406);
  } finally {
    await secondWorld.close();
    await own.drop();
  }
});
