// Mistakes with the option `syntax` of `svc validate`: SQL and handlers are parsed, and columns of conditions must
// exist.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EXAMPLES } from '../../docs/reference-examples.ts';
import { loadConfig } from '../../load.ts';
import { renderPath } from '../../mistakes/mistake.ts';
import { loadSqlParser } from '../../sql/parser.ts';

beforeAll(loadSqlParser);
const directory = mkdtempSync(join(tmpdir(), 'svc-syntax-'));
afterAll(() => rmSync(directory, { recursive: true }));

function listMistakes(text: string): string[] {
  const loaded = loadConfig({ name: 'svc.yaml', directory, text }, { variables: {}, syntax: true });
  if (loaded.ok) return [];
  return loaded.mistakes
    .filter(({ severity }) => severity === 'error')
    .map(({ path, message, hint }) => `${renderPath(path)}: ${message} ${hint ?? 'NO ADVICE'}`);
}

const table = (more: string, fields = ''): string => `version: 1
tables:
  todos:
    fields:
      - { name: id, type: uuid, primary_key: true }
      - { name: owner_id, type: uuid }
      - { name: done, type: boolean }
      ${fields}
    ${more}
`;
const policy = (using: string): string =>
  table(`rls: [{ operations: [select], using: ${JSON.stringify(using)} }]`);

describe('a file that PostgreSQL refuses', () => {
  test.each([
    [
      policy('owner_id = = auth.uid()'),
      /tables\.todos\.rls\[0\]\.using: PostgreSQL cannot parse.*syntax error/,
    ],
    [policy('owner_id == auth.uid()'), /no operator == Write = /],
    [policy('owner_i = auth.uid()'), /no column owner_i Did you mean owner_id\?/],
    [policy('todos.ownr_id = auth.uid()'), /no column ownr_id/],
    [policy('(owner_id = auth.uid()'), /parenthesis is not closed/],
    [
      table('rls: []\n    constraints: [{ check: "dome or id is null" }]'),
      /no column dome Did you mean done/,
    ],
    [table('rls: []\n    indexes: [{ columns: [id], where: "not don" }]'), /no column don/],
    [table('rls: []', '- { name: a, type: int, check: "a >> > 1" }'), /fields\[3\]\.check: .*syntax error/],
    [table('rls: []', '- { name: a, type: int, default: { sql: "1 +" } }'), /default\.sql: .*syntax error/],
    ['version: 1\nviews: { v: { query: select from where } }\n', /views\.v\.query: .*syntax error/],
    [
      'version: 1\nrpc: { f: { language: sql, returns: { type: int }, body: "selct 1" } }\n',
      /rpc\.f\.body: .*syntax error/,
    ],
  ])('%s', (text, message) => {
    expect(listMistakes(text)).toEqual([expect.stringMatching(message)]);
  });
});

const typed = (type: string, more = ''): string =>
  `version: 1\n${more}\ntables: { t: { rls: [], ` +
  `fields: [{ name: id, type: int, primary_key: true }, { name: a, type: ${JSON.stringify(type)} }] } }\n`;

