// The parity checklist: one row per behaviour that clients of this kind of API rely on. A write rolls back (`Prefer:
// tx=rollback`) unless a row specifies otherwise, so rows are independent.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FIXTURE, WORLD } from '../fixture.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { createRestWorld, KEYS, type Answer, type RestWorld, type Sent } from '../../support/rest-world.ts';

let database: TestDatabase;
let world: RestWorld;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({ url: database.url, ...WORLD, sql: FIXTURE, dev: true });
});

afterAll(async () => {
  await world.close();
  await database.drop();
});

type Case = {
  readonly behaviour?: string;
  /** Method and path; a path alone means GET. */
  readonly request: string;
  readonly prefer?: string;
  readonly accept?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly user?: string;
  readonly key?: string | null;
  readonly commit?: true;
  readonly status?: number;
  readonly json?: unknown;
  /** Values of the first column, or of `id` if rows have several columns. */
  readonly ids?: readonly unknown[];
  readonly rows?: number;
  readonly text?: string;
  readonly code?: string;
  readonly error?: Readonly<Record<string, unknown>>;
  readonly range?: string;
  readonly has?: Readonly<Record<string, string | RegExp | null>>;
};

const U1 = '00000000-0000-0000-0000-000000000001';
const SINGULAR = 'application/vnd.pgrst.object+json';
const REPRESENTATION = 'return=representation';

async function run(testCase: Case): Promise<Answer> {
  const [method, path] = testCase.request.startsWith('/')
    ? ['GET', testCase.request]
    : [
        testCase.request.slice(0, testCase.request.indexOf(' ')),
        testCase.request.slice(testCase.request.indexOf(' ') + 1),
      ];
  const isWrite = ['POST', 'PATCH', 'PUT', 'DELETE'].includes(method);
  const prefer = [testCase.prefer, isWrite && !testCase.commit ? 'tx=rollback' : undefined]
    .filter(Boolean)
    .join(', ');
  const init: Sent = {
    method,
    headers: {
      ...(prefer ? { prefer } : {}),
      ...(testCase.accept ? { accept: testCase.accept } : {}),
      ...testCase.headers,
    },
    ...(testCase.body === undefined
      ? {}
      : { body: typeof testCase.body === 'string' ? testCase.body : JSON.stringify(testCase.body) }),
    ...(testCase.user ? { token: await world.token({ sub: testCase.user }) } : {}),
    ...(testCase.key === undefined ? {} : { apikey: testCase.key }),
  };
  return await world.send(path, init);
}

function check(testCase: Case, answer: Answer): void {
  const shown = `${testCase.request} -> ${answer.status} ${answer.text.slice(0, 600)}`;
  expect(answer.status, shown).toBe(testCase.status ?? 200);
  if (testCase.json !== undefined) expect(answer.json, shown).toEqual(testCase.json);
  if (testCase.text !== undefined) expect(answer.text).toBe(testCase.text);
  if (testCase.rows !== undefined) expect((answer.json as unknown[]).length, shown).toBe(testCase.rows);
  if (testCase.ids !== undefined) {
    const rows = answer.json as ReadonlyArray<Record<string, unknown>>;
    expect(
      rows.map((row) => ('id' in row ? row['id'] : Object.values(row)[0])),
      shown,
    ).toEqual(testCase.ids);
  }
  if (testCase.code !== undefined) {
    const error = answer.json as Record<string, unknown>;
    expect(error['code'], shown).toBe(testCase.code);
    expect(Object.keys(error).toSorted()).toEqual(['code', 'details', 'hint', 'message']);
    expect(typeof error['hint'], 'every error has a hint').toBe('string');
    expect(answer.headers.get('proxy-status')).toBe(`svc; error=${testCase.code}`);
  }
  if (testCase.error !== undefined) expect(answer.json, shown).toMatchObject(testCase.error);
  if (testCase.range !== undefined) expect(answer.headers.get('content-range'), shown).toBe(testCase.range);
  for (const [name, value] of Object.entries(testCase.has ?? {})) {
    const actual = answer.headers.get(name);
    if (value instanceof RegExp) expect(actual ?? '', name).toMatch(value);
    else expect(actual, name).toBe(value);
  }
}

function caseName({ behaviour, request, prefer, accept, headers, body }: Case): string {
  const parts = [
    behaviour && `${behaviour}:`,
    request,
    prefer,
    accept,
    headers && JSON.stringify(headers),
    body !== undefined && JSON.stringify(body),
  ];
  return parts.filter(Boolean).join(' ').slice(0, 140);
}

function table(title: string, cases: readonly Case[]): void {
  describe(title, () => {
    test.each(cases.map((testCase) => [caseName(testCase), testCase] as const))('%s', async (_, testCase) =>
      check(testCase, await run(testCase)),
    );
  });
}

table('routing', [
  {
    request: '/genres?order=id',
    rows: 3,
    range: '0-2/*',
    has: { 'content-type': 'application/json; charset=utf-8' },
  },
  {
    request: '/nope',
    status: 404,
    code: 'PGRST205',
    error: { message: "Could not find the table 'public.nope' in the schema cache" },
  },
  {
    request: '/bookss',
    status: 404,
    code: 'PGRST205',
    error: { hint: "Perhaps you meant the table 'public.books'" },
  },
  {
    request: '/book',
    status: 404,
    code: 'PGRST205',
    error: { hint: "Perhaps you meant the table 'public.books'" },
  },
  { request: '/a/b/c', status: 404, code: 'PGRST125' },
  { request: '/hidden', status: 404, code: 'PGRST205' },
  {
    request: 'DELETE /rpc/add',
    status: 405,
    code: 'PGRST101',
    error: { message: 'Cannot use the DELETE method on RPC' },
  },
  { request: 'OPTIONS /books', has: { allow: 'OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE' } },
  { request: 'OPTIONS /nopk', has: { allow: 'OPTIONS,GET,HEAD,POST,PATCH,DELETE' } },
  { request: 'OPTIONS /rpc/bump', has: { allow: 'OPTIONS,POST' } },
  { request: 'OPTIONS /rpc/add', has: { allow: 'OPTIONS,GET,HEAD,POST' } },
  { request: 'OPTIONS /nope', status: 404 },
  {
    request: '/books',
    headers: { 'accept-profile': 'public' },
    has: { 'content-profile': 'public' },
  },
  { request: '/books', has: { 'content-profile': null } },
  {
    request: '/books',
    headers: { 'accept-profile': 'x' },
    status: 406,
    code: 'PGRST106',
    error: { hint: 'Only the following schemas are exposed: public' },
  },
  {
    request: 'POST /accounts',
    headers: { 'content-profile': 'x' },
    body: { email: 'b' },
    status: 406,
    code: 'PGRST106',
  },
  {
    request: 'POST /accounts',
    headers: { 'accept-profile': 'x' },
    body: { email: 'b' },
    status: 201,
  },
  { request: '/books', has: { vary: /Accept, Prefer, Range/ } },
  {
    request: '/books?title=eq.x&id=eq.1',
    has: { 'content-location': '/books?id=eq.1&title=eq.x' },
  },
  {
    request: 'HEAD /books',
    text: '',
    has: {
      'content-length': null,
      'content-type': 'application/json; charset=utf-8',
      'content-range': '0-3/*',
    },
  },
  { request: '/Order%20Items?Unit%20Price=lt.2&select="näme"', json: [{ näme: 'ä' }] },
  { request: '/Order%20Items?select=n%C3%A4me&n%C3%A4me=eq.b', json: [{ näme: 'b' }] },
  { request: '/genres', headers: { authorization: `Bearer ${KEYS.publishable}` }, rows: 3 },
  { request: '/genres', key: null, status: 401, code: 'SVC100' },
  {
    request: '/genres',
    key: 'svc_publishable_wrongwrongwrongwrongwrong',
    status: 401,
    code: 'SVC100',
  },
  { request: '/secrets', key: KEYS.secret, json: [{ id: 1 }] },
  { behaviour: 'trailing slash', request: '/genres/?order=id', rows: 3 },
  { behaviour: 'apikey in the query', request: `/genres?apikey=${KEYS.publishable}`, key: null, rows: 3 },
]);

test('the root describes the tables and functions of the caller', async () => {
  const answer = await world.send('/', { headers: { accept: 'application/openapi+json' } });
  expect(answer.status, answer.text).toBe(200);
  expect(answer.headers.get('content-type')).toBe('application/openapi+json; charset=utf-8');
  const document = answer.json as { swagger: string; paths: Record<string, Record<string, unknown>> };
  expect(document.swagger).toBe('2.0');
  expect(Object.keys(document.paths['/books'] ?? {}).toSorted()).toEqual(['delete', 'get', 'patch', 'post']);
  expect(Object.keys(document.paths['/rpc/add'] ?? {})).toEqual(['get', 'post']);
  expect(Object.keys(document.paths['/rpc/bump'] ?? {})).toEqual(['post']);
  // Not readable by anon, and not declared.
  expect(document.paths['/secrets']).toBeUndefined();
  expect(document.paths['/hidden']).toBeUndefined();
  expect(Object.keys(document.paths['/inbox'] ?? {})).not.toContain('get');
  const secret = await world.send('/', { apikey: KEYS.secret });
  expect(Object.keys((secret.json as typeof document).paths)).toContain('/secrets');
  expect((await world.send('/', { headers: { accept: 'text/csv' } })).status).toBe(406);
});

