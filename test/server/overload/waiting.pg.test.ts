// More requests than connections: abandoned requests are not run, callers take turns, and a request without a slot is
// rejected at once.
import { randomUUID } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RecentLines } from '../../../src/log/recent-lines.ts';
import { startBackendWorld, type BackendWorld } from '../../support/backend-world.ts';

const FILE = `
version: 1
server:
  max_in_flight: 100
  cors: { origins: ["https://app.example.com"] }
database: { pool: { max: 4, min: 4, queue: 60 } }
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }]
    rls: [{ operations: [select], using: "true" }]
rpc:
  nap:
    language: plpgsql
    args: [{ name: seconds, type: float }]
    returns: { type: int }
    body: "begin perform nextval('started'); perform pg_sleep(seconds); return currval('started'); end"
  turn: { language: sql, returns: { type: int }, body: "select nextval('turns')::int" }
  gate: { language: sql, returns: { type: void }, body: "select pg_advisory_xact_lock_shared(4711)" }
`;

let world: BackendWorld;
let database: pg.Client;
beforeAll(async () => {
  world = await startBackendWorld(FILE, {
    dashboard: { mode: 'readonly', recentLines: new RecentLines() },
    prepare: async (url) => {
      const client = new pg.Client(url);
      await client.connect();
      // A rollback of the statement does not undo them, so they count started statements.
      for (const name of ['started', 'turns'])
        await client.query(`create sequence ${name}; grant usage on sequence ${name} to public`);
      await client.end();
    },
  });
  database = new pg.Client(world.databaseUrl);
  await database.connect();
});
afterAll(async () => {
  await database.end();
  await world.close();
});

type Options = { readonly as?: string | undefined; readonly signal?: AbortSignal };

function ask(path: string, body?: object, { as, signal }: Options = {}): Promise<Response> {
  return fetch(`${world.url}/rest/v1/${path}`, {
    method: body ? 'POST' : 'GET',
    headers: {
      apikey: world.keys.publishable,
      'content-type': 'application/json',
      origin: 'https://app.example.com',
      ...(as === undefined ? {} : { authorization: `Bearer ${as}` }),
    },
    ...(body ? { body: JSON.stringify(body) } : {}),
    ...(signal ? { signal } : {}),
  });
}

const aUser = (): Promise<string> => world.token({ sub: randomUUID(), role: 'authenticated' });
const users = (count: number): Promise<string[]> => Promise.all(Array.from({ length: count }, aUser));

async function value(sql: string): Promise<number> {
  const { rows } = await database.query<{ value: string }>(sql);
  return Number(rows[0]?.value ?? 0);
}
const begun = (): Promise<number> =>
  value('select case when is_called then last_value else 0 end as value from started');
const active = (word: string): Promise<number> =>
  value(
    `select count(*) as value from pg_stat_activity where usename = 'authenticator' and state = 'active'
     and datname = current_database() and query like '%${word}%'`,
  );

/** Runs `work` while all connections are in use, so that its requests wait. */
async function whileBusy<T>(work: () => Promise<T>): Promise<T> {
  await database.query('select pg_advisory_lock(4711)');
  const taken: Array<Promise<Response>> = [];
  try {
    for (let n = 0; n < 4; n++) taken.push(ask('rpc/gate', {}, { as: await aUser() }));
    await expect.poll(() => active('gate')).toBe(4);
    return await work();
  } finally {
    await database.query('select pg_advisory_unlock(4711)');
    await Promise.all(taken);
  }
}

test('abandoned requests are not run, and running ones are cancelled', async () => {
  const before = await begun();
  const gone = new AbortController();
  const callers = await users(5);
  let refused = 0;
  const calls = Array.from({ length: 70 }, async (_, n) => {
    try {
      const answer = await ask('rpc/nap', { seconds: 60 }, { as: callers[n % 5], signal: gone.signal });
      refused += answer.status === 503 ? 1 : 0;
      return answer.status;
    } catch {
      return 'gone';
    }
  });
  // Four run, and 45 wait. The rest of the 60 places is for callers without waiting requests.
  await expect.poll(() => active('nap')).toBe(4);
  await expect.poll(() => refused).toBe(70 - 4 - 45);
  gone.abort();
  expect(new Set(await Promise.all(calls))).toEqual(new Set([503, 'gone']));
  // As soon as the server has seen them go.
  await expect.poll(async () => (await ask('notes')).status).toBe(200);
  await expect.poll(() => active('nap')).toBe(0);
  expect((await begun()) - before).toBe(4);
});

