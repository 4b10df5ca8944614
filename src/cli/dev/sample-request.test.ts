import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadConfig } from '../../config/load.ts';
import { sampleRequest } from './sample-request.ts';

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'svc-sample-'));
  writeFileSync(join(directory, 'hook.js'), 'export default (req) => verify(req.rawBody);\n');
  writeFileSync(join(directory, 'hello.js'), 'export default () => ({ body: {} });\n');
});
afterAll(() => rmSync(directory, { recursive: true }));

const HOOK = 'functions: { hook: { runtime: node, file: hook.js } }';
const HELLO = 'functions: { hello: { runtime: node, file: hello.js } }';
const table = (rls: string): string =>
  `tables: { tips: { fields: [{ name: id, type: bigint, primary_key: true }], rls: [${rls}] } }`;
const TIPS = table('{ operations: [select], using: "true" }');
const OWN = table('{ operations: [select], using: "id = 1" }');
const SIGNED_IN = table('{ operations: [select], to: authenticated, using: "true" }');
const rpc = (keys: string): string => `rpc: { add: { language: sql, returns: { type: integer }, ${keys} } }`;
const ARGUMENTS =
  'args: [{ name: a, type: integer, required: true }, { name: b, type: integer, default: 1 }]';

test.each([
  [
    'a function that takes examples',
    rpc(`volatility: immutable, ${ARGUMENTS}, body: select a + b`),
    '/rest/v1/rpc/add?a=1',
  ],
  ['a table that everyone can read', TIPS, '/rest/v1/tips?limit=5'],
  ['a code function', HELLO, '/functions/v1/hello'],
  ['no webhook, because it responds with 401 without a signature', HOOK, '/auth/v1/settings'],
  ['no volatile function', rpc('body: select 1'), '/auth/v1/settings'],
  [
    'no function for users',
    rpc('volatility: stable, auth_required: true, body: select 1'),
    '/auth/v1/settings',
  ],
  ['no table with rows of owners', OWN, '/auth/v1/settings'],
  ['no table for users', SIGNED_IN, '/auth/v1/settings'],
  ['the table rather than a webhook', `${HOOK}\n${TIPS}`, '/rest/v1/tips?limit=5'],
])('suggests %s', (_, yaml, path) => {
  const loaded = loadConfig({ name: 'svc.yaml', text: `version: 1\n${yaml}`, directory }, { variables: {} });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  expect(sampleRequest(loaded.config, directory)).toBe(path);
});
