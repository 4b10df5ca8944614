import { tmpdir } from 'node:os';
import { beforeAll, expect, test } from 'vitest';
import type { Config } from '../../config/config.ts';
import { loadConfig } from '../../config/load.ts';
import { loadSqlParser } from '../../config/sql/parser.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { realtime } from './database.ts';

beforeAll(loadSqlParser);

function parseConfig(table: string): Config {
  const text =
    `version: 1\ntables: { notes: { ${table} fields: [{ name: id, type: int, primary_key: true }], rls: ` +
    '[] } }\n';
  const loaded = loadConfig({ name: 'svc.yaml', directory: tmpdir(), text }, { variables: {} });
  if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join('\n'));
  return loaded.config;
}

// Replaces settings of the whole server, which the tests share.
const server = (row: { level: string; slots: number; used: number }): Queryable => ({
  query: (() => Promise.resolve([row])) as Queryable['query'],
});

test.each([
  ['realtime: true,', { level: 'replica', slots: 10, used: 0 }, 'warning', /wal_level is replica/, /restart/],
  [
    'realtime: true,',
    { level: 'logical', slots: 4, used: 4 },
    'warning',
    /all 4 .* in use/,
    /max_replication/,
  ],
  ['realtime: true,', { level: 'logical', slots: 4, used: 3 }, 'ok', /1 slots are free/, /^$/],
  ['', { level: 'replica', slots: 0, used: 0 }, 'ok', /no table has realtime/, /^$/],
] as const)('a table with %j on a server with %j: %s', async (table, row, level, message, repair) => {
  const found = await realtime(parseConfig(table), server(row))();
  expect(found).toMatchObject({ level, message: expect.stringMatching(message) });
  expect(found.repair ?? '').toMatch(repair);
});
