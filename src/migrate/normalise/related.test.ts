// Which declarations the server must read together.
import { expect, test } from 'vitest';
import { configOf } from '../../../test/migrate/config-of.ts';
import { toModel } from '../schema/declared.ts';
import { RelatedDeclarations } from './related.ts';

const related = new RelatedDeclarations(
  toModel(
    configOf(`tables:
  lists:
    fields: [{ name: id, type: bigint, primary_key: true }]
  todos:
    fields:
      - { name: id, type: bigint, primary_key: true, default: { sql: next_id() } }
      - { name: note, type: text, default: "it's" }
    rls: [{ operations: [select], using: "exists (select from members)" }]
  members:
    fields: [{ name: id, type: bigint, primary_key: true }]
rpc:
  next_id: { language: sql, returns: { type: bigint }, body: "select max(id) from todos" }
  alone: { language: sql, returns: { type: bigint }, body: select 1 }
storage:
  photos: { rls: [{ operations: [select], using: "exists (select from members)" }] }
`),
  ),
);

test.each<[what: string, changed: string[], expected: string[]]>([
  ['nothing', [], []],
  ['one that nothing names and that names nothing', ['public.alone'], ['public.alone']],
  [
    'what names it, and what that names',
    ['public.members'],
    ['public.members', 'public.next_id', 'public.todos', 'storage.objects'],
  ],
  [
    'what it names, and what that names',
    ['public.next_id'],
    ['public.members', 'public.next_id', 'public.todos'],
  ],
  ['a table that nothing names and that names nothing', ['public.lists'], ['public.lists']],
  ['the policies of all buckets are one', ['storage.objects'], ['public.members', 'storage.objects']],
])('%s', (_what, changed, expected) => {
  expect([...related.of(new Set(changed))].sort()).toEqual(expected);
});