test('statements of one caller leave connections for others, who do not wait', async () => {
  const [greedy, other] = await users(2);
  await database.query('select pg_advisory_lock(4711)');
  const gone = new AbortController();
  const slow = Array.from({ length: 29 }, () =>
    ask('rpc/gate', {}, { as: greedy, signal: gone.signal }).catch(() => undefined),
  );
  try {
    // Half of the four.
    await expect.poll(() => active('gate')).toBe(2);
    for (let n = 0; n < 5; n++) {
      expect((await ask('notes', undefined, { as: other })).status).toBe(200);
      // Without a user the address counts.
      expect((await ask('notes')).status).toBe(200);
      expect((await ask('rpc/turn', {}, { as: other })).status).toBe(200);
    }
    expect(await active('gate')).toBe(2);
  } finally {
    gone.abort();
    await database.query('select pg_advisory_unlock(4711)');
    await Promise.all(slow);
  }
});

/** Sends one request more than a caller can have waiting. Resolves when the last one is refused. */
async function fill(as: string | undefined, path: string, body: object): Promise<Array<Promise<Response>>> {
  let refused = 0;
  const asked = Array.from({ length: 31 }, async () => {
    const answer = await ask(path, body, { as });
    refused += answer.status === 503 ? 1 : 0;
    return answer;
  });
  await expect.poll(() => refused).toBeGreaterThan(0);
  return asked;
}

test('callers take turns: a caller behind thirty requests of another waits for one of them', async () => {
  const [many, late] = await users(2);
  const turns = async (answers: ReadonlyArray<Promise<Response>>): Promise<number[]> => {
    const done = (await Promise.all(answers)).filter(({ status }) => status === 200);
    return await Promise.all(done.map(async (answer) => Number(await answer.json())));
  };
  const asked = await whileBusy(async () => [
    await fill(many, 'rpc/turn', {}),
    await fill(late, 'rpc/turn', {}),
  ]);
  const [first = [], second = []] = await Promise.all(asked.map(turns));
  expect(first.length).toBeGreaterThan(10);
  // There are four connections, and each starts the next request at once.
  expect(Math.min(...second)).toBeLessThan(10);
});

test('a request without a slot is rejected at once, in the format of the API, before its body is read', async () => {
  const [full] = await users(1);
  const { answer, waiting } = await whileBusy(async () => {
    const waiting = await fill(full, 'rpc/turn', {});
    const { hostname, port } = new URL(world.url);
    const socket = connect(Number(port), hostname);
    let answer = '';
    socket.on('data', (bytes: Buffer) => (answer += bytes.toString()));
    const head = [
      'POST /rest/v1/rpc/turn HTTP/1.1',
      'Host: x',
      `apikey: ${world.keys.publishable}`,
      `Authorization: Bearer ${full}`,
      'Origin: https://app.example.com',
      'Content-Type: application/json',
      'Content-Length: 1000',
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    await expect.poll(() => answer).toContain('}');
    socket.destroy();
    return { answer, waiting };
  });
  expect(answer).toMatch(/^HTTP\/1\.1 503 /);
  expect(answer).toContain('"code":"SVC120"');
  expect(answer).toMatch(/\r\nretry-after: \d+\r\n/i);
  expect(answer).toMatch(/\r\naccess-control-allow-origin: https:\/\/app.example.com\r\n/i);
  expect(answer).toMatch(/\r\nx-request-id: /i);
  await Promise.all(waiting);
});

describe('when too many requests are under way', () => {
  const sockets: Socket[] = [];
  beforeAll(async () => {
    const { hostname, port } = new URL(world.url);
    for (let n = 0; n < 100; n++) {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => {});
      // Its body never arrives.
      const head = `POST /rest/v1/rpc/turn HTTP/1.1\r\nHost: x\r\napikey: ${world.keys.publishable}`;
      socket.write(`${head}\r\nContent-Length: 9\r\n\r\n`);
      sockets.push(socket);
    }
    while ((await fetch(`${world.url}/nothing`)).status !== 503) await new Promise(setImmediate);
  });
  afterAll(() => {
    for (const socket of sockets) socket.destroy();
  });

  test.each([
    ['/rest/v1/notes', { code: 'SVC120' }],
    ['/auth/v1/health', { error_code: 'overloaded' }],
    ['/storage/v1/bucket', { statusCode: '503', code: 'SlowDown' }],
    ['/functions/v1/nothing', { code: 'overloaded' }],
    ['/nothing', { code: 'overloaded' }],
  ])('%s refuses in its own form, and probes are answered', async (path, body) => {
    const answer = await fetch(world.url + path, {
      headers: { apikey: world.keys.publishable, origin: 'https://app.example.com' },
    });
    expect(answer.status).toBe(503);
    expect(answer.headers.get('retry-after')).toBe('1');
    expect(answer.headers.get('access-control-allow-origin')).toBe('https://app.example.com');
    expect(answer.headers.get('x-request-id')).toBeTruthy();
    expect(await answer.json()).toMatchObject(body);
    expect((await fetch(`${world.url}/live`)).status).toBe(200);
  });

  test('a preflight and the sign-in of the dashboard have room', async () => {
    const preflight = await fetch(`${world.url}/rest/v1/notes`, {
      method: 'OPTIONS',
      headers: { origin: 'https://app.example.com', 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(200);
    expect((await fetch(`${world.url}/dashboard/api/session`)).status).toBe(200);
  });
});
