// Normal forms: read from a built table, stored, and applied to the declarations.
import { describe, expect, test } from 'vitest';
import { liveDatabase, declared } from '../../../test/migrate/schema-without-database.ts';
import { typeResolver } from '../schema/column-types.ts';
import { parseConfig } from '../../../test/migrate/parse-config.ts';
import { toModel } from '../schema/declared.ts';
import {
  hashBuckets,
  hashFunction,
  hashTable,
  isNormalForms,
  isSignature,
  extractNormalForms,
  readNormalForms,
  sameNormalForms,
  withNormalForms,
} from './normal-forms.ts';

const FILE = `tables:
  todos:
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: size, type: integer, default: 1, min: 0, check: "size <> 7" }
    indexes:
      - { columns: [size] }
      - { columns: [id], where: "size > 1" }
    rls:
      - { operations: [select], using: "size = 1" }
      - { operations: [insert], with_check: "size = 2" }
`;

const [todos] = declared(FILE).tables;
if (!todos) throw new Error('no table');

const FORMS = {
  columns: [
    ['bigint', null],
    ['integer', "'1'"],
  ],
  checks: ['"size" >= (0)', 'size <> 7'],
  indexes: [null, 'size > 1'],
  policies: [
    ['size = 1', null],
    [null, 'size = 2'],
  ],
} as const;

test('normal forms have the order of the declarations', () => {
  expect(extractNormalForms(todos)).toEqual(FORMS);
});

test('normal forms are read from the built table by name and label', () => {
  const built = liveDatabase(declared(FILE)).tables.get('public.todos');
  if (!built) throw new Error('no table');
  const shuffled = {
    ...built,
    columns: new Map([...built.columns].toReversed()),
    checks: built.checks.toReversed(),
    indexes: built.indexes.toReversed(),
    policies: built.policies.toReversed(),
  };
  const labels = {
    index: ({ label }: { readonly label: string }) => label,
    exclusions: [],
    policies: ['todos_p1_select', 'todos_p1_insert'],
  };
  expect(readNormalForms(todos, shuffled, labels)).toEqual(FORMS);
});

test('normal forms can be stored as JSON', () => {
  const bare = withNormalForms(todos, { columns: [], checks: [], indexes: [], policies: [] });
  expect(extractNormalForms(bare)).toEqual({
    columns: [
      ['', null],
      ['', ''],
    ],
    checks: ['', ''],
    indexes: [null, ''],
    policies: [
      ['', null],
      [null, ''],
    ],
  });
  const kept: unknown = JSON.parse(JSON.stringify(FORMS));
  expect(isNormalForms(kept) && withNormalForms(bare, kept)).toEqual(todos);
});

test.each([
  ['columns', { columns: [['bigint', 'other']] }],
  ['checks', { checks: [] }],
  ['indexes', { indexes: [] }],
  ['policies', { policies: [] }],
] as const)('a change of the %s changes the normal form', (_what, part) => {
  expect(sameNormalForms(FORMS, FORMS)).toBe(true);
  expect(sameNormalForms(FORMS, { ...FORMS, ...part })).toBe(false);
});

test.each([null, 'text', {}, { columns: [] }, { policies: [] }])('%j is not a normal form', (value) => {
  expect(isNormalForms(value)).toBe(false);
  expect(isSignature(value)).toBe(false);
});

describe('hashes', () => {
  const model = (yaml: string): ReturnType<typeof toModel> => toModel(parseConfig(yaml));
  const hashFile = (yaml: string, inCycle = false): string => {
    const read = model(yaml);
    const [table] = read.tables;
    if (!table) throw new Error('no table');
    return hashTable(table, typeResolver(read, new Map()), inCycle);
  };

  test.each([
    ['a comment', FILE.replace('tables:', '# tables\ntables:'), true],
    ['a default', FILE.replace('default: 1', 'default: 2'), false],
    ['a policy', FILE.replace('size = 2', 'size = 3'), false],
    ['the order of columns', FILE.replace('type: bigint', 'type: integer'), false],
  ])('%s', (_what, changedFile, same) => expect(hashFile(changedFile) === hashFile(FILE)).toBe(same));

  test('the hash depends on whether the policies are part of a cycle', () => {
    expect(hashFile(FILE, true)).not.toBe(hashFile(FILE));
  });

  test('the hash depends on types of referenced columns', () => {
    const notes = (type: string): string =>
      'tables:\n  notes:\n    fields:\n' +
      '      - { name: todo, primary_key: true, foreign_key: { references: todos.id } }\n' +
      `  todos:\n    fields: [{ name: id, type: ${type}, primary_key: true }]\n`;
    expect(hashFile(notes('bigint'))).not.toBe(hashFile(notes('uuid')));
  });

  test('functions and buckets have separate hashes', () => {
    const read = model(
      'tables: {}\nstorage: { photos: { rls: [{ operations: [select], using: "true" }] } }\nrpc:\n' +
        '  a: { language: sql, returns: { type: integer }, body: select 1 }\n' +
        '  b: { language: sql, returns: { type: integer }, body: select 1 }\n',
    );
    const [a, b] = read.functions;
    if (!a || !b) throw new Error('no functions');
    expect(hashFunction(a)).not.toBe(hashFunction(b));
    expect(hashBuckets(read.buckets, true)).not.toBe(hashBuckets(read.buckets, false));
  });
});
