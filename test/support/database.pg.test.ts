import pg from 'pg';
import { expect, inject, test } from 'vitest';
import { createDatabase, templateDatabase } from './database.ts';

async function query(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

const exists = async (name: string) =>
  (await query(inject('postgresUrl'), `select from pg_database where datname = '${name}'`)).length === 1;

test('a database is empty, and gone after drop', async () => {
  const database = await createDatabase();
  expect(
    await query(database.url, `select from pg_class where relnamespace = 'public'::regnamespace`),
  ).toEqual([]);
  await database.drop();
  expect(await exists(database.name)).toBe(false);
});

test('drop ends the connections that are still open', async () => {
  const database = await createDatabase();
  const client = new pg.Client({ connectionString: database.url });
  const broken = new Promise((resolve) => client.on('error', resolve));
  await client.connect();
  await database.drop();
  await broken;
  expect(await exists(database.name)).toBe(false);
});

test('concurrent requests build a template once, and clones do not share rows', async () => {
  let built = 0;
  const build = async (url: string) => {
    built += 1;
    await query(url, 'create table public.note (body text)');
  };
  const [template, same] = await Promise.all([
    templateDatabase('notes', build),
    templateDatabase('notes', build),
  ]);
  expect(same).toEqual(template);
  expect(built).toBe(1);
  const [one, two] = await Promise.all([createDatabase({ template }), createDatabase({ template })]);
  await query(one.url, `insert into public.note values ('in one')`);
  expect(await query(two.url, 'select body from public.note')).toEqual([]);
  await Promise.all([one.drop(), two.drop()]);
});

test('a template whose building failed is built again', async () => {
  const failing = templateDatabase('fragile', async (url) => {
    await query(url, 'create table public.half ()');
    throw new Error('half-way');
  });
  await expect(failing).rejects.toThrow('half-way');
  const template = await templateDatabase('fragile', async (url) => {
    await query(url, 'create table public.whole ()');
  });
  const database = await createDatabase({ template });
  expect(
    await query(database.url, `select relname from pg_class where relnamespace = 'public'::regnamespace`),
  ).toEqual([{ relname: 'whole' }]);
  await database.drop();
});