test('an unknown method is rejected', async () => {
  const answer = await world.send('/books', { method: 'SEARCH' }).catch(() => undefined);
  // The server never routes some methods to the API; both outcomes are errors.
  expect(answer?.status ?? 405).toBeGreaterThanOrEqual(400);
});

table('select', [
  { request: '/books?select=id,title&id=eq.1', json: [{ id: 1, title: 'Alpha' }] },
  { request: '/books?select=n:title&id=eq.1', json: [{ n: 'Alpha' }] },
  { request: '/books?select=id::text&id=eq.1', json: [{ id: '1' }] },
  { request: '/books?select=x:id::text&id=eq.1', json: [{ x: '1' }] },
  { request: '/books?select=id::nope', status: 400, code: '42704' },
  {
    request: '/books?select=zzz',
    status: 400,
    code: '42703',
    error: { message: 'column books.zzz does not exist' },
  },
  { request: '/genres?select=*,t:name&id=eq.1', json: [{ id: 1, name: 'sf', t: 'sf' }] },
  { request: '/genres?select=&id=eq.1', json: [{ id: 1, name: 'sf' }] },
  { request: '/authors?select=bio->lang&id=eq.1', json: [{ lang: 'en' }] },
  { request: '/authors?select=l:bio->>lang&id=eq.1', json: [{ l: 'en' }] },
  { request: '/authors?select=bio->tags->0&id=eq.1', json: [{ tags: 'x' }] },
  { request: '/authors?select=bio->tags->>-1&id=eq.1', json: [{ tags: 'y' }] },
  { request: '/authors?select=bio->>n::int&id=eq.1', json: [{ n: 5 }] },
  { request: '/books?select=tags->0&id=eq.1', json: [{ tags: 'a' }] },
  { request: '/books?select="title"&"id"=eq.1', json: [{ title: 'Alpha' }] },
  { request: '/books?select=id,%20title%20&id=eq.1', json: [{ id: 1, title: 'Alpha' }] },
  { request: '/authors?select=bio->>a->b', status: 404, code: '42883' },
  { request: '/books?select=id)', status: 400, code: 'PGRST100' },
  { request: '/books?select=id,,title', status: 400, code: 'PGRST100' },
  {
    request: '/books?select=authors!author_id(bio->tags->0)&id=eq.1',
    json: [{ authors: { tags: 'x' } }],
  },
  { behaviour: 'multi-word type', request: '/books?select=id::double precision&id=eq.1', json: [{ id: 1 }] },
  {
    behaviour: 'computed column',
    request: '/authors?select=id,best_book(title)&id=eq.1',
    json: [{ id: 1, best_book: { title: 'Beta, vol. 1' } }],
  },
]);

table('filters', [
  { request: '/books?id=eq.2&select=id', ids: [2] },
  { request: '/books?id=neq.1&select=id&order=id', ids: [2, 3, 4] },
  { request: '/books?price=gt.10&select=id&order=id', ids: [2, 3] },
  { request: '/books?price=gte.10&select=id&order=id', ids: [1, 2, 3] },
  { request: '/books?price=lt.20&select=id&order=id', ids: [1] },
  { request: '/books?price=lte.20&select=id&order=id', ids: [1, 2] },
  // The fourth title of the fixture ends in a quote, so Beta and Delta do not end in "a".
  { request: '/books?title=like.*a&select=id&order=id', ids: [1, 3] },
  { request: '/books?title=like.%25a&select=id&order=id', ids: [1, 3] },
  { request: '/books?title=ilike.ALP*&select=id', ids: [1] },
  { request: '/books?title=match.^G&select=id', ids: [3] },
  { request: '/books?title=imatch.^g&select=id', ids: [3] },
  { request: '/books?id=in.(1,3)&select=id&order=id', ids: [1, 3] },
  { request: '/books?title=in.("Beta, vol. 1",Alpha)&select=id&order=id', ids: [1, 2] },
  { request: '/books?title=in.("Delta \\"x\\"")&select=id', ids: [4] },
  { request: '/books?id=in.()', json: [] },
  { request: '/books?id=not.in.()&select=id&order=id', ids: [1, 2, 3, 4] },
  { request: '/books?author_id=is.null&select=id', ids: [4] },
  { request: '/books?author_id=not.is.null&select=id&order=id', ids: [1, 2, 3] },
  { request: '/books?author_id=is.not_null&select=id&order=id', ids: [1, 2, 3] },
  { request: '/books?author_id=is.NULL&select=id', ids: [4] },
  { request: '/books?author_id=is.zero', status: 400, code: 'PGRST100' },
  { request: '/books?author_id=isdistinct.1&select=id&order=id', ids: [3, 4] },
  { request: '/books?author_id=not.isdistinct.1&select=id&order=id', ids: [1, 2] },
  { request: '/books?tags=cs.{a}&select=id', ids: [1] },
  { request: '/books?tags=cd.{b}&select=id&order=id', ids: [2, 3] },
  { request: '/books?tags=ov.{a,z}&select=id', ids: [1] },
  { request: '/authors?bio=cs.{"lang":"en"}&select=id', ids: [1] },
  { request: '/books?sale=cs.[2,3)&select=id', ids: [1] },
  { request: '/books?sale=sl.[5,6)&select=id', ids: [1] },
  { request: '/books?sale=sr.[1,5)&select=id', ids: [2] },
  { request: '/books?sale=nxr.[1,5)&select=id', ids: [1] },
  { request: '/books?sale=nxl.[5,6)&select=id', ids: [2] },
  { request: '/books?sale=adj.[5,6)&select=id', ids: [1] },
  { request: '/books?sale=ov.[4,6)&select=id&order=id', ids: [1, 2] },
  { request: '/docs?body=fts.cat&select=id', ids: [1] },
  { request: '/docs?vector=fts.cat&select=id', ids: [1] },
  { request: '/docs?body=fts(english).cats&select=id', ids: [1] },
  { request: '/docs?body=fts(simple).cat&select=id', ids: [] },
  { request: '/docs?body=plfts.fat cats&select=id', ids: [1] },
  { request: '/docs?body=phfts.fat cats&select=id', ids: [1] },
  { request: '/docs?body=wfts.fat -rat&select=id', ids: [1] },
  { request: '/books?id=not.eq.1&select=id&order=id', ids: [2, 3, 4] },
  { request: '/books?id=eq(any).{1,4}&select=id&order=id', ids: [1, 4] },
  { request: '/books?title=like(any).{A*,G*}&select=id&order=id', ids: [1, 3] },
  { request: '/books?title=ilike(all).{*a*,*l*}&select=id&order=id', ids: [1, 2, 4] },
  { request: '/authors?bio->>lang=eq.fr&select=id', ids: [2] },
  { request: '/authors?bio->n=gt.5&select=id', ids: [2] },
  { request: '/books?id=gt.1&id=lt.4&select=id&order=id', ids: [2, 3] },
  { request: '/books?id=eq.abc', status: 400, code: '22P02' },
  {
    request: '/books?id=1',
    status: 400,
    code: 'PGRST100',
    error: { message: '"failed to parse filter (1)" (line 1, column 1)' },
  },
  { request: '/books?id=zz.1', status: 400, code: 'PGRST100' },
  { request: '/books?title=eq.Beta,%20vol.%201&select=id', ids: [2] },
  { request: '/books?title=eq.Beta,+vol.+1&select=id', ids: [2] },
  { request: '/nopk?b=eq.', json: [] },
  { request: "/books?title=eq.'; drop table books;--", json: [] },
  { request: '/Order%20Items?"order"=eq.1&select="order"', json: [{ order: 1 }] },
  { request: '/books?id=like.1', status: 404, code: '42883' },
  { behaviour: 'filter with a quote in in()', request: '/books?title=in.(")', json: [] },
  { behaviour: 'empty text in in()', request: '/nopk?b=in.("",x)&select=a', json: [{ a: '1' }] },
  { behaviour: 'unknown parameter', request: '/books?utm_source=x', status: 400, code: 'PGRST100' },
  { behaviour: 'parameter without value', request: '/genres?select&order=id', rows: 3 },
]);

