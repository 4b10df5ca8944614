// Types and operators of extensions in the schema `extensions`: requests use them without the schema name.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { createRestWorld, send, type RestWorld } from '../support/rest-world.ts';

let database: TestDatabase;
let world: RestWorld;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({
    url: database.url,
    sql: `create schema extensions; grant usage on schema extensions to anon, authenticated, service_role;
      create extension citext schema extensions;
      create table people (id integer primary key, email extensions.citext);
      grant all on people to anon, authenticated, service_role;
      insert into people values (1, 'Ann@example.com'), (2, 'ben@example.com');`,
  });
});
afterAll(async () => {
  await world.close();
  await database.drop();
});

test('a filter on citext ignores case', async () => {
  const { json } = await send(`${world.restUrl}/people?select=id&email=eq.ANN@example.com`);
  expect(json).toEqual([{ id: 1 }]);
  const listed = await send(`${world.restUrl}/people?select=id&email=in.(BEN@example.com)`);
  expect(listed.json).toEqual([{ id: 2 }]);
});
