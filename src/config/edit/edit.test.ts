import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { editConfig } from './edit-parts.ts';
import { editText as editOnly, type ConfigEdit } from './edit.ts';

const FILE = `# The file of a person who cares.
version: 1   # always

project: {name: App}

tables:
  # People write these.
  todos:
    rls: []   # closed
    fields:
      - { name: id, type: uuid, primary_key: true }

      # a comment in between
      - name: title
        type: text   # short
        required: true
      - { name: done, type: boolean }
    indexes:
      - columns: [title]

rpc:
  add:
    language: sql
    args: [{ name: a, type: integer }]
    returns: { type: integer }
    body: |
      select a
        + 1

# the end
`;

function edit(...edits: ConfigEdit[]): string {
  return editText(FILE, ...edits);
}

function editText(text: string, ...edits: ConfigEdit[]): string {
  const edited = editConfig({ name: 'svc.yaml', directory: undefined, text }, edits, { variables: {} });
  if (!edited.ok) throw new Error(edited.mistakes.map((mistake) => mistake.message).join('; '));
  return edited.texts.get('') ?? text;
}

/** Returns removed (-) and added (+) lines, in order. */
function difference(before: string, after: string): string[] {
  const [old, changed] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < old.length && old[start] === changed[start]) start += 1;
  let end = 0;
  while (
    end < old.length - start &&
    end < changed.length - start &&
    old.at(-1 - end) === changed.at(-1 - end)
  )
    end += 1;
  return [
    ...old.slice(start, old.length - end).map((line) => `-${line}`),
    ...changed.slice(start, changed.length - end).map((line) => `+${line}`),
  ];
}

describe('an edit changes only the necessary lines', () => {
  test.each<[string, ConfigEdit, string[]]>([
    ['a scalar', { kind: 'set', path: ['version'], value: 1 }, []],
    [
      'a scalar with a comment after it',
      { kind: 'set', path: ['tables', 'todos', 'fields', 1, 'type'], value: 'varchar(10)' },
      ['-        type: text   # short', '+        type: varchar(10)   # short'],
    ],
    [
      'a scalar in braces without spaces',
      { kind: 'set', path: ['project', 'name'], value: 'My, App' },
      ['-project: {name: App}', '+project: {name: "My, App"}'],
    ],
    [
      'a new key in braces',
      { kind: 'set', path: ['tables', 'todos', 'fields', 2, 'renamed_from'], value: 'finished' },
      [
        '-      - { name: done, type: boolean }',
        '+      - { name: done, type: boolean, renamed_from: finished }',
      ],
    ],
    [
      'a new key in a block',
      { kind: 'set', path: ['tables', 'todos', 'fields', 1, 'renamed_from'], value: 'headline' },
      ['+        renamed_from: headline'],
    ],
    [
      'a new table',
      {
        kind: 'set',
        path: ['tables', 'tags'],
        value: { rls: [], fields: [{ name: 'id', type: 'uuid', primary_key: true }] },
      },
      [
        '+  tags:',
        '+    rls: []',
        '+    fields:',
        '+      - name: id',
        '+        type: uuid',
        '+        primary_key: true',
      ],
    ],
    [
      'a missing section',
      { kind: 'set', path: ['server', 'timeouts', 'request'], value: '1m' },
      ['+server:', '+  timeouts:', '+    request: 1m', '+'],
    ],
    [
      'a text of several lines',
      { kind: 'set', path: ['rpc', 'add', 'body'], value: 'select a\n  + 2\n' },
      ['-        + 1', '+        + 2'],
    ],
    [
      'a list instead of an empty list',
      { kind: 'set', path: ['tables', 'todos', 'rls'], value: [{ operations: ['select'], using: 'true' }] },
      ['-    rls: []   # closed', '+    rls: [ { operations: [ select ], using: "true" } ]   # closed'],
    ],
    [
      'an additional column, written like its neighbour',
      { kind: 'append', path: ['tables', 'todos', 'fields'], value: { name: 'due', type: 'date' } },
      ['+      - { name: due, type: date }'],
    ],
    [
      'an additional index, written like its neighbour',
      { kind: 'append', path: ['tables', 'todos', 'indexes'], value: { columns: ['done'] } },
      ['+      - columns:', '+          - done'],
    ],
    [
      'an entry of a list in brackets',
      { kind: 'append', path: ['rpc', 'add', 'args'], value: { name: 'b', type: 'integer' } },
      [
        '-    args: [{ name: a, type: integer }]',
        '+    args: [{ name: a, type: integer }, { name: b, type: integer }]',
      ],
    ],
    [
      'a missing list',
      { kind: 'append', path: ['server', 'cors', 'origins'], value: '*' },
      ['+server:', '+  cors:', '+    origins:', '+      - "*"', '+'],
    ],
    [
      'a removed key',
      { kind: 'delete', path: ['tables', 'todos', 'fields', 1, 'required'] },
      ['-        required: true'],
    ],
    [
      'a removed key in braces',
      { kind: 'delete', path: ['tables', 'todos', 'fields', 0, 'primary_key'] },
      ['-      - { name: id, type: uuid, primary_key: true }', '+      - { name: id, type: uuid }'],
    ],
    [
      'a removed entry of a list',
      { kind: 'delete', path: ['tables', 'todos', 'fields', 2] },
      ['-      - { name: done, type: boolean }'],
    ],
    [
      'a removed section',
      { kind: 'delete', path: ['rpc'] },
      [
        '-rpc:',
        '-  add:',
        '-    language: sql',
        '-    args: [{ name: a, type: integer }]',
        '-    returns: { type: integer }',
        '-    body: |',
        '-      select a',
        '-        + 1',
      ],
    ],
    [
      'a renamed table',
      { kind: 'rename', path: ['tables', 'todos'], name: 'tasks' },
      ['-  todos:', '+  tasks:'],
    ],
  ])('%s', (_what, change, lines) => {
    expect(difference(FILE, edit(change))).toEqual(lines);
  });
});