table('logic', [
  { request: '/books?or=(id.eq.1,id.eq.3)&select=id&order=id', ids: [1, 3] },
  { request: '/books?not.or=(id.eq.1,id.eq.3)&select=id&order=id', ids: [2, 4] },
  { request: '/books?and=(id.gt.1,id.lt.4)&select=id&order=id', ids: [2, 3] },
  {
    request: '/books?or=(id.eq.1,and(id.gt.2,not.or(id.eq.4)))&select=id&order=id',
    ids: [1, 3],
  },
  { request: '/books?or=(title.eq."Beta, vol. 1",id.eq.4)&select=id&order=id', ids: [2, 4] },
  { request: '/books?or=(id.in.(1,2),id.eq.4)&select=id&order=id', ids: [1, 2, 4] },
  { request: '/books?or=(tags.cs.{a,b},id.eq.4)&select=id&order=id', ids: [1, 4] },
  { request: '/books?or=(id.not.gt.1,author_id.is.null)&select=id&order=id', ids: [1, 4] },
  { request: '/docs?or=(body.fts(english).cats,id.eq.2)&select=id&order=id', ids: [1, 2] },
  { request: '/books?or=(id.eq(any).{1,2},id.eq.4)&select=id&order=id', ids: [1, 2, 4] },
  { request: '/books?or=()', status: 400, code: 'PGRST100' },
  { request: '/books?or=(id.eq.1,id.eq.2)&or=(id.eq.2,id.eq.3)&select=id', ids: [2] },
  { request: '/books?or=(id.eq.1,id.eq.2)&title=like.A*&select=id', ids: [1] },
  { request: '/books?or=( id.eq.1 , id.eq.2 )&select=id&order=id', ids: [1, 2] },
  { request: '/authors?or=(bio->>lang.eq.fr,id.eq.3)&select=id&order=id', ids: [2, 3] },
  { behaviour: 'surplus parenthesis', request: '/books?and=(id.eq.1))&select=id', ids: [1] },
]);

table('order', [
  { request: '/books?order=id.desc&select=id', ids: [4, 3, 2, 1] },
  { request: '/books?order=author_id.desc.nullslast,id&select=id', ids: [3, 1, 2, 4] },
  { request: '/books?order=author_id.nullsfirst,id&select=id', ids: [4, 1, 2, 3] },
  { request: '/authors?order=bio->>lang&select=id', ids: [1, 2, 3] },
  { request: '/books?order=id.foo', status: 400, code: 'PGRST100' },
  {
    request: '/books?select=id,authors!author_id(name)&order=authors(name).desc.nullslast,id',
    ids: [3, 1, 2, 4],
  },
  {
    request: '/books?select=id,w:authors!author_id(name)&order=w(name).desc.nullslast,id',
    ids: [3, 1, 2, 4],
  },
  {
    request: '/authors?select=id,books!author_id(id)&order=books(id)',
    status: 400,
    code: 'PGRST118',
    error: {
      message: "A related order on 'books' is not possible",
      details: "'authors' and 'books' do not form a many-to-one or one-to-one relationship",
    },
  },
  { request: '/books?order=authors(name)', status: 400, code: 'PGRST108' },
  {
    request: '/authors?select=id,books!author_id(id)&books.order=id.desc&id=eq.1',
    json: [{ id: 1, books: [{ id: 2 }, { id: 1 }] }],
  },
  {
    behaviour: 'by an unselected column of the embed',
    request: '/books?select=id,authors!author_id(name)&order=authors(born).desc.nullslast,id',
    ids: [3, 1, 2, 4],
  },
]);

table('paging', [
  { request: '/items', rows: 20, range: '0-19/*', has: { warning: /default limit 20 applied/ } },
  { behaviour: 'not truncated', request: '/genres', rows: 3, has: { warning: null } },
  { behaviour: 'exactly twenty', request: '/items?id=lte.20', rows: 20, has: { warning: null } },
  {
    request: '/items?order=id&limit=3&offset=2',
    ids: [3, 4, 5],
    range: '2-4/*',
    has: { warning: null },
  },
  { request: '/items?limit=1000', rows: 57 },
  { behaviour: 'beyond literals', request: '/items?limit=100000', rows: 57 },
  { request: '/items?limit=0', json: [], range: '*/*' },
  {
    request: '/items?limit=-1',
    status: 416,
    code: 'PGRST103',
    error: { details: 'Limit should be greater than or equal to zero.' },
  },
  { request: '/items?offset=-4', rows: 20, range: '0-19/*' },
  { request: '/items?offset=50', rows: 7, range: '50-56/*' },
  { request: '/items?offset=10', rows: 20, range: '10-29/*', has: { warning: /default limit/ } },
  { request: '/items', headers: { range: '0-29' }, rows: 30, range: '0-29/*' },
  { request: '/items', headers: { range: '40-' }, rows: 17 },
  { request: '/items', headers: { range: '5-1' }, status: 416, code: 'PGRST103' },
  { request: '/items?limit=3', headers: { range: '0-1' }, rows: 2 },
  { request: 'HEAD /items', headers: { range: '0-1' }, range: '0-19/*' },
  { request: '/items', headers: { range: 'bytes=0-1' }, rows: 20 },
  { request: '/items?offset=100', json: [], range: '*/*' },
  {
    request: '/items?offset=100',
    prefer: 'count=exact',
    status: 416,
    code: 'PGRST103',
    range: '*/57',
    error: { details: 'An offset of 100 was requested, but there are only 57 rows.' },
  },
  { request: '/items?offset=57', prefer: 'count=exact', status: 206, json: [], range: '*/57' },
  {
    request: '/authors?select=id,books!author_id(id)&books.limit=1&books.order=id&id=eq.1',
    json: [{ id: 1, books: [{ id: 1 }] }],
  },
  {
    request: '/books?select=id,authors!author_id(id)&authors.offset=1&id=eq.1',
    json: [{ id: 1, authors: null }],
  },
  { behaviour: 'limit that is not a number', request: '/items?limit=abc', status: 400, code: 'PGRST100' },
  {
    behaviour: 'offset with embeds',
    request: '/books?select=id,authors!author_id(name)&order=id&offset=1&limit=2',
    json: [
      { id: 2, authors: { name: 'Ada' } },
      { id: 3, authors: { name: 'Bo' } },
    ],
  },
  {
    behaviour: 'offset with inner embeds',
    request: '/books?select=id,book_details!inner(pages)&order=id&offset=1',
    json: [{ id: 3, book_details: { pages: 300 } }],
  },
]);

table('counting', [
  {
    request: '/items',
    prefer: 'count=exact',
    status: 206,
    range: '0-19/57',
    has: { 'preference-applied': 'count=exact' },
  },
  { request: '/items?limit=100', prefer: 'count=exact', status: 200, range: '0-56/57' },
  { request: 'HEAD /items', prefer: 'count=exact', status: 206, range: '0-19/57', text: '' },
  { request: '/items?id=eq.0', prefer: 'count=exact', status: 200, range: '*/0' },
  {
    request: '/books?select=id,book_details!inner(pages)',
    prefer: 'count=exact',
    range: '0-1/2',
  },
  {
    request: '/books?select=id,book_details()&book_details=is.null',
    prefer: 'count=exact',
    range: '0-1/2',
  },
  { request: '/items', prefer: 'count=planned', status: 206, range: '0-19/57' },
  { request: '/items', prefer: 'count=estimated', status: 206, range: '0-19/57' },
  { request: '/items?id=gt.50', prefer: 'count=estimated', range: '0-6/7' },
  {
    request: 'PATCH /items?id=lt.4',
    body: '{}',
    prefer: 'count=exact',
    status: 204,
    range: '*/0',
  },
  {
    request: 'PATCH /genres?id=lt.4',
    body: { name: 'x' },
    prefer: 'count=exact',
    status: 204,
    range: '0-2/3',
  },
  { request: 'DELETE /items?id=lt.4', prefer: 'count=exact', status: 204, range: '*/3' },
  {
    request: 'POST /items',
    body: [{ id: 100 }, { id: 101 }],
    prefer: 'count=exact',
    status: 201,
    range: '*/2',
  },
  { request: '/rpc/add?a=1', prefer: 'count=exact', json: 11, range: '0-0/1' },
  { request: '/books?select=author_id,count()', prefer: 'count=exact', rows: 3, range: '0-2/3' },
  {
    behaviour: 'limit 0',
    request: '/items?limit=0',
    prefer: 'count=exact',
    status: 206,
    json: [],
    range: '*/57',
  },
  {
    behaviour: 'offset page',
    request: '/items?limit=10&offset=50',
    prefer: 'count=exact',
    status: 206,
    rows: 7,
    range: '50-56/57',
  },
  { behaviour: 'rls is not estimated', request: '/notes', prefer: 'count=estimated', json: [], range: '*/0' },
]);

