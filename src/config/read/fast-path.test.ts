import fc from 'fast-check';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { EXAMPLES } from '../docs/reference-examples.ts';
import { readByLibrary, readDocument } from './document.ts';
import { readFastPath } from './fast-path.ts';
import { readTree } from './read-tree.ts';
import type { Place } from './node-table.ts';
import { scaled } from '../../../test/support/run/scaled.ts';

// Each test reads hundreds of texts, which takes long on a busy machine.
vi.setConfig({ testTimeout: scaled(60_000) });

const VARIABLES = { NAME: 'a value', PORT: '80' };

/** Returns a value with all its places. Only the first line of a text is ever underlined. */
function toShape(text: string, { key, value, scalar, isList, children }: Place): unknown {
  const lineEnd = text.indexOf('\n', value.offset);
  const room = (lineEnd < 0 ? text.length : lineEnd) - value.offset;
  return {
    key,
    value: { offset: value.offset, length: Math.min(value.length, room) },
    scalar,
    isList,
    children: [...children].map(([name, child]) => [name, toShape(text, child)]),
  };
}

/** Renders JSON, which is compared a hundred times faster than objects. */
function renderTree(text: string, read: typeof readDocument): string {
  const found = read(text);
  if (!found.ok) return JSON.stringify(found.mistakes, null, 1);
  const { value, root, mistakes, substitutions } = readTree(
    [{ name: 'svc.yaml', document: found.document }],
    VARIABLES,
  );
  return JSON.stringify([value, toShape(text, root), mistakes, [...substitutions]], null, 1);
}

function expectEqualTrees(text: string): void {
  expect(renderTree(text, readDocument)).toBe(renderTree(text, readByLibrary));
}

const ROOT = join(import.meta.dirname, '../../..');
const FILES = readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('svc.yaml') && !name.includes('node_modules'))
  .map((name) => readFileSync(join(ROOT, 'examples', name), 'utf8'));
const TEXTS = [...FILES, Object.values(EXAMPLES).join('\n')];

test('the examples are read without the library, with the same result', () => {
  expect(FILES.length).toBeGreaterThan(1);
  for (const text of TEXTS) {
    expect(readFastPath(text)).toBeDefined();
    expectEqualTrees(text);
  }
});