test('removing the last entry of a block leaves an empty map, not a null', () => {
  const text = 'version: 1\nstorage:\n  pics:\n    public: true\n';
  expect(editText(text, { kind: 'delete', path: ['storage', 'pics'] })).toBe('version: 1\nstorage: {}\n');
});

test('an entry is added to an empty section', () => {
  const text = 'version: 1\nstorage:\nserver: { port: 1 }\n';
  expect(editText(text, { kind: 'set', path: ['storage', 'pics', 'public'], value: true })).toBe(
    'version: 1\nstorage:\n  pics:\n    public: true\nserver: { port: 1 }\n',
  );
});

test('CRLF line ends are kept', () => {
  const text = 'version: 1\r\nserver:\r\n  port: 1\r\n';
  expect(editText(text, { kind: 'set', path: ['server', 'max_limit'], value: 5 })).toBe(
    'version: 1\r\nserver:\r\n  port: 1\r\n  max_limit: 5\r\n',
  );
});

test('a file without a last line break gets one when needed', () => {
  expect(editText('version: 1', { kind: 'set', path: ['server', 'port'], value: 5 })).toBe(
    'version: 1\n\nserver:\n  port: 5\n',
  );
});

test('several edits are applied in order', () => {
  const text = edit(
    { kind: 'set', path: ['tables', 'todos', 'fields', 1, 'renamed_from'], value: 'title' },
    { kind: 'set', path: ['tables', 'todos', 'fields', 1, 'name'], value: 'headline' },
    { kind: 'set', path: ['tables', 'todos', 'indexes', 0, 'columns', 0], value: 'headline' },
  );
  expect(difference(FILE, text)).toContain('+        renamed_from: title');
  expect(difference(FILE, text)).toContain('+      - columns: [headline]');
});

test('an edit that makes the file invalid returns the mistakes', () => {
  const edited = editConfig(
    { name: 'svc.yaml', directory: undefined, text: FILE },
    [{ kind: 'set', path: ['tables', 'todos', 'fields', 1, 'name'], value: 'done' }],
    { variables: {} },
  );
  expect(edited).toMatchObject({
    ok: false,
    mistakes: expect.arrayContaining([expect.objectContaining({ code: 'duplicate' })]),
  });
});

