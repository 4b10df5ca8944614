// How often a reload reads the catalog: `version` counts the snapshots.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { raw } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

const TABLE = 'fields: [{ name: id, type: bigserial, primary_key: true }]';

let world: BackendWorld;

beforeAll(async () => {
  world = await startBackendWorld(fileWith('notes'));
});
afterAll(() => world?.close());

function fileWith(...tables: readonly string[]): string {
  return ['version: 1', 'tables:', ...tables.map((table) => `  ${table}: { ${TABLE} }`)].join('\n');
}

function configWith(...tables: readonly string[]): Config {
  const source = { name: 'svc.yaml', directory: undefined, text: fileWith(...tables) };
  const loaded = loadConfig(source, { variables: {} });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  return loaded.config;
}

const version = (): number => world.backend.snapshot().version;

test('a reload that migrates reads the catalog once, ignoring its own notification', async () => {
  const before = version();
  await world.backend.reload(configWith('notes', 'papers'));
  expect(world.backend.snapshot().catalog.relations.has('public.papers')).toBe(true);
  // A second read would have happened before this reload, whose own read is counted too.
  await world.backend.reload(configWith('notes', 'papers'));
  expect(version() - before).toBe(2);
});

test('a notification from another instance causes a read', async () => {
  const before = version();
  await world.owner.query(raw('create table public.by_hand (id int)'));
  await world.owner.query(raw("select pg_notify('svc_schema', '')"));
  await expect.poll(() => world.backend.snapshot().catalog.relations.has('public.by_hand')).toBe(true);
  expect(version() - before).toBe(1);
});
