import { expect, test } from 'vitest';
import { toIndex } from './pulled-index.ts';

const strip = (text: string): string => text.replace(/^\((.*)\)$/, '$1');

const read = (definition: string, ...keys: string[]): unknown => {
  const index = toIndex(
    { label: 'i', columns: [], plain: false, unique: false, predicate: null, valid: true, definition, keys },
    strip,
    't',
  );
  if (index === null) return null;
  const { name: _name, ...rest } = index;
  return rest;
};

test.each<[string, string[], unknown]>([
  ['USING btree (lower(email))', ['lower(email)'], { columns: [{ expression: 'lower(email)' }] }],
  [
    'USING btree (((a + 1)) DESC, b NULLS FIRST)',
    ['((a + 1))', 'b'],
    {
      columns: [
        { expression: '(a + 1)', order: 'desc' },
        { column: 'b', nulls: 'first' },
      ],
    },
  ],
  [
    "USING gin (title extensions.gin_trgm_ops) WITH (fastupdate='off')",
    ['title'],
    { columns: [{ column: 'title', opclass: 'gin_trgm_ops' }], using: 'gin', with: { fastupdate: 'off' } },
  ],
  [
    `USING gist (s tsvector_ops (siglen='64'), "Odd, one" COLLATE "de-x-icu" text_pattern_ops DESC NULLS LAST)`,
    ['s', '"Odd, one"'],
    {
      columns: [
        { column: 's', opclass: 'tsvector_ops', opclass_options: { siglen: '64' } },
        {
          column: 'Odd, one',
          collate: 'de-x-icu',
          opclass: 'text_pattern_ops',
          order: 'desc',
          nulls: 'last',
        },
      ],
      using: 'gist',
    },
  ],
  [
    'USING btree (a) INCLUDE (b, "C") NULLS NOT DISTINCT WHERE (a > 0)',
    ['a'],
    { columns: ['a'], include: ['b', 'C'], nulls_not_distinct: true },
  ],
  ['USING gist (room WITH =)', ['room'], null],
])('%s', (definition, keys, expected) => {
  expect(read(definition, ...keys)).toEqual(expected);
});
