// Normal forms: taken from a built table, kept, and given back to the declarations in their order.
import { describe, expect, test } from 'vitest';
import { databaseOf, declared } from '../../../test/migrate/schema-without-database.ts';
import { typeResolver } from '../schema/column-types.ts';
import { configOf } from '../../../test/migrate/config-of.ts';
import { toModel } from '../schema/declared.ts';
import {
  hashBuckets,
  hashFunction,
  hashTable,
  isNormalForms,
  isSignature,
  normalFormsOf,
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

test('they are kept in the order of the declarations', () => {
  expect(normalFormsOf(todos)).toEqual(FORMS);
});

test('they are read from the built table by name and label, whatever its order', () => {
  const built = databaseOf(declared(FILE)).tables.get('public.todos');
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

test('they survive being kept as JSON', () => {
  const bare = withNormalForms(todos, { columns: [], checks: [], indexes: [], policies: [] });
  expect(normalFormsOf(bare)).toEqual({
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
] as const)('another of the %s is another normal form', (_what, part) => {
  expect(sameNormalForms(FORMS, FORMS)).toBe(true);
  expect(sameNormalForms(FORMS, { ...FORMS, ...part })).toBe(false);
});

test.each([null, 'text', {}, { columns: [] }, { policies: [] }])('%j is no stored normal form', (value) => {
  expect(isNormalForms(value)).toBe(false);
  expect(isSignature(value)).toBe(false);
});

describe('hashes', () => {
  const model = (yaml: string): ReturnType<typeof toModel> => toModel(configOf(yaml));
  const hashOf = (yaml: string, inRing = false): string => {
    const read = model(yaml);
    const [table] = read.tables;
    if (!table) throw new Error('no table');
    return hashTable(table, typeResolver(read, new Map()), inRing);
  };

  test.each([
    ['a comment', FILE.replace('tables:', '# tables\ntables:'), true],
    ['a default', FILE.replace('default: 1', 'default: 2'), false],
    ['a policy', FILE.replace('size = 2', 'size = 3'), false],
    ['the order of columns', FILE.replace('type: bigint', 'type: integer'), false],
  ])('%s', (_what, other, same) => expect(hashOf(other) === hashOf(FILE)).toBe(same));

  test('being in a ring of policies is part of it', () => {
    expect(hashOf(FILE, true)).not.toBe(hashOf(FILE));
  });

  test('a type taken from another table is part of it', () => {
    const notes = (type: string): string =>
      `tables:\n  notes:\n    fields:\n      - { name: todo, primary_key: true, foreign_key: { references: todos.id } }\n  todos:\n    fields: [{ name: id, type: ${type}, primary_key: true }]\n`;
    expect(hashOf(notes('bigint'))).not.toBe(hashOf(notes('uuid')));
  });

  test('functions and buckets have their own', () => {
    const read = model(
      'tables: {}\nstorage: { photos: { rls: [{ operations: [select], using: "true" }] } }\nrpc:\n  a: { language: sql, returns: { type: integer }, body: select 1 }\n  b: { language: sql, returns: { type: integer }, body: select 1 }\n',
    );
    const [a, b] = read.functions;
    if (!a || !b) throw new Error('no functions');
    expect(hashFunction(a)).not.toBe(hashFunction(b));
    expect(hashBuckets(read.buckets, true)).not.toBe(hashBuckets(read.buckets, false));
  });
});