table('embeds', [
  {
    request: '/books?select=id,authors!author_id(name)&id=eq.1',
    json: [{ id: 1, authors: { name: 'Ada' } }],
  },
  {
    request: '/books?select=id,authors!author_id(name)&id=eq.4',
    json: [{ id: 4, authors: null }],
  },
  {
    request: '/authors?select=name,books!author_id(id)&order=id&books.order=id',
    json: [
      { name: 'Ada', books: [{ id: 1 }, { id: 2 }] },
      { name: 'Bo', books: [{ id: 3 }] },
      { name: 'Cy', books: [] },
    ],
  },
  {
    request: '/books?select=id,book_details(pages)&id=in.(1,2)&order=id',
    json: [
      { id: 1, book_details: { pages: 100 } },
      { id: 2, book_details: null },
    ],
  },
  {
    request: '/book_details?select=pages,books(title)&book_id=eq.1',
    json: [{ pages: 100, books: { title: 'Alpha' } }],
  },
  {
    request: '/books?select=id,genres(name)&genres.order=name&id=eq.1',
    json: [{ id: 1, genres: [{ name: 'crime' }, { name: 'sf' }] }],
  },
  {
    request: '/genres?select=name,books(title,authors!author_id(name))&books.order=id&id=eq.1',
    json: [
      {
        name: 'sf',
        books: [
          { title: 'Alpha', authors: { name: 'Ada' } },
          { title: 'Gamma', authors: { name: 'Bo' } },
        ],
      },
    ],
  },
  {
    request: '/books?select=id,book_genres(genres(name))&id=eq.3',
    json: [{ id: 3, book_genres: [{ genres: { name: 'sf' } }] }],
  },
  {
    request: '/books?select=id,writer:authors!author_id(name)&id=eq.1',
    json: [{ id: 1, writer: { name: 'Ada' } }],
  },
  {
    request: '/books?select=id,w:authors!author_id(name),e:authors!editor_id(name)&id=eq.1',
    json: [{ id: 1, w: { name: 'Ada' }, e: { name: 'Bo' } }],
  },
  { request: '/books?select=id,book_details!inner(pages)&order=id', ids: [1, 3] },
  { request: '/books?select=id,book_details!left(pages)&order=id', ids: [1, 2, 3, 4] },
  { request: '/books?select=id,authors!author_id!inner(name)&order=id', ids: [1, 2, 3] },
  { request: '/books?select=id,authors!inner!author_id(name)&order=id', ids: [1, 2, 3] },
  {
    request: '/authors?select=name,books!author_id(id)&books.price=gt.15&order=id',
    json: [
      { name: 'Ada', books: [{ id: 2 }] },
      { name: 'Bo', books: [{ id: 3 }] },
      { name: 'Cy', books: [] },
    ],
  },
  {
    request: '/authors?select=name,books!author_id!inner(id)&books.price=gt.15&order=id',
    json: [
      { name: 'Ada', books: [{ id: 2 }] },
      { name: 'Bo', books: [{ id: 3 }] },
    ],
  },
  {
    request:
      '/authors?select=id,books!author_id(id,genres(name))&books.genres.name=eq.sf&books.order=id&id=eq.1',
    json: [
      {
        id: 1,
        books: [
          { id: 1, genres: [{ name: 'sf' }] },
          { id: 2, genres: [] },
        ],
      },
    ],
  },
  {
    request: '/authors?select=id,books!author_id(id)&books.or=(id.eq.1,price.eq.30)&order=id',
    json: [
      { id: 1, books: [{ id: 1 }] },
      { id: 2, books: [{ id: 3 }] },
      { id: 3, books: [] },
    ],
  },
  { request: '/authors?select=name,books!author_id()&books=is.null', json: [{ name: 'Cy' }] },
  {
    request: '/authors?select=name,books!author_id()&books=not.is.null&order=id',
    json: [{ name: 'Ada' }, { name: 'Bo' }],
  },
  {
    request:
      '/books?select=id,book_details(),genres()&or=(book_details.not.is.null,genres.not.is.null)&order=id',
    ids: [1, 3],
  },
  { request: '/books?select=id,authors!author_id()&id=eq.1', json: [{ id: 1 }] },
  {
    request: '/books?select=id,authors!author_id!inner()&authors.name=eq.Bo',
    json: [{ id: 3 }],
  },
  {
    request: '/books?select=id,w:authors!author_id(name)&w.name=eq.Ada&id=in.(1,3)&order=id',
    json: [
      { id: 1, w: { name: 'Ada' } },
      { id: 3, w: null },
    ],
  },
  {
    behaviour: 'by the table name',
    request: '/books?select=id,w:authors!author_id(name)&authors.name=eq.Ada&id=eq.3',
    json: [{ id: 3, w: null }],
    has: { warning: /299/ },
  },
  {
    request: '/books?authors.name=eq.x',
    status: 400,
    code: 'PGRST108',
    error: { hint: "Verify that 'authors' is included in the 'select' query parameter." },
  },
  {
    request: '/authors?select=id,books!author_id(id,book_details!inner(pages))&order=id',
    ids: [1, 2, 3],
  },
  {
    request: '/books?select=id,authors!editor_id(born)&authors=not.is.null&order=id',
    ids: [1, 3],
  },
  {
    request: '/authors?select=name,books!author_id(count)&order=id',
    json: [
      { name: 'Ada', books: [{ count: 2 }] },
      { name: 'Bo', books: [{ count: 1 }] },
      { name: 'Cy', books: [{ count: 0 }] },
    ],
  },
  {
    request: 'POST /books?select=id,authors!author_id(name)',
    prefer: REPRESENTATION,
    body: { id: 9, title: 'Z', author_id: 1 },
    status: 201,
    json: [{ id: 9, authors: { name: 'Ada' } }],
  },
  {
    request: 'PATCH /books?id=eq.4&select=id,authors!author_id(name)',
    prefer: REPRESENTATION,
    body: { author_id: 2 },
    json: [{ id: 4, authors: { name: 'Bo' } }],
  },
  {
    request: 'DELETE /books?id=eq.2&select=id,authors!author_id(name)',
    prefer: REPRESENTATION,
    json: [{ id: 2, authors: { name: 'Ada' } }],
  },
  {
    request: '/rpc/books_over?min=15&select=id,authors!author_id(name)&order=id',
    json: [
      { id: 2, authors: { name: 'Ada' } },
      { id: 3, authors: { name: 'Bo' } },
    ],
  },
  {
    request: '/books?select=authors!author_id(id),authors!author_id(name)',
    status: 400,
    code: '42712',
  },
  {
    behaviour: 'logic cannot reach into an embed',
    request: '/books?select=id,authors!author_id(name)&or=(authors.name.eq.x)',
    status: 400,
    code: 'PGRST100',
  },
  {
    behaviour: 'too deep',
    request: `/nodes?select=${'k:nodes(id,'.repeat(12)}id${')'.repeat(12)}`,
    status: 400,
    code: 'PGRST100',
  },
]);

table('spreads', [
  {
    request: '/books?select=id,...authors!author_id(author:name)&id=in.(1,4)&order=id',
    json: [
      { id: 1, author: 'Ada' },
      { id: 4, author: null },
    ],
  },
  {
    request: '/book_details?select=pages,...books(title,...authors!author_id(name))&book_id=eq.1',
    json: [{ pages: 100, title: 'Alpha', name: 'Ada' }],
  },
  {
    request: '/authors?select=name,...books!author_id(titles:title)&books.order=id&order=id',
    json: [
      { name: 'Ada', titles: ['Alpha', 'Beta, vol. 1'] },
      { name: 'Bo', titles: ['Gamma'] },
      { name: 'Cy', titles: [] },
    ],
  },
  {
    request: '/books?select=id,...genres(g:name)&genres.order=name&id=eq.1',
    json: [{ id: 1, g: ['crime', 'sf'] }],
  },
  {
    request: '/authors?select=...books!author_id(title)&books.order=price.desc&id=eq.1',
    json: [{ title: ['Beta, vol. 1', 'Alpha'] }],
  },
  { request: '/authors?select=name,...books!author_id!inner(title)&order=id', rows: 2 },
  {
    request: '/books?select=id,gs:book_genres(genre_id,...genres(name))&id=eq.3',
    json: [{ id: 3, gs: [{ genre_id: 1, name: 'sf' }] }],
  },
  { request: '/books?select=id,...genres()&id=eq.1', json: [{ id: 1 }] },
  {
    behaviour: 'nested',
    request: '/authors?select=id,...books!author_id(title,...book_details(pages))&books.order=id&id=eq.1',
    json: [{ id: 1, title: ['Alpha', 'Beta, vol. 1'], pages: [100, null] }],
  },
  {
    behaviour: 'embed inside a to-many spread',
    request:
      '/authors?select=id,...books!author_id(id,book_details(pages),genres(name))&books.order=id&id=eq.2',
    status: 200,
    json: [{ id: [3], book_details: [{ pages: 300 }], genres: [[{ name: 'sf' }]] }],
  },
]);

table('relationships', [
  {
    request: '/books?select=authors(*)',
    status: 300,
    code: 'PGRST201',
    error: {
      message: "Could not embed because more than one relationship was found for 'books' and 'authors'",
      details: [
        {
          cardinality: 'many-to-one',
          embedding: 'books with authors',
          relationship: 'books_author_id_fkey using books(author_id) and authors(id)',
        },
        {
          cardinality: 'many-to-one',
          embedding: 'books with authors',
          relationship: 'books_editor_id_fkey using books(editor_id) and authors(id)',
        },
      ],
      hint:
        "Try changing 'authors' to one of the following: 'authors!books_author_id_fkey', " +
        "'authors!books_editor_id_fkey'. Find the desired relationship in the 'details' key.",
    },
  },
  {
    request: '/books?select=authors!books_author_id_fkey(name)&id=eq.1',
    json: [{ authors: { name: 'Ada' } }],
  },
  {
    request: '/books?select=id,author_id(name)&id=eq.1',
    json: [{ id: 1, author_id: { name: 'Ada' } }],
  },
  {
    request: '/books?select=books_author_id_fkey(name)&id=eq.1',
    json: [{ books_author_id_fkey: { name: 'Ada' } }],
  },
  {
    request: '/books?select=items(*)',
    status: 400,
    code: 'PGRST200',
    error: {
      details:
        "Searched for a foreign key relationship between 'books' " +
        "and 'items' in the schema 'public', but no matches were found.",
    },
  },
  {
    request: '/books?select=genre(*)',
    status: 400,
    code: 'PGRST200',
    error: { hint: "Perhaps you meant 'genres' instead of 'genre'." },
  },
  {
    request: '/books?select=authors!nope(*)',
    status: 400,
    code: 'PGRST200',
    error: { details: expect.stringContaining("using the hint 'nope'") },
  },
  {
    request: '/nodes?select=id,parent:parent_id(id)&id=eq.2',
    json: [{ id: 2, parent: { id: 1 } }],
  },
  {
    request: '/nodes?select=id,kids:nodes!parent_id(id)&id=eq.1&kids.order=id',
    json: [{ id: 1, kids: [{ id: 2 }, { id: 3 }] }],
  },
  {
    request: '/nodes?select=id,kids:nodes(id)&id=eq.1&kids.order=id',
    json: [{ id: 1, kids: [{ id: 2 }, { id: 3 }] }],
  },
  {
    request: '/books?select=id,genres!book_genres(name)&id=eq.3',
    json: [{ id: 3, genres: [{ name: 'sf' }] }],
  },
  { request: '/loose?select=note,books(id),genres(id)', json: [] },
]);

