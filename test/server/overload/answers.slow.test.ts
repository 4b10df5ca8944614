// Responses that are not read: their memory is limited, each caller has a share of it, and small requests are
// served.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { generateApiKeys } from '../../../src/identity/api-key.ts';
import { startBackendWorld } from '../../support/backend-world.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { sendRaw, type RawExchange } from '../../support/network/raw-http.ts';
import { startSvc, type SvcProcess } from '../../support/svc-process.ts';

const MB = 1024 * 1024;
/** Two of them fit. */
const LARGE = 20 * MB;
const file = (timeouts: string): string => `
version: 1
server:
  response_budget: 48MB
  trusted_proxies: [loopback]
  timeouts: { ${timeouts} }
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }]
    rls: [{ operations: [select, insert], using: "true", with_check: "true" }]
rpc:
  large: { language: sql, volatility: stable, args: [{ name: bytes, type: int }], returns: { type: text },
    body: "select repeat('x', bytes)" }
  made: { language: sql, args: [{ name: bytes, type: int }], returns: { type: text },
    body: "select repeat('x', bytes)" }
`;

const keys = generateApiKeys();
const directory = mkdtempSync(join(tmpdir(), 'svc-answers-'));
let database: TestDatabase;
/** Runs in a separate process, whose memory is measured. */
let svc: SvcProcess;
beforeAll(async () => {
  const config = join(directory, 'svc.yaml');
  writeFileSync(config, file('response_idle: 2s'));
  database = await createDatabase();
  svc = await startSvc({
    command: 'serve',
    config,
    arguments: ['--migrate'],
    env: {
      SVC_DATABASE_URL: database.url,
      SVC_PUBLISHABLE_KEY: keys.publishable,
      SVC_SECRET_KEY: keys.secret,
    },
  });
  await fill(30);
});
afterAll(async () => {
  await svc.stop();
  await database.drop();
  rmSync(directory, { recursive: true, force: true });
});

function ask(path: string, from: string, init: RequestInit = {}): Promise<Response> {
  return fetch(svc.url + path, {
    ...init,
    headers: { apikey: keys.publishable, 'content-type': 'application/json', 'x-forwarded-for': from },
  });
}

async function fill(count: number): Promise<void> {
  const rows = Array.from({ length: count }, () => ({ body: 'x'.repeat(1_000) }));
  const filled = await ask('/rest/v1/notes', '10.0.0.1', { method: 'POST', body: JSON.stringify(rows) });
  expect(filled.status).toBe(201);
}

function memory(): number {
  return Number(spawnSync('ps', ['-o', 'rss=', '-p', String(svc.child.pid)]).stdout) * 1024;
}

/** Sends a request, reads the beginning of the response and then stops reading. */
async function startReading(path: string, from: string, id: string, body?: string): Promise<RawExchange> {
  const head = [
    `${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1`,
    'Host: x',
    `apikey: ${keys.publishable}`,
    `X-Forwarded-For: ${from}`,
    `X-Request-Id: ${id}`,
    ...(body === undefined ? [] : ['Content-Type: application/json', `Content-Length: ${body.length}`]),
  ];
  const raw = sendRaw(svc.url, `${head.join('\r\n')}\r\n\r\n${body ?? ''}`);
  raw.socket.once('data', () => raw.socket.pause());
  await expect.poll(() => raw.received()).toMatch(/^HTTP\/1\.1 \d+ /);
  return raw;
}

const responseStatus = (raw: RawExchange): string => raw.received().slice(9, 12);

/** Polls while `work` runs, and returns the number of failed requests. */
async function readAlong(work: () => Promise<void>): Promise<{ failed: number; asked: number; rss: number }> {
  const seen = { failed: 0, asked: 0, rss: 0 };
  const over = new AbortController();
  const reading = (async () => {
    while (!over.signal.aborted) {
      const answer = await ask('/rest/v1/notes?select=id,body', '10.9.9.9');
      await answer.arrayBuffer();
      seen.asked += 1;
      if (answer.status !== 200) seen.failed += 1;
      seen.rss = Math.max(seen.rss, memory());
    }
  })();
  await work().finally(() => over.abort());
  await reading;
  return seen;
}

