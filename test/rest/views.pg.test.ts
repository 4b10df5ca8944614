// Exposed views of the database: read, filtered, embedded in both directions, and written where PostgreSQL supports
// it.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { createRestWorld, type RestWorld } from '../support/rest-world.ts';
import { FIXTURE } from './fixture.ts';

let database: TestDatabase;
let world: RestWorld;

const VIEWS = `
create view author_names with (security_invoker = true) as select id as author, name from authors where name <> 'Cy';
create view names_again with (security_invoker = true) as select author, name from author_names;
create view catalogue with (security_invoker = true) as
  select b.id, b.title, b.author_id as writer, a.name as writer_name from books b join authors a on a.id = b.author_id;
create view totals as select author_id, count(*) as n from books group by author_id;
create materialized view book_titles as select id, title from books;
create view unlisted as select 1 as x;
grant select, insert, update, delete on author_names, names_again, catalogue, totals, book_titles, unlisted to anon;
`;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({
    url: database.url,
    sql: FIXTURE + VIEWS,
    exposed: ['author_names', 'names_again', 'catalogue', 'totals', 'book_titles'],
    undeclared: ['unlisted', 'hidden'],
  });
});

afterAll(async () => {
  await world.close();
  await database.drop();
});

test.each([
  [
    '/author_names?order=author',
    [
      { author: 1, name: 'Ada' },
      { author: 2, name: 'Bo' },
    ],
  ],
  ['/totals?author_id=eq.1', [{ author_id: 1, n: 2 }]],
  ['/book_titles?id=eq.1', [{ id: 1, title: 'Alpha' }]],
  // From a view to a table, and from a table to a view.
  [
    '/author_names?select=name,books!books_author_id_fkey(id)&author=eq.1&books.order=id',
    [{ name: 'Ada', books: [{ id: 1 }, { id: 2 }] }],
  ],
  ['/books?select=id,author_names!author_id(name)&id=eq.1', [{ id: 1, author_names: { name: 'Ada' } }]],
  ['/books?select=id,names_again!author_id(name)&id=eq.1', [{ id: 1, names_again: { name: 'Ada' } }]],
  ['/catalogue?select=title,authors(name)&id=eq.1', [{ title: 'Alpha', authors: { name: 'Ada' } }]],
  ['/catalogue?select=title,author_names(name)&id=eq.1', [{ title: 'Alpha', author_names: { name: 'Ada' } }]],
  [
    '/book_titles?select=title,book_details(pages)&id=eq.1',
    [{ title: 'Alpha', book_details: { pages: 100 } }],
  ],
  // The name of a column still refers to the table.
  ['/books?select=id,author_id(name)&id=eq.1', [{ id: 1, author_id: { name: 'Ada' } }]],
])('%s', async (path, expected) => {
  const answer = await world.send(path);
  expect(answer.json, answer.text).toEqual(expected);
});

test('an updatable view can be written, also by its inferred key', async () => {
  const headers = { prefer: 'return=representation, tx=rollback' };
  const changed = await world.send('/author_names?author=eq.1', {
    method: 'PATCH',
    body: '{"name":"A"}',
    headers,
  });
  expect(changed.json).toEqual([{ author: 1, name: 'A' }]);
  const put = await world.send('/author_names?author=eq.1', {
    method: 'PUT',
    body: '{"author":1,"name":"B"}',
    headers,
  });
  expect(put).toMatchObject({ status: 200, json: [{ author: 1, name: 'B' }] });
  expect((await world.send('/totals', { method: 'OPTIONS' })).headers.get('allow')).toBe('OPTIONS,GET,HEAD');
});

test('undeclared and unexposed relations are not served', async () => {
  expect((await world.send('/unlisted')).status).toBe(404);
});