table('aggregates', [
  { request: '/books?select=count()', json: [{ count: 4 }] },
  {
    request: '/books?select=price.sum(),price.avg(),price.min(),price.max()',
    text: '[{"sum":60.00,"avg":20.0000000000000000,"min":10.00,"max":30.00}]',
  },
  { request: '/books?select=author_id.count()', json: [{ count: 3 }] },
  { request: '/books?select=t:price.sum()::int', json: [{ t: 60 }] },
  { request: '/authors?select=bio->>n::int.sum()', json: [{ sum: 12 }] },
  {
    request: '/books?select=author_id,t:price.sum()&order=author_id',
    json: [
      { author_id: 1, t: 30 },
      { author_id: 2, t: 30 },
      { author_id: null, t: null },
    ],
  },
  { request: '/books?select=id:author_id,s:price.sum()', rows: 3 },
  {
    request: '/books?select=author_id,n:count()&order=n.desc,author_id',
    json: [
      { author_id: 1, n: 2 },
      { author_id: 2, n: 1 },
      { author_id: null, n: 1 },
    ],
  },
  {
    request: '/authors?select=name,books!author_id(price.sum())&order=id',
    json: [
      { name: 'Ada', books: [{ sum: 30 }] },
      { name: 'Bo', books: [{ sum: 30 }] },
      { name: 'Cy', books: [{ sum: null }] },
    ],
  },
  { request: '/books?select=authors!author_id(name),price.sum()', rows: 3 },
  { request: '/books?select=...authors!author_id(name),n:count()&order=n.desc', rows: 3 },
  {
    behaviour: 'hoisted',
    request: '/books?select=...authors!author_id(oldest:born.min())',
    json: [{ oldest: 1970 }],
  },
  { request: '/authors?select=...books!author_id(price.sum())', status: 400, code: 'PGRST127' },
  { request: '/books?select=count', json: [{ count: 4 }] },
  { request: '/rpc/books_over?min=0&select=price.max()', json: [{ max: 30 }] },
  { request: '/books?select=author_id,n:count()&having=n.gt.1', json: [{ author_id: 1, n: 2 }] },
  {
    request: '/books?select=author_id,price.sum()&having=sum.gte.30&order=author_id',
    json: [
      { author_id: 1, sum: 30 },
      { author_id: 2, sum: 30 },
    ],
  },
  {
    request: '/books?select=author_id,n:count()&having=n.gte.1,n.lt.2&order=author_id',
    json: [
      { author_id: 2, n: 1 },
      { author_id: null, n: 1 },
    ],
  },
  {
    request: '/books?select=author_id,n:count(),t:price.sum()&having=or(n.eq.2,t.is.null)&order=author_id',
    rows: 2,
  },
  {
    request: '/books?select=author_id,n:count()&having=n.not.eq.1',
    json: [{ author_id: 1, n: 2 }],
  },
  { request: '/books?select=author_id,t:price.sum()::int&having=t.eq.30', rows: 2 },
  { request: '/books?select=author_id,n:count()&having=zz.gt.1', status: 400, code: 'SVC111' },
  { request: '/books?select=id&having=id.gt.1', status: 400, code: 'SVC110' },
  { request: '/books?select=n:count()&having=n', status: 400, code: 'PGRST100' },
  {
    request: '/books?select=author_id,n:count()&having=n.gt.1',
    prefer: 'count=exact',
    range: '0-0/1',
  },
  {
    request: '/authors?select=id,books!author_id(editor_id,n:count())&books.having=n.gt.0&id=eq.2',
    json: [{ id: 2, books: [{ editor_id: 1, n: 1 }] }],
  },
]);

table('formats', [
  {
    request: '/books?id=eq.1&select=id',
    accept: SINGULAR,
    json: { id: 1 },
    has: { 'content-type': 'application/vnd.pgrst.object+json; charset=utf-8' },
  },
  {
    request: '/books?id=eq.0',
    accept: SINGULAR,
    status: 406,
    code: 'PGRST116',
    error: {
      message: 'Cannot coerce the result to a single JSON object',
      details: 'The result contains 0 rows',
    },
  },
  {
    request: '/books',
    accept: SINGULAR,
    status: 406,
    code: 'PGRST116',
    error: { details: 'The result contains 4 rows' },
  },
  {
    request: '/books?id=eq.1&select=id',
    accept: 'application/vnd.pgrst.object',
    json: { id: 1 },
  },
  {
    request: '/authors?id=eq.3',
    accept: 'application/vnd.pgrst.array+json;nulls=stripped',
    json: [{ id: 3, name: 'Cy' }],
    has: { 'content-type': 'application/vnd.pgrst.array+json;nulls=stripped; charset=utf-8' },
  },
  {
    request: '/authors?id=eq.3',
    accept: `${SINGULAR};nulls=stripped`,
    json: { id: 3, name: 'Cy' },
  },
  {
    request: '/genres?order=id',
    accept: 'text/csv',
    text: 'id,name\n1,sf\n2,crime\n3,poem',
    has: { 'content-type': 'text/csv; charset=utf-8' },
  },
  { behaviour: 'no rows', request: '/genres?id=eq.0', accept: 'text/csv', text: 'id,name\n' },
  {
    request: '/books?select=id,title&id=in.(2,4)&order=id',
    accept: 'text/csv',
    text: 'id,title\n2,"Beta, vol. 1"\n4,"Delta ""x"""',
  },
  { request: '/books', accept: 'text/foo', status: 406, code: 'PGRST107' },
  { request: '/genres', accept: 'text/foo, */*', rows: 3 },
  {
    request: '/genres',
    accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
    rows: 3,
  },
  {
    request: '/genres',
    accept: 'text/csv, application/json',
    has: { 'content-type': 'text/csv; charset=utf-8' },
  },
  {
    request: '/genres',
    accept: 'application/vnd.pgrst.plan+json',
    json: [expect.objectContaining({ Plan: expect.anything() })],
  },
  {
    request: '/genres',
    accept: 'application/vnd.pgrst.plan+text; for="application/json"; options=;',
    has: { 'content-type': /^application\/vnd\.pgrst\.plan\+text/ },
  },
  { request: '/big?select=id,amount', text: '[{"id":9007199254740993,"amount":1.50}]' },
  { request: '/genres', accept: 'application/geo+json', status: 406, code: 'PGRST107' },
  { behaviour: 'json column is verbatim', request: '/big?select=data', text: '[{"data":{"b":1,  "a":2}}]' },
]);

table('preferences', [
  {
    request: '/genres',
    prefer: 'handling=strict, foo',
    status: 400,
    code: 'PGRST122',
    error: { details: 'Invalid preferences: foo' },
  },
  {
    request: '/genres',
    prefer: 'handling=lenient, foo',
    has: { 'preference-applied': 'handling=lenient' },
  },
  {
    request: 'POST /genres',
    prefer: REPRESENTATION,
    body: { id: 50, name: 'r' },
    status: 201,
    json: [{ id: 50, name: 'r' }],
    has: { 'preference-applied': 'return=representation, tx=rollback' },
  },
  { request: '/genres?id=eq.50', json: [] },
  {
    request: '/big?select=at',
    prefer: 'timezone=America/Los_Angeles',
    json: [{ at: '2023-10-18T05:37:59.611-07:00' }],
    has: { 'preference-applied': 'timezone=America/Los_Angeles' },
  },
  { request: '/big?select=at', prefer: 'timezone=Nowhere/Land', status: 400, code: '22023' },
  {
    request: 'POST /genres',
    prefer: 'count=exact, return=representation, resolution=merge-duplicates',
    body: { id: 1, name: 'sf' },
    status: 200,
    has: {
      'preference-applied': 'resolution=merge-duplicates, return=representation, count=exact, tx=rollback',
    },
  },
  {
    request: 'DELETE /items?id=lt.15',
    prefer: 'handling=strict, max-affected=10',
    status: 400,
    code: 'PGRST124',
    error: { details: 'The query affects 14 rows' },
  },
  {
    request: 'DELETE /items?id=lt.15',
    prefer: 'max-affected=10',
    status: 400,
    code: 'PGRST124',
  },
  { request: 'DELETE /items?id=lt.15', prefer: 'max-affected=14', status: 204 },
  {
    request: 'DELETE /items?id=lt.15',
    prefer: 'handling=lenient, max-affected=10',
    status: 204,
  },
  {
    request: 'POST /rpc/bump',
    prefer: 'handling=strict, max-affected=10',
    body: {},
    status: 400,
    code: 'PGRST128',
  },
  {
    behaviour: 'max-affected of a function',
    request: 'POST /rpc/add_items',
    prefer: 'handling=strict, max-affected=2',
    body: { n: 3 },
    commit: true,
    status: 400,
    code: 'PGRST124',
  },
  { behaviour: 'nothing is stored', request: '/items?id=gte.2000', json: [] },
]);

