// Conversion of declarations to SQL.
import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../../test/migrate/parse-config.ts';
import { outsideReferences, typeResolver } from './column-types.ts';
import { toModel } from './declared.ts';
import { defaultSql } from './sql/default-sql.ts';
import type { Desired, DesiredTable } from './desired.ts';
import { toDesired } from './to-desired.ts';

function desired(
  yaml: string,
  outside: ReadonlyMap<string, string> = new Map(),
  inCycles: string[] = [],
): Desired {
  const model = toModel(parseConfig(yaml));
  return toDesired(model, typeResolver(model, outside), new Set(inCycles));
}

function todos(field: string, more = ''): DesiredTable {
  const id = '{ name: id, type: bigint, primary_key: true }';
  const file = `tables:\n  todos:\n    fields:\n      - ${id}\n      - { ${field} }\n${more}`;
  const [table] = desired(file).tables;
  if (!table) throw new Error('no table');
  return table;
}

describe('types', () => {
  const chain =
    'tables:\n  a:\n    fields: [{ name: id, primary_key: true, foreign_key: { references: b.id } }]\n' +
    '  b:\n    fields: [{ name: id, primary_key: true, foreign_key: { references: c.id } }]\n' +
    '  c:\n    fields: [{ name: id, type: TYPE, primary_key: true }]\n';
  test.each([
    ['uuid', 'uuid'],
    ['bigserial', 'bigint'],
    ['serial2', 'smallint'],
    ['varchar(20)', 'varchar(20)'],
  ])('a column without a type gets the type of the referenced column: %s', (type, expected) => {
    const columns = desired(chain.replace('TYPE', type)).tables.map(({ columns: [id] }) => id);
    expect(columns.map((id) => id?.typeSql)).toEqual([expected, expected, expected]);
    expect(columns.map((id) => id?.serial)).toEqual([false, false, type.includes('serial')]);
  });

  test('the type of a referenced column outside the file is read from the database', () => {
    const file =
      'tables:\n  a:\n    fields:\n      - { name: id, type: bigint, primary_key: true }\n' +
      '      - { name: owner, foreign_key: { references: auth.users.id } }\n';
    expect(outsideReferences(toModel(parseConfig(file)))).toMatchObject([
      { schema: 'auth', table: 'users', column: 'id' },
    ]);
    const [table] = desired(file, new Map([['auth.users.id', 'uuid']])).tables;
    expect(table?.columns[1]?.typeSql).toBe('uuid');
  });
});

describe('defaults', () => {
  const literal = (text: string) => ({ kind: 'literal', text }) as const;
  test.each([
    [literal('a'), 'text', "'a'"],
    [literal("it's"), 'text', "'it''s'"],
    [literal('9007199254740993'), 'bigint', "'9007199254740993'"],
    [literal('now()'), 'timestamptz', 'now()'],
    [literal('NOW()'), 'timestamp (3) with time zone', 'now()'],
    [literal('now()'), 'text', "'now()'"],
    [literal('current_date'), 'date', 'current_date'],
    [literal('current_time'), 'time', 'current_time'],
    [literal('uuid_v4()'), 'uuid', 'gen_random_uuid()'],
    [literal('auth.uid()'), 'uuid', 'auth.uid()'],
    [literal('auth.uid()'), 'text', "'auth.uid()'"],
    [literal('{"a":1}'), 'jsonb', `'{"a":1}'`],
    [literal('plain'), 'jsonb', `'"plain"'`],
    [{ kind: 'list', items: ['a', 'b'], json: '["a","b"]' }, 'text[]', "array['a', 'b']::text[]"],
    [{ kind: 'list', items: [], json: '[]' }, 'text[]', "'{}'"],
    [{ kind: 'list', items: ['a'], json: '["a"]' }, 'jsonb', `'["a"]'`],
    [{ kind: 'json', text: '{"a":1}' }, 'jsonb', `'{"a":1}'`],
    [{ kind: 'sql', text: '1 + 1' }, 'integer', '(\n1 + 1\n)'],
  ] as const)('%j of %s', (value, type, sql) => expect(defaultSql(value, type)).toBe(sql));
});

