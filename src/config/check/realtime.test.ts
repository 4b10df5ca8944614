// Channels and published tables as the file writes them.
import { expect, test } from 'vitest';
import { loadConfig } from '../load.ts';
import { renderPath, type Mistake } from '../mistakes/mistake.ts';

function load(text: string): ReturnType<typeof loadConfig> {
  return loadConfig(
    { name: 'svc.yaml', directory: undefined, text: `version: 1\n${text}` },
    { variables: {} },
  );
}

function said(text: string): string[] {
  const loaded = load(text);
  const all = loaded.ok ? loaded.warnings : loaded.mistakes;
  return all.map(told);
}

function told({ path, message }: Mistake): string {
  return `${renderPath(path)}: ${message}`;
}

const table = (keys: string, fields = '{ name: id, type: integer, primary_key: true }'): string =>
  `tables:\n  t: { ${keys}, fields: [${fields}] }\n`;

test.each([
  ['realtime: { limit: 3 }', '2:13', /^realtime\.limit: /],
  [
    'realtime: { rls: [{ operations: [update], check: "true" }] }',
    '2:33',
    /^realtime\.rls\[0\]\.operations: a channel knows select \(receive\) and insert \(send\), not update$/,
  ],
  ['realtime: { rls: [{ operations: [all], check: "true" }] }', '2:33', /not update and delete$/],
  ['realtime: { rls: [{ operations: [select] }] }', '2:19', /the policy has no condition$/],
  ['realtime: { retention: 40d }', '2:24', /must be at most 30d/],
  ['realtime: { limits: { payload: 5MB } }', '2:32', /must be at most 4MB/],
  ['realtime: { source: log }', '2:21', /^realtime\.source: /],
  [
    table('rls: [], realtime: true', '{ name: id, type: integer }'),
    '3:17',
    /would refuse updates and deletes/,
  ],
  [
    table('rls: false, realtime: { deletes: none }'),
    '3:32',
    /^tables\.t\.realtime\.deletes: without row-level security/,
  ],
  [table('rls: [], realtime: { events: [truncate] }'), '3:38', /^tables\.t\.realtime/],
  [
    'tables: { t: { schema: realtime, rls: [], fields: [{ name: id, type: integer, primary_key: true }] } }',
    '2:24',
    /the schema realtime is not yours to declare/,
  ],
])('%s is refused at %s', (text, place, message) => {
  const loaded = load(text);
  const refused = loaded.ok ? [] : loaded.mistakes.filter(({ severity }) => severity === 'error');
  expect(refused.map(({ position: { line, column } }) => `${line}:${column}`)).toEqual([place]);
  expect(refused.map(told)).toEqual([expect.stringMatching(message)]);
});

test('private channels only, and nobody let in: a warning', () => {
  expect(said('realtime: { private_only: true }\n')).toEqual([
    'realtime.private_only: only private channels are allowed, and no policy lets anybody into one',
  ]);
  expect(load('realtime: { private_only: true }\n').ok).toBe(true);
});

test('an open table that tells of its changes is warned about twice', () => {
  expect(
    said('tables:\n  t: { realtime: true, fields: [{ name: id, type: integer, primary_key: true }] }\n'),
  ).toEqual([
    'tables.t: the table t has no rls key: every holder of a key may read and change all of it',
    'tables.t.realtime: the table t has no rls key, and its changes go to everybody with a key',
  ]);
});

test('true stands for every change, told by its key', () => {
  const of = (written: string): unknown => {
    const loaded = load(table(`rls: [], realtime: ${written}`));
    return loaded.ok ? loaded.config.tables[0]?.realtime : loaded.mistakes;
  };
  const all = { events: ['insert', 'update', 'delete'], old: 'key', deletes: 'key' };
  expect(of('true')).toEqual(all);
  expect(of('false')).toBeUndefined();
  expect(of('{ old: full }')).toEqual({ ...all, old: 'full' });
});