table('inserts', [
  {
    request: 'POST /accounts',
    body: { email: 'b@x' },
    status: 201,
    text: '',
    range: '*/*',
    has: { 'content-length': '0', 'content-type': null },
  },
  {
    request: 'POST /accounts?select=email,name,balance',
    prefer: REPRESENTATION,
    body: { email: 'b@x' },
    status: 201,
    json: [{ email: 'b@x', name: 'anon', balance: 100 }],
  },
  {
    request: 'POST /accounts?select=email',
    prefer: REPRESENTATION,
    body: { email: 'b@x' },
    status: 201,
    json: [{ email: 'b@x' }],
  },
  {
    request: 'POST /genres',
    prefer: 'return=headers-only',
    body: { id: 77 },
    status: 201,
    text: '',
    has: { location: '/genres?id=eq.77' },
  },
  {
    request: 'POST /book_genres',
    prefer: 'return=headers-only',
    body: { book_id: 2, genre_id: 3 },
    status: 201,
    has: { location: '/book_genres?book_id=eq.2&genre_id=eq.3' },
  },
  {
    request: 'POST /genres',
    prefer: 'return=headers-only',
    body: [{ id: 77 }, { id: 78 }],
    status: 201,
    has: { location: null },
  },
  {
    request: 'POST /accounts',
    body: [{ email: 'a' }, { name: 'b' }],
    status: 400,
    code: 'PGRST102',
    error: { message: 'All object keys must match' },
  },
  {
    request: 'POST /accounts?columns="email","name"&select=email,name',
    prefer: REPRESENTATION,
    body: [{ email: 'a' }, { name: 'b' }],
    status: 201,
    json: [
      { email: 'a', name: null },
      { email: null, name: 'b' },
    ],
  },
  {
    request: 'POST /accounts?columns="email","name"&select=email,name',
    prefer: `${REPRESENTATION}, missing=default`,
    body: [{ email: 'a' }, { name: 'b' }],
    status: 201,
    json: [
      { email: 'a', name: 'anon' },
      { email: null, name: 'b' },
    ],
  },
  {
    request: 'POST /accounts?columns=email,name&select=name',
    prefer: `${REPRESENTATION}, missing=default`,
    body: [{ email: 'a', name: null }],
    status: 201,
    json: [{ name: null }],
  },
  { request: 'POST /accounts?columns=email', body: { email: 'a', zz: 1 }, status: 201 },
  {
    request: 'POST /accounts',
    body: { zz: 1 },
    status: 400,
    code: 'PGRST204',
    error: { message: "Could not find the 'zz' column of 'accounts' in the schema cache" },
  },
  { request: 'POST /accounts?columns=zz', body: { email: 'a' }, status: 400, code: 'PGRST204' },
  { request: 'POST /accounts?columns=', body: { email: 'a' }, status: 400, code: 'PGRST100' },
  {
    request: 'POST /accounts?select=name',
    prefer: REPRESENTATION,
    body: {},
    status: 201,
    json: [{ name: 'anon' }],
  },
  {
    request: 'POST /accounts?select=name',
    prefer: REPRESENTATION,
    body: [{}, {}],
    status: 201,
    rows: 2,
  },
  { request: 'POST /accounts', prefer: REPRESENTATION, body: [], status: 201, json: [] },
  {
    request: 'POST /accounts',
    body: '{"email":',
    status: 400,
    code: 'PGRST102',
    error: { message: 'Empty or invalid json' },
  },
  { request: 'POST /accounts', body: '', status: 400, code: 'PGRST102' },
  { request: 'POST /accounts', body: '{"email":tru}', status: 400, code: 'PGRST102' },
  { request: 'POST /accounts', body: '5', status: 400, code: 'PGRST102' },
  {
    request: 'POST /accounts?select=email,name',
    prefer: REPRESENTATION,
    headers: { 'content-type': 'text/csv' },
    body: 'email,name\nc@x,NULL',
    status: 201,
    json: [{ email: 'c@x', name: null }],
  },
  {
    request: 'POST /accounts',
    headers: { 'content-type': 'text/csv' },
    body: 'email,name\nc@x',
    status: 400,
    code: 'PGRST102',
    error: { message: 'All lines must have same number of fields' },
  },
  {
    request: 'POST /accounts?select=email,name',
    prefer: REPRESENTATION,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'email=d%40x&name=D+D',
    status: 201,
    json: [{ email: 'd@x', name: 'D D' }],
  },
  {
    request: 'POST /accounts',
    headers: { 'content-type': 'application/xml' },
    body: '<a/>',
    status: 400,
    code: 'PGRST102',
    error: { message: 'Content-Type not acceptable: application/xml' },
  },
  {
    request: 'POST /accounts',
    body: { email: 'a@x' },
    status: 409,
    code: '23505',
    error: { details: 'Key (email)=(a@x) already exists.' },
  },
  { request: 'POST /book_details', body: { book_id: 999 }, status: 409, code: '23503' },
  { request: 'POST /accounts', body: { required_note: null }, status: 400, code: '23502' },
  { request: 'POST /accounts', body: { balance: -1 }, status: 400, code: '23514' },
  {
    request: 'POST /books?select=id,tags,price',
    prefer: REPRESENTATION,
    body: { id: '90', title: 't', tags: ['x'], price: '1.5' },
    status: 201,
    text: '[{"id":90,"tags":["x"],"price":1.50}]',
  },
  {
    request: 'POST /authors?select=bio',
    prefer: REPRESENTATION,
    body: [
      { id: 80, bio: { a: 1 } },
      { id: 81, bio: [1] },
      { id: 82, bio: 'x' },
      { id: 83, bio: null },
    ],
    status: 201,
    json: [{ bio: { a: 1 } }, { bio: [1] }, { bio: 'x' }, { bio: null }],
  },
  {
    behaviour: 'one',
    request: 'POST /authors?select=bio',
    prefer: REPRESENTATION,
    body: { id: 80, bio: 'x' },
    status: 201,
    json: [{ bio: 'x' }],
  },
  {
    request: 'POST /genres?select=id',
    accept: SINGULAR,
    prefer: REPRESENTATION,
    body: { id: 70 },
    status: 201,
    json: { id: 70 },
  },
  {
    request: 'POST /genres',
    accept: SINGULAR,
    prefer: REPRESENTATION,
    body: [{ id: 70 }, { id: 71 }],
    commit: true,
    status: 406,
    code: 'PGRST116',
    error: { details: 'The result contains 2 rows' },
  },
  { behaviour: 'nothing is stored', request: '/genres?id=in.(70,71)', json: [] },
  { request: 'POST /notes', body: { id: 5, owner: U1 }, status: 401, code: '42501' },
  {
    request: 'POST /notes',
    body: { id: 5, owner: U1 },
    user: '00000000-0000-0000-0000-00000000000f',
    status: 403,
    code: '42501',
  },
  { request: 'POST /inbox', body: { id: 1, message: 'hi' }, status: 201 },
  {
    request: 'POST /inbox',
    body: { id: 1, message: 'hi' },
    prefer: REPRESENTATION,
    status: 401,
    code: '42501',
  },
  {
    request: 'POST /inbox',
    body: `{"id":1,"message":"${'x'.repeat(1_100_000)}"}`,
    status: 413,
    code: 'SVC101',
  },
  {
    behaviour: 'unicode key',
    request: 'POST /Order%20Items?select=n%C3%A4me',
    prefer: REPRESENTATION,
    body: { näme: 'ß', 'Unit Price': 3 },
    status: 201,
    json: [{ näme: 'ß' }],
  },
]);