describe('both parsers read the same', () => {
  const TABLE: readonly [string, string][] = [
    [
      'plain values',
      'a: b\nc: d e  \nf: 1\ng: 1.10\nh: true\ni: ~\nj: null\nk:\nl: -1\nm: -x\nn: a:b\no: a#b',
    ],
    ['comments', '# first\na: b # c\n\n  # in between\nc: # d\n  e: f\n# last'],
    ['quotes', `a: 'it''s'\nb: "x # y"\nc: "x\\ny"\nd: ''\ne: ""\n"f": 1\n'g': 2\n"h\\n": 3`],
    ['flow', 'a: { b: c, d: [e, "f", \'g\'], h: { i: 1 } } # j\nk: []\nl: {}\nm: [ ]\nn: { o: now() }'],
    ['flow that is unusual', 'a: { b, c: }\nd: [e, ]\nf: [g: 1]\nh: {"i":1}\nj: { k: l[] }\nm: [n,o]'],
    ['flow in lines', 'a: {\n  b: c,\n  d: [e,\n    f] }\ng: 1'],
    [
      'lists',
      'a:\n- b\n- c: d\n  e: f\n-   g: h\n    i:\n    - j\n-\n- # k\n  l: m\n- [n]\no:\n  - p\n  - - q\n    - r',
    ],
    [
      'blocks',
      'a: |\n  # no comment\n\n  b\n# a comment\nc: >-\n  d\n  e\n\n\nf: |+\n  g\n\n\nh: |2\n    i\nj: 1',
    ],
    ['text over lines', 'a: b\n  c\nd:\n  e\n  f\ng: "h\n  i"\nj:\n  - k\n    l\n  - m'],
    ['anchors', 'a: &x { b: c }\nd: *x\ne:\n  <<: *x\n  f: g'],
    ['an anchor inside of an entry', 'a:\n  b: |\n    c\n  d: &x 1\n  e: [f,\n  *x]'],
    ['tags', 'a: !!str 1\nb: !x c\nd: [!!str 2]'],
    ['a tab', 'a: b\t# c\nd:\te\nf: |\n\tg\n'],
    ['indentation', 'a:\n    b:\n          c: d\n    e: f\ng:\n  h: i'],
    ['wrong indentation', 'a:\n    b: c\n  d: e'],
    ['further in', 'a: b\n  c: d'],
    ['less than the first', '  a: b\nc: d'],
    ['all in a column', '  a: b\n  c:\n  - d'],
    ['a list at the top', '- a\n- b'],
    ['an item among keys', 'a: b\n- c'],
    ['documents', 'a: b\n---\nc: d'],
    ['a document end', 'a: b\n...\n'],
    ['a directive', '%YAML 1.1\n---\na: yes'],
    ['windows', 'a: b\r\nc: d\r\n'],
    ['a byte order mark', '\uFEFFa: b'],
    ['odd spaces', 'a:\u00a0b\nc: \u00a0d\ne: f\u00a0\ng: h\u2028i'],
    ['keys', '1: a\nnull: b\ntrue: c\na b: d\nä: e\n? f\n: g\nh.i-j: k\n__proto__: l\n<<: m\n[n]: o'],
    ['a key twice', 'a: b\nc: { d: 1, d: 2 }\na: e'],
    ['references', 'a: ${NAME}\nb: "${PORT}"\nc: { d: "${NAME}" }\ne: { f: ${NAME} }\ng: ${NONE}'],
    ['nothing', ''],
    ['only a comment', '# a'],
    ['open ends', 'a: "b\nc: [d\ne: \'f'],
    ['a closing bracket in the column of its key', 'a: {\n  b: c\n}\nd: e'],
    ['an empty key', 'a: \n:'],
    ['a map among keys', 'a:\n{ b: c }'],
    ['no line at the end', 'a:\n  b'],
    ['spaces at the end', 'a: b\n   '],
  ];
  test.each(TABLE)('%s', (_what, text) => {
    expectEqualTrees(text);
    // Also reads each line separately.
    for (const line of text.split('\n')) expectEqualTrees(line);
    expectEqualTrees(`tables:\n${text.replaceAll(/^(?=.)/gm, '  ')}\nversion: 1\n`);
    expectEqualTrees(`tables:\n  - a: b\n${text.replaceAll(/^(?=.)/gm, '    ')}\n`);
  });
});

const PIECES = [
  ...`: ,[]{}#&*!|>'"%@\`$-?~`.split(''),
  ': ',
  '- ',
  ' #',
  '\n',
  '\n  ',
  '\t',
  "''",
  '\\n',
  '${NAME}',
  '*a',
  '&a ',
  '<<: ',
  '|\n',
  '>-\n',
  'key: ',
  '{ a: b }',
  '---\n',
  'ä',
  '\u00a0',
];

test('damaged files', () => {
  const [text = ''] = TEXTS.slice(-1);
  const damage = fc.record({
    at: fc.nat(text.length),
    cut: fc.nat(6),
    piece: fc.constantFrom('', ...PIECES),
  });
  fc.assert(
    fc.property(fc.array(damage, { minLength: 1, maxLength: 3 }), (damages) => {
      expectEqualTrees(
        damages.reduce((was, { at, cut, piece }) => was.slice(0, at) + piece + was.slice(at + cut), text),
      );
    }),
    { numRuns: 40 },
  );
});

test('small texts of all kinds of pieces', () => {
  const piece = fc.constantFrom(...PIECES, 'a', 'b: c', ' ', '  ', '\n', '\n', '\n  ', '\n- ', '\n    ');
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 14 }), (pieces) => expectEqualTrees(`k: ${pieces.join('')}`)),
    { numRuns: 1_000 },
  );
});

test('nested entries that need the library are not read again and again', () => {
  const depth = 90;
  const open = Array.from({ length: depth }, (_, n) => `${' '.repeat(n)}a:\n`).join('');
  const closed = Array.from({ length: depth }, (_, n) => `${' '.repeat(depth - n)}b: "\\n"\n`).join('');
  const text = `${open}${' '.repeat(depth)}c: 1\n${closed}`;
  expectEqualTrees(text);
});