test('slow readers of large responses: memory stays within the budget, and small reads continue', async () => {
  await (await ask(`/rest/v1/rpc/large?bytes=${LARGE}`, '10.0.0.1')).arrayBuffer();
  const before = memory();
  const slow: RawExchange[] = [];
  const { failed, asked, rss } = await readAlong(async () => {
    const path = `/rest/v1/rpc/large?bytes=${LARGE}`;
    await Promise.all(
      Array.from({ length: 10 }, async (_, n) =>
        slow.push(await startReading(path, `10.1.0.${n}`, `slow-${n}`)),
      ),
    );
  });
  const statuses = slow.map(responseStatus);
  expect(statuses.filter((status) => status === '200')).toHaveLength(2);
  expect(statuses.filter((status) => status === '503')).toHaveLength(8);
  const refused = slow.find((raw) => responseStatus(raw) === '503')?.received();
  expect(refused).toContain('"code":"SVC121"');
  expect(refused).toMatch(/\r\nretry-after: 1\r\n/i);
  expect(asked).toBeGreaterThan(0);
  expect(failed).toBe(0);
  expect((rss - before) / MB).toBeLessThan(48 + 100);
  // A client that does not read the response loses the connection and the memory of the response.
  for (const one of slow) expect(one.received().length).toBeLessThan(LARGE);
  await expect.poll(() => svc.output().match(/"slow-\d".*cut off: its client read nothing/g)?.length).toBe(2);
  const again = await ask(`/rest/v1/rpc/large?bytes=${LARGE}`, '10.2.0.1');
  expect(again.status).toBe(200);
  await again.arrayBuffer();
  for (const { socket } of slow) socket.destroy();
});

test('a caller can use at most half of the budget, also with a long list', async () => {
  const path = `/rest/v1/notes?select=id,${Array.from({ length: 30 }, (_, n) => `b${n}:body`).join()}&limit=5000`;
  await fill(620);
  // 20 MB each.
  const first = await startReading(path, '10.3.0.1', 'list-1');
  const second = await startReading(path, '10.3.0.1', 'list-2');
  const third = await startReading(path, '10.3.0.2', 'list-3');
  expect([first, second, third].map(responseStatus)).toEqual(['200', '503', '200']);
  for (const { socket } of [first, second, third]) socket.destroy();
});

test('a response that is read slowly is complete, even after the deadline of its request', async () => {
  const hasty = await startBackendWorld(file('request: 3s'));
  const raw = sendRaw(
    hasty.url,
    `GET /rest/v1/rpc/large?bytes=${8 * MB} HTTP/1.1\r\nHost: x\r\napikey: ${hasty.keys.publishable}\r\n\r\n`,
  );
  const since = performance.now();
  while (performance.now() - since < 4_000) {
    raw.socket.resume();
    await new Promise((resolve) => raw.socket.once('data', resolve));
    raw.socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  expect(responseStatus(raw)).toBe('200');
  expect(raw.received().length).toBeLessThan(8 * MB);
  raw.socket.resume();
  await expect.poll(() => raw.received().length).toBeGreaterThan(8 * MB);
  raw.socket.destroy();
  await hasty.close();
});

test('a call with side effects is refused before it begins, or not at all', async () => {
  const made = (from: string, bytes: number): Promise<RawExchange> =>
    startReading('/rest/v1/rpc/made', from, 'made', JSON.stringify({ bytes }));
  const slow = [
    await startReading(`/rest/v1/rpc/large?bytes=${LARGE}`, '10.5.0.1', 'held-1'),
    await startReading(`/rest/v1/rpc/large?bytes=${LARGE}`, '10.5.0.2', 'held-2'),
    // It begins before its size is known.
    await made('10.5.0.1', 10 * MB),
    // No call begins when the share is used up.
    await made('10.5.0.1', 10),
    await made('10.5.0.3', 10),
  ];
  expect(slow.map(responseStatus)).toEqual(['200', '200', '200', '503', '200']);
  expect(slow[3]?.received()).toContain('"code":"SVC121"');
  for (const { socket } of slow) socket.destroy();
});
