// Rows that a caller cannot see change no byte of a response. Each generated request is sent twice, before and after
// rows behind a policy were added, changed and removed. The exceptions are in docs/rest.md, "Information that hidden
// rows reveal": planner estimates, execution plans, and constraints.
import * as fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { callerNamed } from '../../src/cli/database/caller.ts';
import { renderAnswer } from '../../src/cli/database/statement-output.ts';
import { runStatement } from '../../src/postgres/one-statement.ts';
import { provideAsker } from '../../src/provision/reader.ts';
import { rounds } from '../support/rounds.ts';
import { startDashboardWorld, type DashboardWorld } from '../support/dashboard/dashboard-world.ts';

const ANN = '00000000-0000-4000-8000-000000000001';
const BOB = '00000000-0000-4000-8000-000000000002';
const SEED = Number(process.env['SVC_HIDDEN_ROWS_SEED'] ?? 20_260_401);
const REQUESTS = rounds(250, 2_500, 'SVC_HIDDEN_ROWS_REQUESTS');

const YAML = `version: 1
tables:
  notes:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: owner, type: uuid }
      - { name: text, type: text }
      - { name: n, type: integer }
      - { name: tags, type: "text[]" }
      - { name: data, type: jsonb }
    rls:
      - { operations: [select, update, delete], using: owner = auth.uid() or owner is null }
      - { operations: [insert], check: owner = auth.uid() }
  parts:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: note_id, type: integer, foreign_key: { references: notes.id } }
      - { name: word, type: text }
    rls: [{ operations: [select], using: "exists (select from notes where notes.id = note_id)" }]
views:
  note_counts:
    query: "select owner, count(*) as n, string_agg(text, ',' order by id) as texts from notes group by owner"
rpc:
  all_notes: { language: sql, volatility: stable, returns: { type: setof notes }, body: select * from notes }
  sum_notes: { language: sql, volatility: stable, returns: { type: bigint },
    body: "select sum(text::integer) from notes where text ~ '^[0-9]+$'" }
  first_part: { language: sql, volatility: stable, rows: 1, expose: false, execute: [anon, authenticated],
    args: [{ type: notes, required: true }], returns: { type: setof parts },
    body: select * from parts where note_id = $1.id order by id limit 1 }
storage:
  files: { public: false, rls: [{ operations: [select, insert, update, delete], check: owner_id = auth.uid()::text }] }
`;

const SEEN = `
insert into auth.users (id, email, aud, role) values ('${ANN}', 'ann@example.com', 'authenticated', 'authenticated'),
  ('${BOB}', 'bob@example.com', 'authenticated', 'authenticated');
insert into notes values (1, null, '12', 1, '{a,b}', '{"k": 1}'), (2, null, 'b', 2, '{}', null),
  (3, '${ANN}', '7', 3, '{a}', '{"k": "x"}'), (4, '${ANN}', null, null, null, '[]');
insert into parts values (1, 1, 'x'), (2, 1, 'y'), (3, 3, 'z');
insert into storage.objects (bucket_id, name, owner_id) values ('files', 'ann/a.txt', '${ANN}');
`;

/** Rows of Bob: texts that no cast accepts and zeros as divisors, in large numbers. */
const HIDDEN = `
insert into notes select g, '${BOB}', 'hidden ' || g, 0, '{hidden}', '{"k": {"hidden": true}}'
  from generate_series(100, 700) g;
update notes set text = '99999999999999999999' where id = 101;
insert into parts select g, g, 'hidden' from generate_series(100, 700) g;
insert into storage.objects (bucket_id, name, owner_id) values ('files', 'bob/secret.txt', '${BOB}'),
  ('files', 'ann/hidden.txt', '${BOB}'), ('files', 'top.txt', '${BOB}');
analyze notes; analyze parts;
`;

