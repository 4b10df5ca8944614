// Tests a rename under load: instances with the file before and after the rename serve one database.
import { afterEach, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/config.ts';
import { raw } from '../../src/postgres/sql.ts';
import { migrate, type MigrateOptions } from '../../src/migrate/migrate.ts';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import {
  AFTER,
  BEFORE,
  load,
  NEW_READS,
  OLD_REQUESTS,
  send as sendAs,
  type Sent,
} from './rename-requests.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

let world: BackendWorld | undefined;
let other: Backend | undefined;

afterEach(async () => {
  const stopped = other?.stop();
  other?.skipDrainDelay();
  await stopped;
  await world?.close();
  other = undefined;
  world = undefined;
});

function parseFile(text: string): Config {
  const loaded = loadConfig({ name: 'svc.yaml', directory: '/nowhere', text }, { variables: {} });
  if (!loaded.ok) throw new Error(loaded.mistakes.map((mistake) => mistake.message).join('\n'));
  return loaded.config;
}

async function apply(
  { owner, options }: BackendWorld,
  text: string,
  more: Partial<MigrateOptions> = {},
): Promise<void> {
  const outcome = await migrate({ owner, config: parseFile(text), log: options.log, ...more });
  expect(outcome.kind).toMatch(/^(?:applied|unchanged)$/);
}

const send = (url: string, method: string, path: string, body?: unknown): Promise<Sent> =>
  sendAs(url, world?.keys.secret ?? '', method, path, body);

async function begin(): Promise<BackendWorld> {
  const started = await startBackendWorld(BEFORE);
  world = started;
  await send(started.url, 'POST', 'lists', { id: 1, name: 'A' });
  await send(started.url, 'POST', 'todos', { id: 1, title: 'First', list_id: 1 });
  return started;
}

async function withNewFile({ options }: BackendWorld): Promise<Backend> {
  other = await startBackend({ ...options, config: parseFile(AFTER) });
  return other;
}

test('an instance with the older file accepts and returns the old names', async () => {
  const { url } = await begin();
  for (const [method, path, sent, body] of OLD_REQUESTS)
    expect([path, await send(url, method, path, sent)]).toEqual([path, { status: expect.any(Number), body }]);
  await apply(world as BackendWorld, AFTER);
  // Immediately, even if the notification has not arrived.
  for (const [method, path, sent, body] of OLD_REQUESTS)
    expect([path, await send(url, method, path, sent)]).toEqual([path, { status: expect.any(Number), body }]);
  expect((await send(url, 'GET', 'todos')).body).toEqual([{ id: 1, title: 'First', list_id: 1 }]);
  expect((await send(url, 'GET', 'tasks?select=headline')).body).toEqual([{ headline: 'First' }]);
});

test('no request fails during the rollout', async () => {
  const started = await begin();
  const before = load([started.url], started.keys.secret);
  await expect.poll(before.sent).toBeGreaterThan(50);
  const { url } = await withNewFile(started);
  const after = load([started.url, url], started.keys.secret);
  await expect.poll(after.sent).toBeGreaterThan(100);
  for (const each of [started.url, url])
    for (const [path, body] of NEW_READS)
      expect([each, path, await send(each, 'GET', path)]).toEqual([each, path, { status: 200, body }]);
  expect([await before.stop(), await after.stop()]).toEqual([[], []]);
});

test('the old names stop working when renamed_from is removed', async () => {
  const started = await begin();
  await apply(started, AFTER);
  expect((await send(started.url, 'GET', 'todos?select=title')).status).toBe(200);
  await apply(started, AFTER.replaceAll(/, renamed_from: \w+|renamed_from: \w+,?/g, ''));
  await expect.poll(async () => (await send(started.url, 'GET', 'todos?select=title')).status).toBe(404);
  expect(await started.owner.query(raw('select * from svc_meta.rename'))).toEqual([]);
});
