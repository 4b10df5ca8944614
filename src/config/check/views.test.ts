// Mistakes in views: names, files, and queries.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { loadConfig } from '../load.ts';
import { renderPath } from '../mistakes/mistake.ts';

const directory = mkdtempSync(join(tmpdir(), 'svc-views-'));
writeFileSync(join(directory, 'ids.sql'), '-- of all\nselect id from t;\n');
afterAll(() => rmSync(directory, { recursive: true }));

const FILE = `version: 1
tables:
  t: { rls: [], fields: [{ name: id, type: integer, primary_key: true }] }
`;

function listMistakes(text: string): string[] {
  const source = { name: 'svc.yaml', directory, text: FILE + text };
  const loaded = loadConfig(source, { variables: {} });
  return loaded.ok ? [] : loaded.mistakes.map(({ path, message }) => `${renderPath(path)}: ${message}`);
}

test('the query is inline or in a file, with or without a semicolon', () => {
  const text = `${FILE}views:\n  a: { query: "select id from t ; " }\n  b: { query: { file: ids.sql } }\n`;
  const loaded = loadConfig({ name: 'svc.yaml', directory, text }, { variables: {} });
  if (!loaded.ok) throw new Error('the file is not valid');
  expect(loaded.config.views.map(({ query }) => query)).toEqual([
    'select id from t',
    '-- of all\nselect id from t',
  ]);
  expect(loaded.files).toEqual(['ids.sql']);
});

test.each([
  ['views: { t: { query: select 1 } }', 'views.t: t is already a table of this file'],
  ['views: { v: { query: { file: no.sql } } }', 'views.v.query.file: there is no file no.sql'],
  ['views: { v: { query: create view v as select 1 } }', 'views.v.query: the query is a CREATE statement'],
  ['views: { v: { schema: auth, query: select 1 } }', 'views.v.schema: the schema auth is reserved'],
  [
    'views: { v: { query: select 1, renamed_from: v } }',
    'views.v.renamed_from: v cannot be renamed from itself',
  ],
  [
    'views: { v: { query: select 1 } }\nexpose: { relations: [v] }',
    'expose.relations[0]: v is already declared under views:',
  ],
  [
    'views: { v: { query: select 1, indexes: [{ columns: [a] }] } }',
    'views.v.indexes: only a materialized view stores rows that can be indexed',
  ],
  [
    'views: { v: { query: select 1, materialized: true, security: invoker } }',
    'views.v.security: security is not valid for a materialized view, which is refreshed with the rights of its owner',
  ],
  [
    'views: { v: { query: select 1, materialized: true, grants: { anon: [insert] } } }',
    'views.v.grants.anon[0]: the privilege insert is not valid for a materialized view',
  ],
  [
    'views: { v: { query: select 1, triggers: [{ timing: after, events: insert, call: x.f }] } }',
    'views.v.triggers[0].timing: a view does not store rows: ' +
      'use after for the whole statement, or instead_of for each row',
  ],
  [
    'views: { v: { query: select 1, triggers: [{ timing: instead_of, events: update, of: a, call: x.f }] } }',
    'views.v.triggers[0].of: of is not valid for instead_of, because the trigger handles every row',
  ],
])('%s', (text, message) => {
  expect(listMistakes(text)).toEqual([message]);
});

test('a remote configuration cannot refer to a file', () => {
  const text = `${FILE}views: { v: { query: { file: ids.sql } } }`;
  const loaded = loadConfig({ name: 's3://b/k', directory: undefined, text }, { variables: {} });
  expect(loaded.ok ? [] : loaded.mistakes).toMatchObject([
    { code: 'missing-file', hint: 'Write the query inline.' },
  ]);
});