type Sent = {
  readonly method: string;
  readonly path: string;
  readonly as: 'anon' | 'ann';
  readonly prefer?: string | undefined;
  readonly accept?: string | undefined;
  readonly body?: string | undefined;
};

let world: DashboardWorld;
let admin: pg.Client;
let token = '';

beforeAll(async () => {
  world = await startDashboardWorld(YAML);
  admin = new pg.Client(world.databaseUrl);
  await admin.connect();
  await admin.query(SEEN);
  token = await world.token({ sub: ANN, role: 'authenticated' });
});
afterAll(async () => {
  await admin?.end();
  await world?.close();
});

const column = fc.constantFrom('id', 'owner', 'text', 'n', 'tags', 'data', 'data->k', 'data->>k');
const selected = fc.constantFrom(
  '*',
  'id',
  'text::integer',
  'n,count()',
  'n.sum(),n.avg(),id.max()',
  'id,parts(word)',
  'id,parts!inner(id,word)',
  'id,parts(count())',
  'id,first_part(word)',
  'text::uuid',
  'x:data->k,text::date',
);
const value = fc.constantFrom(
  '1',
  '0',
  'b',
  'hidden%20101',
  '7',
  'null',
  '{a}',
  '{hidden}',
  BOB,
  '101',
  '{"k":1}',
);
const operator = fc.constantFrom(
  'eq',
  'neq',
  'gt',
  'lt',
  'like',
  'match',
  'in',
  'is',
  'cs',
  'cd',
  'ov',
  'fts',
  'not.eq',
);
const filter = fc
  .tuple(column, operator, value)
  .map(([name, op, text]) => `${name}=${op}.${op === 'in' ? `(${text})` : op === 'is' ? 'null' : text}`);
const order = fc.constantFrom(
  '',
  'order=id',
  'order=text.desc,id',
  'order=data->>k.nullsfirst,id',
  'order=n,id.desc',
);
const page = fc.constantFrom('', 'limit=2', 'limit=2&offset=1', 'offset=90', 'limit=0');

