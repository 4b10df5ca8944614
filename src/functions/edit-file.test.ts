import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { addToMap, setIn, setTopLevel } from './edit-file.ts';

const FILE = `# the backend
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

test('an entry is added behind the last one, and nothing else changes', () => {
  const added = addToMap(FILE, 'functions', 'new-one', { runtime: 'node', file: 'functions/new-one.js' });
  expect(added).toBe(
    FILE.replace(
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
  const added = addToMap(text, 'functions', 'f', { runtime: 'node', file: 'functions/f.js' });
  const value = parse(added);
  expect(value.functions.f).toEqual({ runtime: 'node', file: 'functions/f.js' });
  expect(value.version).toBe(1);
  for (const comment of text.match(/#.*/g) ?? []) expect(added).toContain(comment);
});

test('a name that is there already is refused', () => {
  expect(() => addToMap(FILE, 'functions', 'hello', {})).toThrow(/already/);
});

test('a top-level key is set in place, or appended', () => {
  const once = setTopLevel(FILE, 'functions_bundle', 's3://b/k#1');
  expect(once).toBe(`${FILE}functions_bundle: "s3://b/k#1"\n`);
  expect(setTopLevel(once, 'functions_bundle', 's3://b/k#2')).toBe(`${FILE}functions_bundle: "s3://b/k#2"\n`);
});

test('a nested key is set, made where it is missing', () => {
  const path = ['project', 'cloud', 'project_id'];
  const made = setIn(FILE, path, 'p1');
  expect(made.startsWith(FILE)).toBe(true);
  expect(parse(made).project).toEqual({ cloud: { project_id: 'p1' } });
  expect(setIn(made, path, 'p2')).toBe(made.replace('"p1"', '"p2"'));
  expect(setIn(made, path, 'p1')).toBe(made);
  const beside = setIn('version: 1\nproject: { name: x } # named\n', path, 'p');
  expect(parse(beside).project).toEqual({ name: 'x', cloud: { project_id: 'p' } });
  expect(beside).toContain('# named');
});

test('a broken file is left alone', () => {
  expect(() => setTopLevel('a: [', 'b', 'c')).toThrow(/left alone/);
});
