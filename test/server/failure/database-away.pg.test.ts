// A complete backend whose database becomes unreachable, is locked, or is read-only.
import pg from 'pg';
import { inject, afterEach, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../../support/backend-world.ts';
import { startSilentProxy, type SilentProxy } from '../../support/network/silent-proxy.ts';

const YAML = `version: 1
project: { name: away }
server: { timeouts: { db_query: 1s } }
database: { pool: { max: 4 } }
tables:
  notes:
    fields:
      - { name: id, type: integer, primary_key: true }
    rls:
      - operations: [select, insert]
        using: "true"
        with_check: "true"
storage:
  open:
    public: true
`;

let world: BackendWorld | undefined;
let proxy: SilentProxy | undefined;

afterEach(async () => {
  await world?.close();
  await proxy?.close();
  world = undefined;
  proxy = undefined;
});

type Call = { status: number; retryAfter: string | null; text: string };

type Init = { method?: string; headers?: Record<string, string>; body?: string };

async function call(path: string, init: Init = {}): Promise<Call> {
  if (!world) throw new Error('no world');
  const response = await fetch(`${world.url}${path}`, {
    ...init,
    headers: { apikey: world.keys.publishable, 'content-type': 'application/json', ...init.headers },
  });
  return {
    status: response.status,
    retryAfter: response.headers.get('retry-after'),
    text: await response.text(),
  };
}

const ready = async (): Promise<number> => (await call('/ready')).status;
const read = async (): Promise<number> => (await call('/rest/v1/notes')).status;
/** Wrong passwords for one account are limited, wherever they come from. */
const signIn = (name = 'a'): Promise<Call> =>
  call('/auth/v1/token?grant_type=password', {
    method: 'POST',
    body: JSON.stringify({ email: `${name}@example.com`, password: 'a long password' }),
  });

test('a service whose database becomes unreachable under load is not ready until it returns', async () => {
  const way = await startSilentProxy(inject('postgresUrl'));
  proxy = way;
  world = await startBackendWorld(YAML, {
    through: (url) => way.through(url),
    jobsMayFail: ['storage cleanup'],
  });
  await expect.poll(ready).toBe(200);
  const load = new AbortController();
  const readers = Array.from({ length: 12 }, async () => {
    while (!load.signal.aborted) await read();
  });
  const signIns = Array.from({ length: 3 }, () => signIn());
  await Promise.all(signIns);
  way.vanish();
  await expect.poll(ready).toBe(503);
  way.recover();
  await expect.poll(ready).toBe(200);
  // Ready again.
  expect(await read()).toBe(200);
  expect((await signIn()).status).toBe(400);
  load.abort();
  await Promise.all(readers);
  const all = await Promise.all(Array.from({ length: 30 }, read));
  expect(new Set(all)).toEqual(new Set([200]));
});

test('a lock on the users table fails sign-ins with a clear error, and nothing else', async () => {
  world = await startBackendWorld(YAML);
  const secret = { apikey: world.keys.secret, authorization: `Bearer ${world.keys.secret}` };
  const uploaded = await call('/storage/v1/object/open/a.txt', {
    method: 'POST',
    headers: { ...secret, 'content-type': 'text/plain' },
    body: 'hello',
  });
  expect(uploaded.status).toBe(200);
  const locker = new pg.Client({ connectionString: world.databaseUrl });
  await locker.connect();
  try {
    await locker.query('begin; lock table auth.users');
    const signIns = Array.from({ length: 20 }, (_, index) => signIn(`a${index}`));
    await expect
      .poll(async () => (await locker.query('select from pg_locks where not granted')).rowCount)
      .toBeGreaterThan(3);
    await expect.poll(async () => (await call('/ready')).text).toMatch(/"status":"degraded".*"auth_waits"/);
    expect(await ready()).toBe(200);
    const file = await call('/storage/v1/object/public/open/a.txt');
    expect([file.status, file.text]).toEqual([200, 'hello']);
    expect(await read()).toBe(200);
    for (const { status, retryAfter } of await Promise.all(signIns)) {
      expect([503, 504]).toContain(status);
      expect(Number(retryAfter)).toBeGreaterThan(0);
    }
    expect(await ready()).toBe(200);
  } finally {
    await locker.end();
  }
  await expect.poll(async () => (await signIn()).status).toBe(400);
});

test('a read-only database: reads are served, writes and sign-ups get a clear error, and it is not ready', async () => {
  // The sessions of background jobs are ended, too.
  world = await startBackendWorld(YAML, { jobsMayFail: ['storage cleanup', 'could not'] });
  const { databaseUrl } = world;
  const administrator = new pg.Client({ connectionString: databaseUrl });
  await administrator.connect();
  const name = administrator.escapeIdentifier(new URL(databaseUrl).pathname.slice(1));
  const become = async (readOnly: boolean): Promise<void> => {
    await administrator.query(
      `set transaction_read_only = off; alter database ${name} set default_transaction_read_only = ${readOnly}`,
    );
    await administrator.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`,
    );
  };
  const write = (id: number): Promise<Call> =>
    call('/rest/v1/notes', { method: 'POST', body: JSON.stringify({ id }) });
  const signUp = (): Promise<Call> =>
    call('/auth/v1/signup', {
      method: 'POST',
      body: JSON.stringify({ email: 'b@example.com', password: 'a long password' }),
    });
  try {
    expect((await write(1)).status).toBe(201);
    await become(true);
    await expect.poll(async () => (await call('/ready')).text).toMatch(/read-only/);
    await expect.poll(read).toBe(200);
    const refused = await write(2);
    expect([refused.status, refused.retryAfter]).toEqual([503, '5']);
    expect(refused.text).toMatch(/SVC113/);
    const signedUp = await signUp();
    expect([signedUp.status, signedUp.retryAfter]).toEqual([503, '5']);
    await become(false);
    await expect.poll(ready).toBe(200);
    await expect.poll(async () => (await write(2)).status).toBe(201);
  } finally {
    await administrator.end();
  }
});

test('an interrupted write is not reported as safe to retry', async () => {
  const way = await startSilentProxy(inject('postgresUrl'));
  proxy = way;
  // The write shall still wait for the lock when its connection is cut.
  const patient = YAML.replace('db_query: 1s', 'db_query: 60s');
  world = await startBackendWorld(patient, { through: (url) => way.through(url) });
  await expect.poll(read).toBe(200);
  const locker = new pg.Client({ connectionString: world.databaseUrl });
  await locker.connect();
  // Excludes locks of other databases of the server.
  const waiting = `select from pg_locks where not granted and relation = 'notes'::regclass
    and database = (select oid from pg_database where datname = current_database())`;
  try {
    await locker.query('begin; lock table notes');
    const write = call('/rest/v1/notes', { method: 'POST', body: JSON.stringify({ id: 9 }) });
    await expect.poll(async () => (await locker.query(waiting)).rowCount).toBe(1);
    way.reset();
    const { status, retryAfter, text } = await write;
    expect([status, retryAfter]).toEqual([504, null]);
    expect(text).toMatch(/SVC112/);
    expect(text).not.toMatch(/try again/i);
  } finally {
    await locker.end();
  }
});
