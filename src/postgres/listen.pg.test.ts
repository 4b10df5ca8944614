import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { startSilentProxy } from '../../test/support/network/silent-proxy.ts';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { silentLog } from '../log/log.ts';
import { listen, type Listener } from './listen.ts';
import { parseAddress } from './address/parse-address.ts';

let database: TestDatabase;
let other: pg.Client;
let listener: Listener | undefined;

beforeAll(async () => {
  database = await createDatabase();
  other = new pg.Client(database.url);
  await other.connect();
});
afterEach(async () => {
  await listener?.close();
  listener = undefined;
});
afterAll(async () => {
  await other.end();
  await database.drop();
});

function recorder(): { heard: string[]; handlers: Parameters<typeof listen>[2] } {
  const heard: string[] = [];
  return {
    heard,
    handlers: {
      onNotification: (channel, payload) => heard.push(`${channel} ${payload}`),
      onReconnect: () => heard.push('reconnected'),
    },
  };
}

test('a notification sent right after `listen` resolves is received', async () => {
  const { heard, handlers } = recorder();
  listener = await listen(
    { address: parseAddress(database.url), applicationName: 'listen-1' },
    ['a', 'B"c'],
    handlers,
    silentLog,
  );
  await other.query(`notify a, 'x'; notify "B""c", 'y'; notify d, 'z'`);
  await expect.poll(() => heard).toEqual(['a x', 'B"c y']);
});

test('a lost connection is reopened, and reports a possible gap', async () => {
  const { heard, handlers } = recorder();
  listener = await listen(
    { address: parseAddress(database.url), applicationName: 'listen-2' },
    ['a'],
    handlers,
    silentLog,
  );
  await other.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'listen-2'",
  );
  await expect.poll(() => heard).toEqual(['reconnected']);
  await other.query('notify a');
  await expect.poll(() => heard).toEqual(['reconnected', 'a ']);
});

test('each loss of a connection that has worked is followed by the shortest pause', async () => {
  const { heard, handlers } = recorder();
  const MIN_PAUSE_MS = 250;
  listener = await listen(
    { address: parseAddress(database.url), applicationName: 'listen-5' },
    ['a'],
    handlers,
    silentLog,
  );
  const timers = vi.spyOn(globalThis, 'setTimeout');
  try {
    for (let losses = 1; losses <= 3; losses++) {
      await other.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'listen-5'",
      );
      await expect.poll(() => heard).toHaveLength(losses);
    }
    const delays = timers.mock.calls.map(([, delay]) => delay);
    expect(delays.filter((delay) => delay === MIN_PAUSE_MS)).toHaveLength(3);
    expect(delays).not.toContain(2 * MIN_PAUSE_MS);
  } finally {
    timers.mockRestore();
  }
});

test('a connection that has died without a word is noticed', async () => {
  const { heard, handlers } = recorder();
  const way = await startSilentProxy(database.url);
  try {
    listener = await listen(
      { address: parseAddress(way.through(database.url)), applicationName: 'listen-4' },
      ['a'],
      handlers,
      silentLog,
      { everyMs: 50, withinMs: 200 },
    );
    way.vanish();
    await other.query('notify a');
    way.recover();
    await expect.poll(() => heard).toEqual(['reconnected']);
    await other.query('notify a');
    await expect.poll(() => heard).toEqual(['reconnected', 'a ']);
  } finally {
    await listener?.close();
    await way.close();
  }
});

test('a server that cannot be reached does not hold up the start', async () => {
  const { heard, handlers } = recorder();
  const url = new URL(database.url);
  url.port = '1';
  listener = await listen(
    { address: parseAddress(url.href), applicationName: 'listen-3' },
    ['a'],
    handlers,
    silentLog,
  );
  expect(heard).toEqual([]);
});
