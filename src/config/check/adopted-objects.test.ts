// Loads files that PostgreSQL accepts. A file that was pulled from a database must be valid, with warnings at most.
import { expect, test } from 'vitest';
import { loadConfig } from '../load.ts';

const TABLE =
  '{ name: id, type: integer, primary_key: true }, { name: parent, type: integer, required: true }';

function listMistakes(body: string): string[] {
  const loaded = loadConfig(
    { name: 'svc.yaml', directory: undefined, text: `version: 1\n${body}` },
    { variables: {} },
  );
  const mistakes = loaded.ok ? loaded.warnings : loaded.mistakes;
  return mistakes.map(({ severity, message }) => `${severity}: ${message}`);
}

const table = (more: string): string => `tables:\n  t:\n    rls: []\n    fields: [${TABLE}]\n    ${more}\n`;

test.each([
  [
    'two equal indexes with names',
    table('indexes: [{ name: a, columns: [parent] }, { name: b, columns: [parent] }]'),
    ['warning: the same index is declared twice'],
  ],
  [
    'two equal indexes without names',
    table('indexes: [{ columns: [parent] }, { columns: [parent] }]'),
    ['error: the same index is declared twice'],
  ],
  [
    'set null on a required column',
    table('').replace(
      'required: true }',
      'required: true, foreign_key: { references: t.id, on_delete: set_null } }',
    ),
    [
      'warning: set_null cannot empty parent, which is required: deleting or changing the referenced row would fail',
    ],
  ],
  [
    'set null of several columns, one of them required',
    table(
      'constraints: [{ unique: [id, parent] }, { foreign_key: [id, parent], references: "t(id, parent)", ' +
        'on_delete: set_null }]',
    ),
    [
      'warning: set_null cannot empty id, which is part of the primary key: ' +
        'deleting or changing the referenced row would fail',
      'warning: set_null cannot empty parent, which is required: deleting or changing the referenced row would fail',
    ],
  ],
  [
    'an empty SQL body that returns nothing',
    'rpc:\n  noop: { language: sql, returns: { type: void }, body: "" }\n',
    [],
  ],
  [
    'an empty body that returns a value',
    'rpc:\n  noop: { language: sql, returns: { type: integer }, body: "" }\n',
    ['error: "body" must not be empty'],
  ],
  [
    'an empty PL/pgSQL body',
    'rpc:\n  noop: { language: plpgsql, returns: { type: void }, body: "" }\n',
    ['error: "body" must not be empty'],
  ],
  [
    'types whose names only resemble those of PostgreSQL',
    `types:\n${['region', 'registration_mode', 'anything', 'Name', 'TEXT', 'pg_thing']
      .map((name) => `  ${name}: { enum: [a] }\n`)
      .join('')}`,
    [],
  ],
  [
    'a type with the name of one of PostgreSQL',
    'types:\n  regclass: { enum: [a] }\n',
    ['error: regclass is a PostgreSQL type'],
  ],
  [
    'a table with the name of a type',
    'tables:\n  point: { rls: [], fields: [{ name: id, type: point }, { name: n, type: integer, ' +
      'primary_key: true }] }\n',
    [],
  ],
] as const)('%s', (_what, body, expected) => {
  expect(listMistakes(body)).toEqual(expected);
});

test('the hint for a foreign key to a column with a dot suggests a constraint', () => {
  const text = (key: string): string =>
    `tables:\n  t:\n    rls: []\n` +
    `    fields: [{ name: a.b, type: integer, primary_key: true }, { name: x, type: integer${key} }]\n`;
  const field = loadConfig(
    {
      name: 'svc.yaml',
      directory: undefined,
      text: `version: 1\n${text(', foreign_key: { references: public.t.a.b }')}`,
    },
    { variables: {} },
  );
  expect(field.ok ? [] : field.mistakes.map(({ hint }) => hint)).toEqual([
    expect.stringContaining(`constraints: [{ foreign_key: [x], references: 't("a.b")' }]`),
  ]);
  expect(
    listMistakes(`${text('')}    constraints: [{ foreign_key: [x], references: 't("a.b")' }]\n`),
  ).toEqual([]);
});