table('upserts', [
  {
    request: 'POST /genres',
    prefer: `resolution=merge-duplicates, ${REPRESENTATION}`,
    body: [
      { id: 1, name: 'SF' },
      { id: 9, name: 'new' },
    ],
    status: 201,
    json: [
      { id: 1, name: 'SF' },
      { id: 9, name: 'new' },
    ],
  },
  {
    request: 'POST /genres',
    prefer: 'resolution=merge-duplicates',
    body: [{ id: 1, name: 'SF' }],
    status: 200,
    text: '',
  },
  {
    request: 'POST /genres',
    prefer: `resolution=ignore-duplicates, ${REPRESENTATION}`,
    body: [
      { id: 1, name: 'SF' },
      { id: 9, name: 'new' },
    ],
    status: 201,
    json: [{ id: 9, name: 'new' }],
  },
  {
    request: 'POST /accounts?on_conflict=email&select=id,name',
    prefer: `resolution=merge-duplicates, ${REPRESENTATION}`,
    body: { email: 'a@x', name: 'AA' },
    status: 200,
    json: [{ id: 1, name: 'AA' }],
  },
  {
    request: 'POST /nopk',
    prefer: 'resolution=merge-duplicates',
    body: { a: '2' },
    status: 201,
    has: { 'preference-applied': 'tx=rollback' },
  },
  {
    request: 'POST /accounts?on_conflict=name',
    prefer: 'resolution=merge-duplicates',
    body: { email: 'q', name: 'q' },
    status: 400,
    code: '42P10',
  },
  {
    request: 'POST /genres',
    prefer: `resolution=merge-duplicates, ${REPRESENTATION}`,
    body: [],
    status: 200,
    json: [],
  },
  {
    request: 'POST /accounts?columns=id,email&select=email',
    prefer: `resolution=merge-duplicates, missing=default, ${REPRESENTATION}`,
    body: [{ email: 'n@x' }],
    status: 201,
    json: [{ email: 'n@x' }],
  },
  {
    behaviour: 'twice in one body',
    request: 'POST /genres',
    prefer: 'resolution=merge-duplicates',
    body: [
      { id: 60, name: 'a' },
      { id: 60, name: 'b' },
    ],
    status: 409,
    code: '21000',
  },
]);

table('updates and deletes', [
  {
    request: 'PATCH /genres?id=eq.1',
    body: { name: 'x' },
    status: 204,
    text: '',
    range: '0-0/*',
    has: { 'content-type': null },
  },
  { request: 'PATCH /genres?id=eq.99', body: { name: 'x' }, status: 204, range: '*/*' },
  {
    request: 'PATCH /genres?id=eq.1',
    prefer: REPRESENTATION,
    body: { name: 'x' },
    json: [{ id: 1, name: 'x' }],
  },
  { request: 'PATCH /genres?id=eq.99', prefer: REPRESENTATION, body: { name: 'x' }, json: [] },
  { request: 'PATCH /genres?id=eq.1', body: {}, status: 204, range: '*/*' },
  { request: 'PATCH /genres?id=eq.1', prefer: REPRESENTATION, body: {}, json: [] },
  { request: 'PATCH /genres?id=eq.1', body: [], status: 204 },
  { request: 'PATCH /genres?id=eq.1', body: [{}, {}], status: 204 },
  {
    request: 'PATCH /genres?or=(id.eq.1,id.eq.2)',
    prefer: REPRESENTATION,
    body: { name: 'x' },
    rows: 2,
  },
  {
    request: 'PATCH /genres?name=eq.sf',
    prefer: REPRESENTATION,
    body: { name: 'x' },
    json: [{ id: 1, name: 'x' }],
  },
  { request: 'PATCH /genres?id=eq.1&columns=name', body: { name: 'x', zz: 1 }, status: 204 },
  {
    request: 'PATCH /genres?id=gt.0',
    accept: SINGULAR,
    body: { name: 'x' },
    commit: true,
    status: 406,
    code: 'PGRST116',
  },
  { behaviour: 'unchanged', request: '/genres?name=eq.x', json: [] },
  {
    request: 'PATCH /genres?id=gt.0&order=id.desc&select=id',
    prefer: REPRESENTATION,
    body: { name: 'x' },
    ids: [3, 2, 1],
  },
  {
    request: 'PATCH /genres?id=lt.4&limit=1',
    prefer: 'count=exact',
    body: { name: 'x' },
    status: 400,
    code: 'SVC109',
  },
  {
    request: 'PATCH /genres',
    body: { name: 'x' },
    status: 400,
    code: '21000',
    error: { message: 'UPDATE requires a WHERE clause' },
  },
  {
    request: 'PATCH /genres?id=eq.1',
    prefer: REPRESENTATION,
    body: { name: null },
    json: [{ id: 1, name: null }],
  },
  {
    behaviour: 'two objects',
    request: 'PATCH /genres?id=eq.1',
    body: [{ name: 'a' }, { name: 'b' }],
    status: 400,
    code: 'PGRST102',
  },
  {
    behaviour: 'missing=default',
    request: 'PATCH /accounts?id=eq.1&columns=name&select=name',
    prefer: `missing=default, ${REPRESENTATION}`,
    body: {},
    json: [{ name: 'anon' }],
  },
  { request: 'DELETE /genres?id=eq.3', status: 204, range: '*/*' },
  { request: 'DELETE /genres?id=eq.3&select=id', prefer: REPRESENTATION, json: [{ id: 3 }] },
  { request: 'DELETE /genres?id=eq.99', status: 204 },
  { request: 'DELETE /genres?id=eq.99', prefer: REPRESENTATION, json: [] },
  {
    request: 'DELETE /genres?id=eq.3',
    headers: { 'content-type': 'application/json' },
    status: 204,
  },
  { request: 'DELETE /authors?id=eq.1', status: 409, code: '23503' },
  { request: 'DELETE /genres', status: 400, code: '21000' },
  {
    request: 'PUT /genres?id=eq.7',
    prefer: REPRESENTATION,
    body: { id: 7, name: 'n' },
    status: 201,
    json: [{ id: 7, name: 'n' }],
  },
  {
    request: 'PUT /genres?id=eq.1',
    prefer: REPRESENTATION,
    body: { id: 1, name: 'n' },
    status: 200,
    json: [{ id: 1, name: 'n' }],
  },
  {
    request: 'PUT /genres?id=eq.1',
    body: { id: 1, name: 'n' },
    status: 204,
    has: { 'content-range': null },
  },
  {
    request: 'PUT /genres?id=eq.7',
    body: { id: 8, name: 'n' },
    commit: true,
    status: 400,
    code: 'PGRST115',
  },
  {
    request: 'PUT /genres?name=eq.x',
    body: { id: 1, name: 'x' },
    status: 405,
    code: 'PGRST105',
  },
  {
    request: 'PUT /genres?id=eq.1&limit=1',
    body: { id: 1, name: 'x' },
    status: 400,
    code: 'PGRST114',
  },
  { request: 'PUT /nopk?a=eq.1', body: { a: '1', b: 'x' }, status: 405, code: 'PGRST105' },
]);