describe('checks', () => {
  test.each([
    ['name: size, type: text, enum: [a, "it\'s"]', 'enum', `"size" in ('a', 'it''s')`],
    ['name: size, type: "text[]", enum: [a, b]', 'enum', `"size" <@ array['a', 'b']::text[]`],
    ['name: size, type: text, pattern: "^a"', 'pattern', `"size" ~ '^a'`],
    ['name: size, type: integer, min: 1', 'range', '"size" >= (1)'],
    ['name: size, type: integer, max: 9', 'range', '"size" <= (9)'],
    ['name: size, type: integer, min: -1, max: 9', 'range', '"size" >= (-1) and "size" <= (9)'],
    ['name: size, type: integer, check: size <> 3', 'check', 'size <> 3'],
  ])('%s', (field, role, sql) => {
    expect(todos(field).checks).toMatchObject([
      { role, label: `todos_size_${role}`, columns: ['size'], expression: { sql } },
    ]);
  });
});

describe('policies', () => {
  const clauses = (policy: string): (readonly [string, string | null, string | null])[] =>
    todos('name: owner, type: uuid', `    rls: [{ ${policy} }]\n`).policies.map(
      ({ command, using, check }) => [command, using?.sql ?? null, check?.sql ?? null] as const,
    );
  test.each([
    ['operations: [select], using: "a"', [['select', 'a', null]]],
    ['operations: [select], check: "a"', [['select', 'a', null]]],
    ['operations: [insert], check: "a"', [['insert', null, 'a']]],
    ['operations: [insert], using: "a"', [['insert', null, 'a']]],
    ['operations: [update], using: "a", with_check: "b"', [['update', 'a', 'b']]],
    ['operations: [update], using: "a", with_check: "a"', [['update', 'a', null]]],
    ['operations: [delete], using: "a"', [['delete', 'a', null]]],
    [
      'operations: [select, insert], using: "a"',
      [
        ['select', 'a', null],
        ['insert', null, 'a'],
      ],
    ],
    ['operations: [select, insert, update, delete], using: "a"', [['all', 'a', null]]],
    ['operations: [select], using: "owner = auth.uid()"', [['select', 'owner = (select auth.uid())', null]]],
  ])('%s', (policy, expected) => expect(clauses(policy)).toEqual(expected));

  test('policies of a table in a cycle stay as written', () => {
    const file =
      'tables:\n  todos:\n    fields: [{ name: id, type: uuid, primary_key: true }]\n' +
      '    rls: [{ operations: [select], using: "id = auth.uid()" }]\n';
    const usingSql = (inCycles: string[]): string | undefined =>
      desired(file, new Map(), inCycles).tables[0]?.policies[0]?.using?.sql;
    expect(usingSql(['public.todos'])).toBe('id = auth.uid()');
    expect(usingSql([])).toBe('id = (select auth.uid())');
  });

  test.each([
    ['permissive', "bucket_id = 'photos' and (\na\n)"],
    ['restrictive', "bucket_id <> 'photos' or (\na\n)"],
  ])('a policy of a bucket applies only to that bucket: %s', (type, sql) => {
    const file = `tables: {}\nstorage: { photos: { rls: [{ operations: [select], type: ${type}, using: a }] } }\n`;
    expect(desired(file).hosted['storage.objects']).toMatchObject([
      { home: 'storage.photos', using: { sql } },
    ]);
  });
});

test('arguments after an argument with a default get a default', () => {
  const [fn] = desired(
    'tables: {}\nrpc:\n  f:\n    language: sql\n    returns: { type: integer }\n    body: select 1\n    args:\n' +
      '      - { name: a, type: integer, required: true }\n      - { name: b, type: text, default: x }\n' +
      '      - { name: c, type: text, required: true }\n',
  ).functions;
  expect(fn?.head).toBe(
    `("a" integer, "b" text default 'x', "c" text default null) returns integer language sql volatile security invoker`,
  );
});
