import { expect, test } from 'vitest';
import type { PolicyModel, SchemaModel } from '../model.ts';
import { tablesInCycles } from './policy-cycles.ts';

const policies = (...texts: readonly string[]): PolicyModel[] =>
  texts.map((check) => ({
    name: null,
    operations: ['select'],
    permissive: true,
    using: null,
    withCheck: null,
    check,
    at: '',
  }));

const model = (tables: Readonly<Record<string, string>>, bucket: string | null = null): SchemaModel => ({
  tables: Object.entries(tables).map(([name, check]) => ({
    schema: 'public',
    name,
    renamedFrom: null,
    protect: false,
    rls: policies(check),
    columns: [],
    indexes: [],
    at: `tables.${name}`,
  })),
  functions: [],
  buckets: bucket === null ? [] : [{ name: 'files', policies: policies(bucket), at: 'storage.files' }],
});

const mine = 'owner = auth.uid()';
const reads = (...names: readonly string[]): string =>
  names.map((name) => `exists (select from ${name})`).join(' or ');

test.each<[string, SchemaModel, readonly string[]]>([
  ['no policy reads a table', model({ a: mine, b: mine }), []],
  ['one table reads another', model({ a: reads('b'), b: mine }), []],
  ['a table reads itself', model({ a: reads('public.a'), b: reads('a') }), ['public.a']],
  [
    'two tables read each other',
    model({ a: reads('b'), b: reads('public.a'), c: mine }),
    ['public.a', 'public.b'],
  ],
  [
    'a cycle of three tables, and one table outside that reads it',
    model({ a: reads('b'), b: reads('c'), c: reads('a'), d: reads('a') }),
    ['public.a', 'public.b', 'public.c'],
  ],
  ['two paths to the same table', model({ a: reads('b', 'c'), b: reads('d'), c: reads('d'), d: mine }), []],
  [
    'a relation outside the file may read any table',
    model({ a: reads('a_view'), b: reads('a'), c: mine }),
    ['public.a', 'public.b'],
  ],
  ['a table with the same name in another schema', model({ a: reads('crm.a') }), ['public.a']],
  [
    'a cycle through a bucket',
    model({ a: reads('storage.objects') }, reads('a')),
    ['public.a', 'storage.objects'],
  ],
  ['a bucket that no policy reads', model({ a: mine }, reads('a')), []],
])('%s', (_what, file, expected) => expect([...tablesInCycles(file, new Set())].sort()).toEqual(expected));

test('a policy that the file does not declare may read any table', () => {
  const file = model({ a: reads('b'), b: mine, c: mine });
  expect([...tablesInCycles(file, new Set(['public.b']))].sort()).toEqual(['public.a', 'public.b']);
});
