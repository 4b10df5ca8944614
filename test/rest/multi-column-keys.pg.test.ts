// Foreign keys over several columns are ordinary relationships.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { createRestWorld, send, type RestWorld } from '../support/rest-world.ts';

let database: TestDatabase;
let world: RestWorld;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({
    url: database.url,
    sql: `create table regions (country text, code integer, name text, primary key (country, code));
      create table shops (id integer primary key, country text, code integer,
        foreign key (country, code) references regions);
      grant all on regions, shops to anon, authenticated, service_role;
      insert into regions values ('ch', 1, 'Zurich'), ('de', 1, 'Bayern');
      insert into shops values (1, 'ch', 1), (2, 'ch', null);`,
  });
});
afterAll(async () => {
  await world.close();
  await database.drop();
});

test('can be embedded from either side', async () => {
  const shops = await send(`${world.restUrl}/shops?select=id,regions(name)&order=id`);
  expect(shops.json).toEqual([
    { id: 1, regions: { name: 'Zurich' } },
    { id: 2, regions: null },
  ]);
  const regions = await send(`${world.restUrl}/regions?select=name,shops(id)&order=name.desc`);
  expect(regions.json).toEqual([
    { name: 'Zurich', shops: [{ id: 1 }] },
    { name: 'Bayern', shops: [] },
  ]);
});