describe('a type without a declaration is a mistake', () => {
  test.each([
    [typed('objectid'), /fields\[1\]\.type: "objectid" is not a PostgreSQL type Did you mean uuid\?/],
    [typed('txet'), /has a type "txet".*Did you mean text\?/],
    [typed('bigit[]'), /Did you mean bigint\?/],
    [typed('moood', 'types: { mood: { enum: [ok] } }'), /Did you mean mood\?/],
    [typed('monetary_amount'), /Declare it under types:.*public\.monetary_amount/],
    [typed('citext'), /write extensions: \[citext\]/],
    [typed('vector(3)', 'extensions: [pg_trgm]'), /write extensions: \[vector\]/],
    [
      'version: 1\nrpc: { f: { args: [{ name: a, type: objectid }], returns: { type: int }, body: "begin ' +
        'return 1; end" } }\n',
      /rpc\.f\.args\[0\]\.type: .*Did you mean uuid\?/,
    ],
    [
      'version: 1\nrpc: { f: { returns: { table: [{ name: a, type: strng }] }, body: "begin return; end" } }\n',
      /rpc\.f\.returns\.table\[0\]\.type: .*has a type "strng"/,
    ],
    ['version: 1\ntypes: { d: { domain: txet } }\n', /types\.d\.domain: .*Did you mean text\?/],
    [
      'version: 1\ntypes: { c: { composite: { low: intger } } }\n',
      /composite\.low: .*Did you mean integer\?/,
    ],
  ])('%s', (text, message) => {
    expect(listMistakes(text)).toEqual([expect.stringMatching(message)]);
  });

  test.each([
    ['of PostgreSQL', typed('timestamp (3) with time zone[]')],
    ['of PostgreSQL in capitals', typed('CHARACTER VARYING(20) ARRAY')],
    ['an interval of fields', typed('interval day to second')],
    ['with a schema', typed('public.objectid')],
    ['of an extension that the file lists', typed('vector(3)', 'extensions: [vector]')],
    ['that an unknown extension may have', typed('ulid', 'extensions: [pgx_ulid]')],
    ['of the file', typed('mood[]', 'types: { mood: { enum: [ok] } }')],
    ['of the rows of a table', typed('t')],
    [
      'of a range that a statement makes',
      typed('timerange', 'statements: { r: { create: "create type timerange as range (subtype = time)" } }'),
    ],
    [
      'of the multirange of such a range',
      typed(
        'timemultirange',
        'statements: { r: { create: "create type timerange as range (subtype = time)" } }',
      ),
    ],
  ])('a type %s is valid', (_what, text) => expect(listMistakes(text)).toEqual([]));

  test('commands with a database leave an unknown type to it', () => {
    const loaded = loadConfig({ name: 'svc.yaml', directory, text: typed('citext') }, { variables: {} });
    expect(loaded.ok).toBe(true);
  });
});

describe('a file that PostgreSQL accepts', () => {
  test.each([
    policy('owner_id = auth.uid() and not done'),
    policy('exists (select 1 from members m where m.todo = id and m.person = auth.uid())'),
    policy('(select auth.uid()) = owner_id or current_user = session_user'),
    policy('todos is not null and todos.done and xmin is not null and (todos).done'),
    policy("owner_id = any (array(select x from jsonb_array_elements_text('[]') as t(x)))::uuid is null"),
    table('rls: []', `- { name: a, type: int, check: "a between 1 and 5", default: { sql: "1 + 1" } }`),
    table('rls: []', `- { name: a, type: int, using: "gone::int", backfill: "1" }`),
    'version: 1\nrpc: { f: { language: plpgsql, returns: { type: int }, body: "begin return 1; end" } }\n',
    'version: 1\nrpc: { f: { language: sql, returns: { type: int }, body: "select 1; select 2" } }\n',
  ])('%s', (text) => {
    expect(listMistakes(text).filter((mistake) => /SQL|column|operator/.test(mistake))).toEqual([]);
  });

  test('every example of the reference', () => {
    const text = Object.values(EXAMPLES).join('\n');
    expect(
      listMistakes(text).filter((mistake) => /cannot parse|no operator|has no column/.test(mistake)),
    ).toEqual([]);
  });
});

describe('a handler', () => {
  const load = (file: string, source: string): string[] => {
    writeFileSync(join(directory, file), source);
    return listMistakes(
      `version: 1\nfunctions: { f: { runtime: node, file: ${file}, auth_required: true } }\n`,
    );
  };

  test.each([
    ['a.js', 'export default async () => { const = 1 }', /functions\.f\.file: .*syntax error: line 1: /],
    ['b.ts', 'export default async (r: Request) => { const = 1 }', /syntax error/],
    ['c.js', 'module.exports = () => 1', /CommonJS.*export default/],
    ['d.js', 'export const handler = () => 1', /no default export Export the handler/],
    ['e.js', '', /no default export/],
  ])('%s with %s is refused', (file, source, message) => {
    expect(load(file, source)).toEqual([expect.stringMatching(message)]);
  });

  test.each([
    ['f.js', 'import x from "y";\nexport default async () => { await x; }'],
    [
      'g.ts',
      'import type { A } from "y";\nexport default async (r: Request): Promise<Response> => new Response(r as never);',
    ],
    ['h.mjs', 'const a = () => 1; export { a as default };'],
    ['i.js', 'export { default } from "./f.js";'],
  ])('%s with %s is accepted', (file, source) => {
    expect(load(file, source)).toEqual([]);
  });

  test('of the example is accepted', () => {
    const source = readFileSync(
      join(import.meta.dirname, '../../../../examples/todo/functions/hello.js'),
      'utf8',
    );
    expect(load('hello.js', source)).toEqual([]);
  });
});
