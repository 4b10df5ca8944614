// While `renamed_from` is in the file, requests may use the former name, and the response uses the names of the
// request.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

const YAML = `version: 1
project: { name: renamed }
tables:
  people:
    renamed_from: authors
    rls: []
    fields:
      - { name: id, type: integer, primary_key: true, renamed_from: number }
      - { name: full_name, type: text, renamed_from: name }
      - { name: data, type: jsonb, renamed_from: extra }
      - { name: rank, type: integer, default: 7 }
  articles:
    renamed_from: posts
    rls: []
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: headline, type: text, renamed_from: title }
      - { name: words, type: integer, default: 5, renamed_from: length }
      - { name: writer_id, type: integer, renamed_from: author_id, foreign_key: { references: people.id } }
      - { name: editor_id, type: integer, foreign_key: { references: people.id } }
views:
  long_articles:
    renamed_from: long_posts
    query: select id, headline from articles where words > 3
rpc:
  find_articles:
    renamed_from: find_posts
    language: sql
    volatility: stable
    args:
      - { name: words_in, type: text, required: true, renamed_from: query }
      - { name: ids, type: "integer[]", default: { sql: "null" }, renamed_from: numbers }
    returns: { type: setof articles }
    body: select * from articles where headline ilike '%' || words_in || '%' and (ids is null or id = any (ids))
`;

let world: BackendWorld;

beforeAll(async () => {
  world = await startBackendWorld(YAML);
  await send('POST', 'people', [
    { id: 1, full_name: 'Ada', data: { born: 1815 } },
    { id: 2, full_name: 'Bo', data: null },
  ]);
  await send('POST', 'articles', { id: 1, headline: 'First', writer_id: 1, editor_id: 2 });
});
afterAll(() => world.close());

type Sent = { readonly status: number; readonly body: unknown };

async function send(
  method: string,
  path: string,
  body?: unknown,
  prefer = 'return=representation',
): Promise<Sent> {
  const answer = await fetch(`${world.url}/rest/v1/${path}`, {
    method,
    headers: {
      apikey: world.keys.secret,
      'content-type': 'application/json',
      prefer,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, body: text === '' ? null : JSON.parse(text) };
}

describe('reads', () => {
  test.each<[string, unknown]>([
    ['posts?select=id,title', [{ id: 1, title: 'First' }]],
    ['posts?select=title,headline', [{ title: 'First', headline: 'First' }]],
    ['articles?select=name:title', [{ name: 'First' }]],
    ['articles?select=id,length&title=eq.First', [{ id: 1, length: 5 }]],
    ['articles?select=id&or=(title.eq.None,length.gt.4)&order=title.desc', [{ id: 1 }]],
    ['articles?select=length.sum(),title&order=title', [{ sum: 5, title: 'First' }]],
    ['articles?select=title::text,n:count()&order=title', [{ title: 'First', n: 1 }]],
    ['authors?select=extra->born,extra->>born&extra->>born=not.is.null', [{ born: '1815' }]],
    ['posts', [{ id: 1, headline: 'First', words: 5, writer_id: 1, editor_id: 2 }]],
    ['long_posts?select=id', [{ id: 1 }]],
    // With an offset the page is built separately from its embeds.
    ['authors?select=name,books:posts!author_id(title)&order=name&offset=1', [{ name: 'Bo', books: [] }]],
  ])('%s', async (path, body) => expect(await send('GET', path)).toEqual({ status: 200, body }));
});

describe('embeds', () => {
  test.each<[string, unknown]>([
    ['posts?select=author_id(name)', [{ author_id: { name: 'Ada' } }]],
    ['articles?select=authors!author_id(name)', [{ authors: { name: 'Ada' } }]],
    ['articles?select=authors!posts_author_id_fkey(name)', [{ authors: { name: 'Ada' } }]],
    ['articles?select=people!posts_editor_id_fkey(name)', [{ people: { name: 'Bo' } }]],
    ['articles?select=posts_author_id_fkey(full_name)', [{ posts_author_id_fkey: { full_name: 'Ada' } }]],
    [
      'authors?select=name,posts!author_id(title)&posts.title=eq.First&order=name',
      [
        { name: 'Ada', posts: [{ title: 'First' }] },
        { name: 'Bo', posts: [] },
      ],
    ],
    ['authors?select=name,posts!author_id!inner()&posts.length=eq.5', [{ name: 'Ada' }]],
    ['articles?select=id,authors!author_id(number)&order=authors(name)', [{ id: 1, authors: { number: 1 } }]],
    ['articles?select=...authors!author_id(name)', [{ name: 'Ada' }]],
  ])('%s', async (path, body) => expect(await send('GET', path)).toEqual({ status: 200, body }));
});

describe('writes', () => {
  const rollback = 'tx=rollback,return=representation';

  test.each<[string, string, unknown, unknown, string?]>([
    ['POST', 'posts?select=title,length', { id: 2, title: 'New' }, [{ title: 'New', length: 5 }]],
    ['POST', 'posts?select=title,words', [{ id: 2, title: 'New', length: 9 }], [{ title: 'New', words: 9 }]],
    ['POST', 'posts?select=title&columns=id,title', [{ id: 2, title: 'New', none: 1 }], [{ title: 'New' }]],
    [
      'POST',
      'posts?select=id,length&columns=id,length',
      [{ id: 2 }],
      [{ id: 2, length: 5 }],
      'missing=default',
    ],
    [
      'POST',
      'authors?select=number,name&on_conflict=number',
      { number: 1, name: 'Ann' },
      [{ number: 1, name: 'Ann' }],
      'resolution=merge-duplicates',
    ],
    ['PATCH', 'posts?title=eq.First&select=title', { title: 'Changed' }, [{ title: 'Changed' }]],
    ['PUT', 'authors?number=eq.1&select=name', { number: 1, name: 'Ann' }, [{ name: 'Ann' }]],
    ['DELETE', 'posts?title=eq.First&select=length', undefined, [{ length: 5 }]],
  ])('%s %s', async (method, path, sent, body, prefer = '') => {
    const answer = await send(method, path, sent, `${rollback},${prefer}`);
    expect(answer.body).toEqual(body);
    expect(answer.status).toBeLessThan(300);
  });

  test('both names of a column in one row are refused', async () => {
    const answer = await send('POST', 'posts', { id: 3, title: 'a', headline: 'b' });
    expect(answer).toEqual({
      status: 400,
      body: {
        code: 'PGRST204',
        message: "'headline' and 'title' are the same column of 'articles'",
        details: null,
        hint: 'One is the earlier name of the other (renamed_from in svc.yaml): send one of them.',
      },
    });
  });
});

describe('calls', () => {
  test.each<[string, string, unknown?]>([
    ['GET', 'rpc/find_posts?query=Fir&select=title'],
    ['GET', 'rpc/find_articles?words_in=Fir&title=eq.First&select=title'],
    ['POST', 'rpc/find_posts?select=title', { query: 'Fir' }],
    ['POST', 'rpc/find_posts?select=title', { query: 'Fir', numbers: [1, 2] }],
    ['POST', 'rpc/find_articles?select=title', { words_in: 'Fir', numbers: '{1}' }],
  ])('%s %s %j', async (method, path, sent) => {
    expect(await send(method, path, sent)).toEqual({ status: 200, body: [{ title: 'First' }] });
  });

  test('both names of an argument are refused', async () => {
    const answer = await send('POST', 'rpc/find_posts', { query: 'a', words_in: 'b' });
    expect(answer).toMatchObject({ status: 400, body: { code: 'PGRST202' } });
  });
});
