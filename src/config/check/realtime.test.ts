// Mistakes in channels and published tables.
import { expect, test } from 'vitest';
import { loadConfig } from '../load.ts';
import { renderPath, type Mistake } from '../mistakes/mistake.ts';

function load(text: string): ReturnType<typeof loadConfig> {
  return loadConfig(
    { name: 'svc.yaml', directory: undefined, text: `version: 1\n${text}` },
    { variables: {} },
  );
}

function listMistakes(text: string): string[] {
  const loaded = load(text);
  const all = loaded.ok ? loaded.warnings : loaded.mistakes;
  return all.map(render);
}

function render({ path, message }: Mistake): string {
  return `${renderPath(path)}: ${message}`;
}

const table = (keys: string, fields = '{ name: id, type: integer, primary_key: true }'): string =>
  `tables:\n  t: { ${keys}, fields: [${fields}] }\n`;

test.each([
  ['realtime: { limit: 3 }', '2:13', /^realtime\.limit: /],
  [
    'realtime: { rls: [{ operations: [update], check: "true" }] }',
    '2:33',
    /^realtime\.rls\[0\]\.operations: channels support select \(receive\) and insert \(send\), not update$/,
  ],
  ['realtime: { rls: [{ operations: [all], check: "true" }] }', '2:33', /not update and delete$/],
  ['realtime: { rls: [{ operations: [select] }] }', '2:19', /the policy has no condition$/],
  ['realtime: { retention: 40d }', '2:24', /must be at most 30d/],
  ['realtime: { limits: { payload: 5MB } }', '2:32', /must be at most 4MB/],
  ['realtime: { source: log }', '2:21', /^realtime\.source: /],
  [table('rls: [], realtime: true', '{ name: id, type: integer }'), '3:17', /rejects updates and deletes/],
  [
    table('rls: false, realtime: { deletes: none }'),
    '3:32',
    /^tables\.t\.realtime\.deletes: without row-level security/,
  ],
  [table('rls: [], realtime: { events: [truncate] }'), '3:38', /^tables\.t\.realtime/],
  [
    'tables: { t: { schema: realtime, rls: [], fields: [{ name: id, type: integer, primary_key: true }] } }',
    '2:24',
    /the schema realtime is reserved/,
  ],
])('%s is refused at %s', (text, place, message) => {
  const loaded = load(text);
  const refused = loaded.ok ? [] : loaded.mistakes.filter(({ severity }) => severity === 'error');
  expect(refused.map(({ position: { line, column } }) => `${line}:${column}`)).toEqual([place]);
  expect(refused.map(render)).toEqual([expect.stringMatching(message)]);
});

test('private channels without policies are a warning', () => {
  expect(listMistakes('realtime: { private_only: true }\n')).toEqual([
    'realtime.private_only: private_only is set, and no policy admits any client to a private channel',
  ]);
  expect(load('realtime: { private_only: true }\n').ok).toBe(true);
});

test('an open published table has two warnings', () => {
  expect(
    listMistakes(
      'tables:\n  t: { realtime: true, fields: [{ name: id, type: integer, primary_key: true }] }\n',
    ),
  ).toEqual([
    'tables.t: the table t has no rls key: every client with a key can read and change all rows',
    'tables.t.realtime: the table t has no rls key, so every client with a key receives its changes',
  ]);
});

test('true publishes every change, with the key of old rows', () => {
  const of = (written: string): unknown => {
    const loaded = load(table(`rls: [], realtime: ${written}`));
    return loaded.ok ? loaded.config.tables[0]?.realtime : loaded.mistakes;
  };
  const all = { events: ['insert', 'update', 'delete'], old: 'key', deletes: 'key' };
  expect(of('true')).toEqual(all);
  expect(of('false')).toBeUndefined();
  expect(of('{ old: full }')).toEqual({ ...all, old: 'full' });
});
