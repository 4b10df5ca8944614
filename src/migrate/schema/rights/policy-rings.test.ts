import { expect, test } from 'vitest';
import type { PolicyModel, SchemaModel } from '../model.ts';
import { tablesInRings } from './policy-rings.ts';

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
  ['nothing reads', model({ a: mine, b: mine }), []],
  ['one reads another', model({ a: reads('b'), b: mine }), []],
  ['itself', model({ a: reads('public.a'), b: reads('a') }), ['public.a']],
  ['two', model({ a: reads('b'), b: reads('public.a'), c: mine }), ['public.a', 'public.b']],
  [
    'three, and one that only leads there',
    model({ a: reads('b'), b: reads('c'), c: reads('a'), d: reads('a') }),
    ['public.a', 'public.b', 'public.c'],
  ],
  ['two ways to one end', model({ a: reads('b', 'c'), b: reads('d'), c: reads('d'), d: mine }), []],
  [
    'what is not in the file may lead anywhere',
    model({ a: reads('a_view'), b: reads('a'), c: mine }),
    ['public.a', 'public.b'],
  ],
  ['another schema is another table', model({ a: reads('crm.a') }), ['public.a']],
  ['a bucket', model({ a: reads('storage.objects') }, reads('a')), ['public.a', 'storage.objects']],
  ['a bucket that nothing reads', model({ a: mine }, reads('a')), []],
])('%s', (_what, file, expected) => expect([...tablesInRings(file, new Set())].sort()).toEqual(expected));

test('a policy of somebody else may lead anywhere', () => {
  const file = model({ a: reads('b'), b: mine, c: mine });
  expect([...tablesInRings(file, new Set(['public.b']))].sort()).toEqual(['public.a', 'public.b']);
});