test('a node that an alias shares cannot be edited', () => {
  const text = `version: 1
tables:
  a:
    rls: &mine [{ operations: [select], using: "true" }]
    fields: [{ name: id, type: int }]
  b:
    rls: *mine
    fields: [{ name: id, type: int }]
`;
  expect(() =>
    editText(text, { kind: 'set', path: ['tables', 'b', 'rls', 0, 'using'], value: 'false' }),
  ).toThrow(/cannot be edited here/);
  expect(editText(text, { kind: 'set', path: ['tables', 'b', 'rls'], value: [] })).toContain('rls: []');
  const more = { operations: ['insert'], with_check: 'true' };
  for (const table of ['a', 'b']) {
    expect(() => editText(text, { kind: 'append', path: ['tables', table, 'rls'], value: more })).toThrow(
      /cannot be edited here/,
    );
  }
  expect(() => editText(text, { kind: 'set', path: ['tables', 'a', 'rls'], value: [] })).toThrow(
    /cannot be edited here/,
  );
});

test('unknown paths and unreadable files are errors', () => {
  expect(() => edit({ kind: 'delete', path: ['tables', 'nope'] })).toThrow(/There is no tables.nope/);
  expect(() => edit({ kind: 'set', path: ['tables', 'todos', 'fields', 9, 'name'], value: 'x' })).toThrow(
    /There is no/,
  );
  expect(() => editText('version: [', { kind: 'delete', path: ['version'] })).toThrow(/must be corrected/);
});

describe('edits that svc makes itself', () => {
  const BACKEND = `# the backend
version: 1   # one

functions:
  # greets
  hello:
    runtime: node # the only one
    file: functions/hello.js
    env: { A: "1",   B: two }
# about tables
tables: {}
`;
  const add = (text: string, name: string, value: unknown): string =>
    editOnly(text, [{ kind: 'add', path: ['functions', name], value }]);
  const set = (text: string, path: string[], value: string): string =>
    editOnly(text, [{ kind: 'set', path, value }]);

  test('an entry is added after the last one, and nothing else changes', () => {
    const added = add(BACKEND, 'new-one', { runtime: 'node', file: 'functions/new-one.js' });
    expect(added).toBe(
      BACKEND.replace(
        '# about tables',
        '  new-one:\n    runtime: node\n    file: functions/new-one.js\n# about tables',
      ),
    );
  });

  test.each([
    ['no block', 'version: 1'],
    ['an empty block', 'version: 1\nfunctions:\n# end\n'],
    ['an empty map', 'version: 1 # one\nfunctions: {}\n'],
    ['a flow map', 'version: 1 # one\nfunctions: { a: { runtime: node, file: a.js } }\n'],
    ['no newline at the end', 'version: 1\nfunctions:\n    a:\n        runtime: node'],
  ])('an entry is added to %s', (_, text) => {
    const added = add(text, 'f', { runtime: 'node', file: 'functions/f.js' });
    const value = parse(added);
    expect(value.functions.f).toEqual({ runtime: 'node', file: 'functions/f.js' });
    expect(value.version).toBe(1);
    for (const comment of text.match(/#.*/g) ?? []) expect(added).toContain(comment);
  });

  test('an existing name is rejected', () => {
    expect(() => add(BACKEND, 'hello', {})).toThrow(/already/);
  });

  test('a top-level key is set in place, or appended', () => {
    const once = set(BACKEND, ['functions_bundle'], 's3://b/k#1');
    expect(once).toBe(`${BACKEND}functions_bundle: "s3://b/k#1"\n`);
    expect(set(once, ['functions_bundle'], 's3://b/k#2')).toBe(`${BACKEND}functions_bundle: "s3://b/k#2"\n`);
  });

  test('a nested key is set, and created if missing', () => {
    const path = ['project', 'cloud', 'project_id'];
    const made = set(BACKEND, path, 'p1');
    expect(made.startsWith(BACKEND)).toBe(true);
    expect(parse(made).project).toEqual({ cloud: { project_id: 'p1' } });
    expect(set(made, path, 'p2')).toBe(made.replace('p1', 'p2'));
    expect(set(made, path, 'p1')).toBe(made);
    const added = set('version: 1\nproject: { name: x } # named\n', path, 'p');
    expect(parse(added).project).toEqual({ name: 'x', cloud: { project_id: 'p' } });
    expect(added).toContain('# named');
  });

  test('a broken file is not edited', () => {
    expect(() => set('a: [', ['b'], 'c')).toThrow(/must be corrected first/);
  });
});
