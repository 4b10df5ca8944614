import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { ErrorReports } from './error-reports.ts';
import { createLog, type Log } from './log.ts';

type Report = Readonly<Record<string, unknown>>;

let server: Server;
let got: Report[] = [];
let status = 200;
let now = 0;
let reports: ErrorReports;
let log: Log;

beforeAll(async () => {
  server = createServer((request, response) => {
    void text(request).then((body) => {
      got.push({ type: request.headers['content-type'], ...(JSON.parse(body) as Report) });
      response.writeHead(status).end('thank you');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(() => {
  server.close();
});
beforeEach(() => {
  [got, status, now] = [[], 200, 1_000_000];
  const { port } = server.address() as AddressInfo;
  reports = new ErrorReports({ url: `http://127.0.0.1:${port}/in`, release: '1.2.3', now: () => now });
  log = createLog({ destination: { write: () => {} }, sinks: [reports] });
});

function counts(): Record<string, number> {
  return Object.fromEntries(reports.readings().map(({ labels, value }) => [labels?.['result'], value]));
}

test('an error is sent as it was logged; other lines are not', async () => {
  const error = Object.assign(new TypeError('x is not a function'), { code: 'ERR_X', password: 'hunter2' });
  log.error({ err: error, requestId: 'r-1', route: '/rest/v1/*' }, 'fault');
  log.error(
    { function: 'hello', requestId: 'r-2', error: 'Error: broken\n    at hello.js:1:1' },
    'it failed',
  );
  log.error({ status: 500, requestId: 'r-3' }, 'request');
  log.warn({ err: error }, 'a warning');
  log.info({ err: error }, 'in passing');
  await reports.settled();
  expect(got.toSorted((a, b) => String(a['requestId']).localeCompare(String(b['requestId'])))).toEqual([
    {
      type: 'application/json',
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      time: expect.stringMatching(/^\d{4}-/),
      release: '1.2.3',
      code: 'ERR_X',
      message: 'x is not a function',
      stack: expect.stringMatching(/^TypeError: x is not a function\n +at /),
      requestId: 'r-1',
      route: '/rest/v1/*',
      count: 1,
    },
    expect.objectContaining({ function: 'hello', message: 'Error: broken', requestId: 'r-2' }),
  ]);
  expect(JSON.stringify(got)).not.toContain('hunter2');
});

test('the same error is sent once a minute with how many there were, and ten of all kinds', async () => {
  for (let n = 0; n < 7; n++) {
    if (n >= 5) now += 61_000;
    log.error({ err: new Error(`row ${n}`) }, 'fault');
  }
  await reports.settled();
  expect(got.map(({ count }) => count)).toEqual([1, 5, 1]);
  now += 61_000;
  for (let n = 0; n < 20; n++)
    log.error({ err: { stack: `Error\n    at place-${n}`, message: 'm' } }, 'fault');
  await reports.settled();
  expect(got).toHaveLength(13);
  expect(counts()).toEqual({ sent: 13, failed: 0, suppressed: 14 });
});

test('a collector that refuses is not asked again', async () => {
  status = 503;
  log.error({ err: new Error('once') }, 'fault');
  await reports.settled();
  expect([got.length, counts()]).toEqual([1, { sent: 0, failed: 1, suppressed: 0 }]);
});
