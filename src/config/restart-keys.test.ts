import { expect, test } from 'vitest';
import { loadConfig } from './load.ts';
import { describeSchema } from './schema/schema.ts';
import type { Config } from './config.ts';
import { keyEffect, keysForRestart } from './restart-keys.ts';

type Node = { readonly properties?: Readonly<Record<string, Node>>; readonly anyOf?: readonly Node[] };

/** Lists keys with fixed names. Keys below a map of names count as part of the map. */
function leaves(node: Node, path: readonly string[] = []): string[] {
  const branches = [node, ...(node.anyOf ?? [])].flatMap(({ properties }) =>
    Object.entries(properties ?? {}),
  );
  if (branches.length === 0) return [path.join('.')];
  return branches.flatMap(([name, child]) => leaves(child, [...path, name]));
}

function read(text: string): Config {
  const loaded = loadConfig(
    { name: 'svc.yaml', directory: undefined, text: `version: 1\n${text}` },
    { variables: {} },
  );
  if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join('\n'));
  return loaded.config;
}

test('every key of the file is known to need a reload or a restart', () => {
  const keys = leaves(describeSchema());
  expect(keys.length).toBeGreaterThan(40);
  expect(keys.filter((key) => keyEffect(key) === undefined)).toEqual([]);
});

test.each([
  ['server: { port: 9000 }', ['server.port']],
  ['server: { timeouts: { db_query: 7s } }', ['server.timeouts.db_query']],
  ['server: { timeouts: { request: 7s } }', []],
  ['database: { pool: { max: 7 } }', ['database.pool.max', 'database.pool.queue']],
  ['database: { pool: { queue: 7 } }', ['database.pool.queue']],
  ['database: { pool: { min: 7 } }', ['database.pool.min']],
  ['database: { pool: { idle_timeout: 7s } }', ['database.pool.idle_timeout']],
  ['providers: { storage: { type: local, local: { path: elsewhere } } }', ['providers.storage']],
  ['auth: { jwt_expiry: 5m }', []],
  ['', []],
])('%s requires a restart: %j', (text, keys) => {
  expect(keysForRestart(read(''), read(text))).toEqual(keys);
});
