// One client cannot hold all of `server.max_in_flight`.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../../support/backend-world.ts';

const MAX_IN_FLIGHT = 8;
const MAX_OF_ONE = 6;
const FILE = `
version: 1
server: { max_in_flight: ${MAX_IN_FLIGHT}, trusted_proxies: [loopback] }
database: { pool: { max: 12, min: 12 } }
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }]
    rls: [{ operations: [select], using: "true" }]
rpc:
  gate: { language: sql, returns: { type: void }, body: "select pg_advisory_xact_lock_shared(4712)" }
`;

let world: BackendWorld;
let database: pg.Client;
beforeAll(async () => {
  world = await startBackendWorld(FILE);
  database = new pg.Client(world.databaseUrl);
  await database.connect();
});
afterAll(async () => {
  await database.end();
  await world.close();
});

const ask = (address: string, path: string, method = 'GET'): Promise<Response> =>
  fetch(`${world.url}/rest/v1/${path}`, {
    method,
    headers: {
      apikey: world.keys.publishable,
      'content-type': 'application/json',
      'x-forwarded-for': address,
    },
    ...(method === 'POST' ? { body: '{}' } : {}),
  });

test('a greedy client leaves a quarter of the slots to others, and regains them later', async () => {
  await database.query('select pg_advisory_lock(4712)');
  const refused: number[] = [];
  const pending = Array.from({ length: MAX_IN_FLIGHT + 4 }, async () => {
    const { status } = await ask('192.0.2.1', 'rpc/gate', 'POST');
    if (status === 503) refused.push(status);
    return status;
  });
  try {
    await expect.poll(() => refused.length).toBe(MAX_IN_FLIGHT + 4 - MAX_OF_ONE);
    for (const other of ['198.51.100.7', '2001:db8::1', '198.51.100.8'])
      expect((await ask(other, 'notes')).status).toBe(200);
    const more = await ask('192.0.2.1', 'notes');
    expect([more.status, await more.json()]).toMatchObject([503, { code: 'SVC120' }]);
  } finally {
    await database.query('select pg_advisory_unlock(4712)');
  }
  const statuses = await Promise.all(pending);
  expect(statuses.filter((status) => status === 204)).toHaveLength(MAX_OF_ONE);
  await expect.poll(async () => (await ask('192.0.2.1', 'notes')).status).toBe(200);
});