table('functions', [
  { request: 'POST /rpc/add', body: { a: 1, b: 2 }, json: 3 },
  { request: 'POST /rpc/add', body: { a: 1 }, json: 11 },
  { request: '/rpc/add?a=1&b=2', json: 3 },
  { request: 'POST /rpc/add', body: { b: 1 }, status: 400, code: 'PGRST202' },
  {
    request: 'POST /rpc/add',
    body: { a: 1, z: 2 },
    status: 400,
    code: 'PGRST202',
    error: { hint: 'Perhaps you meant to call the function public.add(a, b)' },
  },
  {
    request: 'POST /rpc/nothing_like_it',
    body: {},
    status: 404,
    code: 'PGRST202',
    error: {
      message: 'Could not find the function public.nothing_like_it without parameters in the schema cache',
    },
  },
  {
    request: 'POST /rpc/books_ovr',
    body: {},
    status: 404,
    code: 'PGRST202',
    error: { hint: 'Perhaps you meant to call the function public.books_over' },
  },
  {
    request: '/rpc/bump',
    status: 405,
    code: 'PGRST101',
    error: { message: 'Cannot use the GET method on RPC' },
    has: { allow: 'OPTIONS,POST' },
  },
  { request: 'HEAD /rpc/bump', status: 405 },
  {
    request: 'POST /rpc/noop',
    body: {},
    status: 204,
    text: '',
    range: '0-0/*',
    has: { 'content-type': null },
  },
  { request: 'POST /rpc/noop', status: 204 },
  { request: 'POST /rpc/books_over?id=gt.2&select=id', body: { min: 15 }, json: [{ id: 3 }] },
  { request: '/rpc/books_over?min=5&price=lt.25&select=id&order=id', ids: [1, 2] },
  { request: '/rpc/books_over?min=5&select=id&title=like.G*', ids: [3] },
  {
    request: '/rpc/books_over?min=15&select=id&order=id.desc&limit=1',
    prefer: 'count=exact',
    status: 206,
    range: '0-0/2',
    ids: [3],
  },
  { request: '/rpc/books_over?min=25&select=id', accept: SINGULAR, json: { id: 3 } },
  { request: '/rpc/books_over?min=5', accept: SINGULAR, status: 406, code: 'PGRST116' },
  { request: 'POST /rpc/pair', body: {}, json: { a: 1, b: 'x' } },
  { request: 'POST /rpc/bare', body: {}, json: { '?column?': 1, text: 'x' } },
  { request: 'POST /rpc/echo', prefer: 'params=single-object', body: { x: 1 }, json: { x: 1 } },
  {
    behaviour: 'strict',
    request: 'POST /rpc/echo',
    prefer: 'params=single-object, handling=strict',
    body: { x: 1 },
    json: { x: 1 },
  },
  {
    behaviour: 'array',
    request: 'POST /rpc/echo',
    prefer: 'params=single-object',
    body: [1, 2],
    json: [1, 2],
  },
  { request: 'POST /rpc/echo', body: { j: { k: [1] } }, json: { k: [1] } },
  { behaviour: 'text', request: 'POST /rpc/echo', body: { j: 'text' }, json: 'text' },
  { behaviour: 'null', request: 'POST /rpc/echo', body: { j: null }, text: 'null' },
  { request: '/rpc/books_over?min=15&select=id&order=id', accept: 'text/csv', text: 'id\n2\n3' },
  { request: '/rpc/all_items', rows: 57 },
  {
    request: '/rpc/whoami',
    status: 401,
    code: 'PGRST302',
    has: { 'www-authenticate': 'Bearer' },
  },
  { request: '/rpc/whoami', user: U1, json: 'authenticated' },
  { request: '/rpc/whoami', key: KEYS.secret, json: 'service_role' },
  {
    request: 'POST /rpc/boom',
    body: { st: 'P0001', m: 'no' },
    status: 400,
    code: 'P0001',
    error: { message: 'no' },
  },
  { request: 'POST /rpc/boom', body: { st: 'PT402', m: 'Pay' }, status: 402, code: 'PT402' },
  {
    request: 'POST /rpc/boom',
    body: { st: 'PGRST', m: '{"code":"X1","message":"m"}', d: '{"status":332,"headers":{"X-A":"b"}}' },
    status: 332,
    code: 'X1',
    has: { 'x-a': 'b' },
  },
  {
    request: 'POST /rpc/boom',
    body: { st: 'PGRST', m: 'no json', d: '{}' },
    status: 500,
    code: 'PGRST121',
    error: { details: "Invalid JSON value for MESSAGE: 'no json'" },
  },
  {
    request: 'POST /rpc/boom',
    body: { st: 'PGRST', m: '{"code":"1","message":"m"}' },
    status: 500,
    code: 'PGRST121',
    error: { details: 'DETAIL is missing in the RAISE statement' },
  },
  { request: '/rpc/hdr', status: 418, has: { 'x-custom': 'yes' } },
  { request: '/rpc/bad_hdr', status: 500, code: 'PGRST111' },
  { request: '/rpc/bad_status', status: 500, code: 'PGRST112' },
  { request: 'POST /rpc/add?columns=a', body: { a: 1, zz: 5 }, json: 11 },
  { request: 'POST /rpc/add?a=1', body: {}, status: 400, code: 'PGRST100' },
  {
    request: 'POST /rpc/books_over',
    prefer: 'count=exact,return=minimal',
    body: { min: 15 },
    range: '0-1/2',
  },
  { behaviour: 'array argument', request: 'POST /rpc/sum_of', body: { xs: [1, 2, 3] }, json: 6 },
  { behaviour: 'array argument by GET', request: '/rpc/sum_of?xs={1,2,3}', json: 6 },
  { behaviour: 'set of scalars', request: '/rpc/texts', json: ['a', 'b', 'c'] },
  {
    behaviour: 'set of scalars, page',
    request: '/rpc/texts?limit=1&offset=1',
    prefer: 'count=exact',
    status: 206,
    json: ['b'],
    range: '1-1/3',
  },
  { behaviour: 'argument that looks like a filter', request: '/rpc/search?term=eq.x', json: [] },
  {
    behaviour: 'table result',
    request: '/rpc/table_result?n=3&x=gt.1&select=y',
    json: [{ y: 'y2' }, { y: 'y3' }],
  },
  {
    behaviour: 'one row',
    request: '/rpc/one_book?book=1&select=id,authors!author_id(name)',
    json: { id: 1, authors: { name: 'Ada' } },
  },
  { behaviour: 'no row', request: '/rpc/one_book?book=99', text: 'null' },
  { behaviour: 'array body', request: 'POST /rpc/add', body: [{ a: 1 }], status: 400, code: 'PGRST102' },
  {
    behaviour: 'form body',
    request: 'POST /rpc/add',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'a=1&b=5',
    json: 6,
  },
  { behaviour: 'unknown argument by GET', request: '/rpc/add?a=1&zz=5', status: 400, code: 'PGRST202' },
]);

table('callers', [
  { request: '/secrets', status: 401, code: '42501', has: { 'www-authenticate': 'Bearer' } },
  { request: '/secrets', user: U1, status: 403, code: '42501' },
  {
    request: '/genres',
    headers: { authorization: 'Bearer a.b' },
    status: 401,
    code: 'PGRST301',
    error: { message: 'Expected 3 parts in JWT; got 2' },
  },
  {
    request: '/genres',
    headers: { authorization: 'Bearer eyJhbGciOiJIUzI1NiJ9.e30.AAAA' },
    status: 401,
    code: 'PGRST301',
    has: { 'www-authenticate': /error="invalid_token"/ },
  },
  {
    request: '/genres',
    headers: { authorization: 'Bearer eyJhbGciOiJub25lIn0.e30.' },
    status: 401,
    code: 'PGRST301',
  },
  { request: '/notes?select=body', user: U1, json: [{ body: 'mine' }] },
  { request: '/rpc/claims', user: U1, error: { sub: U1, role: 'authenticated' } },
  {
    request: '/rpc/request_headers',
    headers: { 'X-Custom': 'v', cookie: 'a=1; b=2' },
    error: { 'x-custom': 'v' },
  },
  { request: '/rpc/request_cookies', headers: { cookie: 'a=1; b=2' }, json: { a: '1', b: '2' } },
  { request: '/rpc/request_line', json: 'GET /rpc/request_line' },
  { request: '/rpc/sneaky', status: 405, code: '25006' },
]);

test('expiry with its skew, and the scheme in lower case', async () => {
  const now = Math.floor(Date.now() / 1000);
  const expired = await world.send('/genres', { token: await world.token({ exp: now - 60 }) });
  expect(expired.status).toBe(401);
  expect(expired.json).toMatchObject({ code: 'PGRST303', message: 'JWT expired' });
  expect(expired.headers.get('www-authenticate')).toContain('JWT expired');
  expect((await world.send('/genres', { token: await world.token({ exp: now - 20 }) })).status).toBe(200);
  const token = await world.token({ sub: U1 });
  const lower = await world.send('/notes', { headers: { authorization: `bearer ${token}` } });
  expect(lower.json).toHaveLength(1);
});

test('callers that alternate on few connections never see rows of each other', async () => {
  const tokens = await Promise.all([1, 2].map((n) => world.token({ sub: U1.replace(/1$/, String(n)) })));
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, index) =>
      world.send('/notes?select=id', index % 3 === 2 ? {} : { token: tokens[index % 3] ?? '' }),
    ),
  );
  answers.forEach((answer, index) => {
    const expected = index % 3 === 2 ? [] : [{ id: (index % 3) + 1 }];
    expect(answer.json).toEqual(expected);
  });
});

test('a statement beyond its deadline is 57014 and 504', async () => {
  const own = await createDatabase();
  const brief = await createRestWorld({ url: own.url, ...WORLD, statementTimeoutMs: 100 });
  const answer = await brief.send('/rpc/slow', { method: 'POST', body: '{"seconds":5}' });
  expect(answer.status).toBe(504);
  expect(answer.json).toMatchObject({ code: '57014' });
  await brief.close();
  await own.drop();
});

test('a failing bulk insert stores nothing', async () => {
  const body = JSON.stringify([{ id: 500 }, { id: 501 }, { id: 1 }]);
  expect((await world.send('/items', { method: 'POST', body })).status).toBe(409);
  expect((await world.send('/items?id=gte.500')).json).toEqual([]);
});

test('embeds are not truncated at twenty', async () => {
  await world.send('/genres', { method: 'POST', body: '{"id":900}' });
  const kids = Array.from({ length: 30 }, (_, index) => ({ id: 1000 + index, parent_id: 1 }));
  await world.send('/nodes', { method: 'POST', body: JSON.stringify(kids) });
  const answer = await world.send('/nodes?select=id,kids:nodes(id)&id=eq.1');
  expect((answer.json as { kids: unknown[] }[])[0]?.kids).toHaveLength(32);
  await world.send('/nodes?id=gte.1000', { method: 'DELETE' });
  await world.send('/genres?id=eq.900', { method: 'DELETE' });
});

test('several Prefer headers are combined', async () => {
  const answer = await world.send('/items', { headers: { prefer: 'count=exact, handling=lenient' } });
  expect(answer.headers.get('preference-applied')).toBe('count=exact, handling=lenient');
});

test('a foreign key added later is found after a refresh', async () => {
  expect((await world.send('/docs?select=id,items(id)')).status).toBe(400);
  await world.owner.query(
    (await import('../../../src/postgres/sql.ts')).raw(
      'alter table docs add constraint docs_items foreign key (id) references items',
    ),
  );
  await world.refresh();
  expect((await world.send('/docs?select=id,items(id)&order=id')).json).toEqual([
    { id: 1, items: { id: 1 } },
    { id: 2, items: { id: 2 } },
  ]);
});

test('plans are for development only', async () => {
  const own = await createDatabase();
  const live = await createRestWorld({ url: own.url, ...WORLD });
  const answer = await live.send('/genres', { headers: { accept: 'application/vnd.pgrst.plan+json' } });
  expect(answer.status).toBe(406);
  await live.close();
  await own.drop();
});
