// Writes SQL without quotes at every place of the schema that accepts it. svc must read the whole text or report a
// mistake. YAML would cut some of these texts silently.
import { describe, expect, test } from 'vitest';
import { asNode, childSchema, canBeSql, rootSchema, type SchemaNode } from '../schema/known-keys.ts';
import { readDocument } from './document.ts';
import { readTree } from './read-tree.ts';

const HOSTILE = [
  'true, owner_id = auth.uid()',
  'select id, owner_id, title from t',
  "x in ('a', 'b') and f(a, b)",
  "data #>> '{a}' = 'b'",
  "data #> '{a,b}' is null",
  "data #- '{a,b}' = data",
  "x = '{a,b}'",
  "x = 'a: b'",
  "x = '#no comment'",
  "x = 'it''s, fine'",
  '"A" = 1, b',
  "'a' = b",
  'a[1] = 2',
  "a ? 'b'",
  "jsonb_build_object('a', 1) = '{}'::jsonb",
  '{a} = b',
  '[1, 2] = b',
];

type Step = string | number;

/** Returns every path of the schema that accepts SQL, with `name` for names that the file chooses. */
function sqlPaths(node: SchemaNode, path: readonly Step[] = []): Step[][] {
  if (path.length > 12) return [];
  const here = canBeSql(node) ? [[...path]] : [];
  return [...here, ...childSteps(node).flatMap((step) => sqlPaths(childSchema(node, step), [...path, step]))];
}

function childSteps(node: SchemaNode): Step[] {
  const branches = [node, ...(Array.isArray(node?.['anyOf']) ? node['anyOf'].map(asNode) : [])];
  const steps = branches.flatMap((branch): Step[] => [
    ...Object.keys(asNode(branch?.['properties']) ?? {}),
    ...(branch?.['items'] === undefined ? [] : [0]),
    ...(asNode(branch?.['additionalProperties']) === undefined ? [] : ['name']),
  ]);
  return [...new Set(steps)];
}

const PATHS = sqlPaths(rootSchema());

/** Renders the path as inline collections on one line, with the text at its end. */
function inFlow(path: readonly Step[], sql: string): string {
  const [first, ...others] = path;
  const inner = others.reduceRight<string>(
    (value, step) => (typeof step === 'number' ? `[${value}]` : `{ ${step}: ${value} }`),
    sql,
  );
  return `${first}: ${inner}\n`;
}

/** Renders the path as block collections, with the text at its end. */
function inBlock(path: readonly Step[], sql: string): string {
  const [first, ...others] = path;
  let text = `${first}:`;
  for (const [depth, step] of others.entries())
    text += `\n${'  '.repeat(depth + 1)}${typeof step === 'number' ? '-' : `${step}:`}`;
  return `${text} ${sql}\n`;
}

function valueAt(value: unknown, path: readonly Step[]): unknown {
  return path.reduce<unknown>((found, step) => (found as Record<Step, unknown> | undefined)?.[step], value);
}

/** Returns the value at the path, or undefined for a file with mistakes. */
function readAt(text: string, path: readonly Step[]): unknown {
  const read = readDocument(text);
  if (!read.ok) return undefined;
  const { value, mistakes } = readTree([{ name: 'svc.yaml', document: read.document }], {});
  return mistakes.length > 0 ? undefined : valueAt(value, path);
}

test('the schema has places for SQL in tables, views, functions and types', () => {
  const tops = new Set(PATHS.map(([top]) => top));
  expect([...tops]).toEqual(
    expect.arrayContaining(['tables', 'views', 'rpc', 'types', 'storage', 'realtime']),
  );
});

describe.each(HOSTILE)('%s', (sql) => {
  test.each([
    ['flow', inFlow],
    ['block', inBlock],
  ])('is not cut in %s collections', (_style, write) => {
    const cut = PATHS.filter((path) => {
      // A comma in a list separates two texts of SQL, whose syntax is checked later.
      if (write === inFlow && path.at(-1) === 0 && sql.includes(',')) return false;
      const found = readAt(write(path, sql), path);
      return typeof found === 'string' && found !== sql;
    });
    expect(cut.map((path) => path.join('.'))).toEqual([]);
  });
});

describe('an item of a flow map without a colon', () => {
  const listMistakes = (text: string): readonly [string, string | undefined][] => {
    const read = readDocument(text);
    if (!read.ok) throw new Error('The text is expected to parse.');
    const { mistakes } = readTree([{ name: 'svc.yaml', document: read.document }], {});
    return mistakes.map(({ message, hint }) => [message, hint]);
  };

  test('is a mistake with a hint that quotes the whole text', () => {
    expect(listMistakes('rls: [{ using: true, owner_id = auth.uid(), a = b }]')).toEqual([
      [
        '"owner_id = auth.uid()" has no colon, so it is not a key with a value',
        'Quote the text: using: "true, owner_id = auth.uid(), a = b".',
      ],
    ]);
  });

  test.each([
    'a: { b, c: 1 }',
    'a: { b: { c: 1 }, d }',
    'a:\n  <<: { b }',
    '? a',
    'a: { "b" }',
    'a: [{ b }]',
  ])('%j is a mistake in any map', (text) => {
    expect(listMistakes(text)).toEqual([
      [
        expect.stringContaining('has no colon'),
        'Write `key: value`. Quote a text that contains commas inside { }.',
      ],
    ]);
  });

  test('a key with a colon and no value is null, as in YAML', () => {
    expect(listMistakes('a: { b: , c: 1, d: ~, e: null }')).toEqual([]);
  });
});
