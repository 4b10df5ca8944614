// Selection of the declarations that are built together in the shadow schema.
import { expect, test } from 'vitest';
import { parseConfig } from '../../../test/migrate/parse-config.ts';
import { toModel } from '../schema/declared.ts';
import { RelatedDeclarations } from './related.ts';

const related = new RelatedDeclarations(
  toModel(
    parseConfig(`tables:
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
  ['no change', [], []],
  ['an unrelated function', ['public.alone'], ['public.alone']],
  [
    'declarations that name the changed table, and declarations that these name',
    ['public.members'],
    ['public.members', 'public.next_id', 'public.todos', 'storage.objects'],
  ],
  [
    'declarations that the changed function names, and declarations that these name',
    ['public.next_id'],
    ['public.members', 'public.next_id', 'public.todos'],
  ],
  ['an unrelated table', ['public.lists'], ['public.lists']],
  ['the policies of all buckets', ['storage.objects'], ['public.members', 'storage.objects']],
])('%s', (_what, changed, expected) => {
  expect([...related.expand(new Set(changed))].sort()).toEqual(expected);
});