/** Omits the order, so that a page has the order of the plan. */
function inOrder(select: string, by: string): string {
  if (select.startsWith('n,count')) return 'order=n';
  if (select.startsWith('n.sum')) return '';
  const order = by === '' ? 'order=id' : by;
  return /parts(!inner)?\((id,)?word/.test(select.replace('first_part', ''))
    ? `${order}&parts.order=id`
    : order;
}

const reads: fc.Arbitrary<Sent> = fc
  .record({
    select: selected,
    filters: fc.array(filter, { maxLength: 2 }),
    order,
    page,
    method: fc.constantFrom('GET', 'GET', 'HEAD'),
    as: fc.constantFrom('anon' as const, 'ann' as const),
    prefer: fc.constantFrom(undefined, 'count=exact', 'count=exact,handling=strict'),
    accept: fc.constantFrom(undefined, 'text/csv', 'application/vnd.pgrst.object+json'),
    source: fc.constantFrom('notes', 'notes', 'notes', 'rpc/all_notes'),
  })
  .map(({ select, filters, order: by, page: part, source, ...rest }) => {
    const parts = [`select=${select}`, ...filters, inOrder(select, by), part].filter(Boolean);
    return {
      ...rest,
      path: `/rest/v1/${source}?${parts.join('&')}`,
    };
  });

const writes: fc.Arbitrary<Sent> = fc
  .record({
    method: fc.constantFrom('PATCH', 'DELETE'),
    filters: fc.array(filter, { minLength: 1, maxLength: 2 }),
    as: fc.constantFrom('anon' as const, 'ann' as const),
    prefer: fc.constantFrom('', ',count=exact', ',max-affected=2,handling=strict', ',return=representation'),
    // A value of the wrong type is reported only when a row is compared with it, so FIXED contains such requests.
    body: fc.constantFrom('{"n":5}', '{"text":"new"}', `{"owner":"${BOB}"}`),
  })
  .map(({ filters, prefer, body, ...rest }) => ({
    ...rest,
    prefer: `tx=rollback${prefer}`,
    path: `/rest/v1/notes?${filters.join('&')}`,
    ...(rest.method === 'PATCH' ? { body } : {}),
  }));

const FIXED: readonly Sent[] = (['anon', 'ann'] as const).flatMap((as): Sent[] => [
  { method: 'GET', path: '/rest/v1/', as },
  { method: 'GET', path: '/rest/v1/note_counts?order=owner', as, prefer: 'count=exact' },
  { method: 'GET', path: '/rest/v1/rpc/sum_notes', as },
  { method: 'GET', path: '/rest/v1/parts?select=id,notes(text)&order=id', as, prefer: 'count=exact' },
  { method: 'GET', path: '/rest/v1/notes?select=id,parts(id)&parts.word=eq.hidden&order=id', as },
  { method: 'GET', path: '/rest/v1/notes?id=eq.101', as, accept: 'application/vnd.pgrst.object+json' },
  { method: 'PATCH', path: '/rest/v1/notes?id=eq.101', as, body: '{"n":1}', prefer: 'return=representation' },
  { method: 'PATCH', path: '/rest/v1/notes?id=eq.1', as, body: '{"n":"x"}', prefer: 'tx=rollback' },
  { method: 'DELETE', path: '/rest/v1/notes?id=eq.101', as, prefer: 'return=representation' },
  ...['', 'ann', 'bob', 'bob/'].map((prefix): Sent => ({
    method: 'POST',
    path: '/storage/v1/object/list/files',
    as,
    body: JSON.stringify({ prefix, sortBy: { column: 'name', order: 'asc' } }),
  })),
  {
    method: 'POST',
    path: '/storage/v1/object/list-v2/files',
    as,
    body: '{"prefix":"","with_delimiter":true}',
  },
  { method: 'GET', path: '/storage/v1/object/authenticated/files/bob/secret.txt', as },
  { method: 'HEAD', path: '/storage/v1/object/authenticated/files/bob/secret.txt', as },
  { method: 'GET', path: '/storage/v1/object/info/authenticated/files/bob/secret.txt', as },
  { method: 'GET', path: '/storage/v1/object/info/files/bob/secret.txt', as },
  { method: 'POST', path: '/storage/v1/object/sign/files/bob/secret.txt', as, body: '{"expiresIn":60}' },
  {
    method: 'POST',
    path: '/storage/v1/object/sign/files',
    as,
    body: '{"expiresIn":60,"paths":["bob/secret.txt","nope"]}',
  },
  { method: 'DELETE', path: '/storage/v1/object/files', as, body: '{"prefixes":["bob/secret.txt"]}' },
  { method: 'DELETE', path: '/storage/v1/object/files/bob/secret.txt', as },
  {
    method: 'POST',
    path: '/storage/v1/object/move',
    as,
    body: '{"bucketId":"files","sourceKey":"bob/secret.txt","destinationKey":"ann/c.txt"}',
  },
  {
    method: 'POST',
    path: '/storage/v1/object/copy',
    as,
    body: '{"bucketId":"files","sourceKey":"bob/secret.txt","destinationKey":"ann/c.txt"}',
  },
]);

/** Status, headers and body; `Date` is the time. */
async function answerTo(sent: Sent, index: number): Promise<string> {
  const { method, path, as, prefer, accept, body } = sent;
  const response = await fetch(`${world.url}${path}`, {
    method,
    headers: {
      apikey: world.keys.publishable,
      'x-request-id': `hidden-${index}`,
      ...(as === 'ann' ? { authorization: `Bearer ${token}` } : {}),
      ...(prefer === undefined ? {} : { prefer }),
      ...(accept === undefined ? {} : { accept }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body }),
  });
  const headers = [...response.headers].filter(([name]) => name !== 'date').map((pair) => pair.join(': '));
  return [`${method} ${path} as ${as}`, response.status, ...headers, await response.text()].join('\n');
}

/** Lines of the log about a request, without its times. */
function logged(from: number): string[] {
  return world
    .log()
    .slice(from)
    .split('\n')
    .filter((line) => line.includes('"requestId":"hidden-'))
    .map((line) => {
      const parsed = JSON.parse(line) as Record<string, unknown>;
      const known = [
        'requestId',
        'level',
        'msg',
        'method',
        'path',
        'route',
        'status',
        'code',
        'caller',
        'role',
        'error',
        'err',
        'hint',
      ];
      return JSON.stringify(known.map((key) => parsed[key] ?? null));
    })
    .toSorted();
}

async function allAnswers(requests: readonly Sent[]): Promise<{ answers: string[]; lines: string[] }> {
  const from = world.log().length;
  const answers: string[] = [];
  for (const [index, sent] of requests.entries()) answers.push(await answerTo(sent, index));
  return { answers, lines: logged(from) };
}

const STATEMENTS = [
  'select * from notes order by id',
  'select text::integer from notes order by id',
  'select id from notes where text::integer > 0',
  'select sum(1 / n) from notes',
  'select count(*), string_agg(word, $$,$$ order by id) from parts',
  'select id from notes where data->>$$k$$ = $$x$$ or owner <> auth.uid()',
  'select name from storage.objects order by name',
  'select text from notes union all select word from parts order by 1 nulls last',
];

/** Reads as an assistant with a caller: `query` of `svc mcp` runs each statement like this. */
async function asAssistant(): Promise<string[]> {
  const address = await provideAsker(world.options.database);
  const caller = await callerNamed('ann@example.com', world.owner);
  const found: string[] = [];
  for (const statement of STATEMENTS) {
    const answer = await runStatement(statement, {
      address,
      applicationName: 'test',
      caller,
      write: false,
      timeoutMs: 30_000,
      lockTimeoutMs: 30_000,
      limit: 200,
      most: 64 * 1024,
    }).then(
      (answered) => renderAnswer(answered, 'json'),
      (error: unknown) => String(error),
    );
    found.push(`${statement}: ${answer}`);
  }
  return found;
}

test('rows behind a policy change no answer and no line of the log', async () => {
  const requests = [
    ...FIXED,
    ...fc.sample(reads, { numRuns: REQUESTS, seed: SEED }),
    ...fc.sample(writes, { numRuns: Math.ceil(REQUESTS / 4), seed: SEED }),
  ];
  const page = await world.signIn();
  const throughPage = async (): Promise<string[]> => {
    const found: string[] = [];
    for (const path of [
      '/as/anon/rest/v1/notes?order=id',
      `/as/user:${ANN}/rest/v1/notes?select=id,parts(word)&order=id`,
    ]) {
      const { status, text } = await page.call(path, { method: 'GET' });
      found.push(`${path} ${status} ${text}`);
    }
    return found;
  };
  const before = await allAnswers(requests);
  const pageBefore = await throughPage();
  const assistantBefore = await asAssistant();
  await admin.query(HIDDEN);
  const after = await allAnswers(requests);
  const different = after.answers.flatMap((answer, index) =>
    answer === before.answers[index] ? [] : [`before:\n${before.answers[index]}\nafter:\n${answer}`],
  );
  expect(different).toEqual([]);
  expect(before.lines).toHaveLength(requests.length);
  expect(after.lines).toEqual(before.lines);
  expect(await throughPage()).toEqual(pageBefore);
  expect(await asAssistant()).toEqual(assistantBefore);
  // Checks that the requests are meaningful: many find rows, and the database refuses many.
  const ok = before.answers.filter((answer) => /\n20[06]\n/.test(answer)).length;
  expect(ok).toBeGreaterThan(requests.length / 4);
  expect(before.answers.join('\n')).toContain('22P02');
  expect((await admin.query('select count(*)::int as n from notes')).rows).toEqual([{ n: 605 }]);
});
