// Log lines of slow statements: shape, plan with the caller's role, no values.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { raw } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { collectLog, type LogLine } from '../support/collect-log.ts';

const FILE = `
version: 1
server: { timeouts: { db_query: 1s } }
tables:
  notes:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: owner, type: uuid }
      - { name: body, type: text }
    indexes: [{ columns: [owner] }]
    rls:
      - { operations: [select], using: "owner = auth.uid() and pg_sleep(0.3) is not null" }
      - { operations: [insert, update, delete], using: "true", with_check: "pg_sleep(0.3) is not null" }
rpc:
  nap:
    language: sql
    args: [{ name: seconds, type: float8 }]
    returns: { type: text }
    body: "select 'rested' from pg_sleep(seconds)"
`;
const USER = '5c5f0b1e-7f0c-4d50-9a45-3c1a5c1b2d01';

let world: BackendWorld;
let headers: Record<string, string>;
const { log, lines } = collectLog();

beforeAll(async () => {
  world = await startBackendWorld(FILE, { log, slowMs: 200 });
  const token = await world.token({ sub: USER, role: 'authenticated' });
  headers = {
    apikey: world.keys.publishable,
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
  };
});
afterAll(async () => {
  await world.close();
});

const slow = (): readonly LogLine[] => lines().filter(({ msg }) => msg === 'slow statement');
type Sent = Omit<RequestInit, 'headers'> & { headers?: Record<string, string> };
const ask = (path: string, init: Sent = {}): Promise<Response> =>
  fetch(`${world.url}/rest/v1${path}`, { ...init, headers: { ...headers, ...init.headers } });

async function lineAfter(work: () => Promise<Response>): Promise<LogLine> {
  const before = slow().length;
  await (await work()).text();
  await expect.poll(() => slow().length).toBe(before + 1);
  return slow()[before] as LogLine;
}

test('a slow write is logged with the plan of its caller', async () => {
  const body = JSON.stringify({ owner: USER, body: 'hunter2' });
  const line = await lineAfter(() =>
    ask('/notes', { method: 'POST', body, headers: { 'x-request-id': 'slow-write' } }),
  );
  expect(line).toMatchObject({
    level: 'warn',
    requestId: 'slow-write',
    role: 'authenticated',
    sql: expect.stringContaining('$1'),
    plan: expect.stringContaining('Insert on notes'),
  });
  expect(Number(line['ms'])).toBeGreaterThanOrEqual(200);
});

test('a slow read is logged once, with its policy in the plan and no values', async () => {
  const line = await lineAfter(() =>
    ask('/notes?select=id&body=eq.hunter2', { headers: { 'x-request-id': 'slow-read' } }),
  );
  expect(line).toMatchObject({ requestId: 'slow-read', role: 'authenticated', rows: 1 });
  expect(line['plan']).toMatch(/Index Scan|Bitmap|Seq Scan/);
  // Part of the policy.
  expect(line['plan']).toMatch(/pg_sleep.* IS NOT NULL/);
  expect(line['plan']).toMatch(/body = \$\d/);
  expect(Object.keys(line)).not.toContain('sqlstate');
  for (const value of ['hunter2', 'hunter3']) await (await ask(`/notes?select=id&body=eq.${value}`)).text();
  // Another shape, which is logged after any repetition would have been.
  await lineAfter(() => ask('/notes?select=id,owner&body=eq.hunter2'));
  expect(slow().filter(({ shape }) => shape === line['shape'])).toHaveLength(1);
  expect(JSON.stringify(slow())).not.toMatch(/hunter|5c5f0b1e/);
});

test('a statement that times out is logged with the error of the database', async () => {
  const line = await lineAfter(() => ask('/rpc/nap', { method: 'POST', body: '{"seconds":30}' }));
  expect(line).toMatchObject({ sqlstate: '57014', plan: expect.stringMatching(/Result|Scan/) });
});

test('fast statements are not logged, and no session remains', async () => {
  const before = slow().length;
  expect((await ask('/rpc/nap', { method: 'POST', body: '{"seconds":0}' })).status).toBe(200);
  const sessions = raw(
    `select from pg_stat_activity where datname = current_database() and application_name like '%plan%'`,
  );
  await expect.poll(() => world.owner.query(sessions)).toEqual([]);
  expect(slow()).toHaveLength(before);
});
