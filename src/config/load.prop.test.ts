import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { isScalar, parseDocument, stringify, visit } from 'yaml';
import { compareDecimals, parseDecimal } from './schema/decimal.ts';
import { editConfig } from './edit/edit-parts.ts';
import { loadConfig, type Loaded } from './load.ts';
import type { Mistake } from './mistakes/mistake.ts';
import { EXAMPLES } from './docs/reference-examples.ts';
import { renderMistakes } from './mistakes/report.ts';
import { scaled } from '../../test/support/run/scaled.ts';

// Removes references to files, because these files have no directory.
const FILE = Object.values(EXAMPLES)
  .join('\n')
  .replace(/^(?:include|sql): .*$/gm, '')
  .replaceAll('body_file:', 'body:')
  .replace('run: steps/split-names.sql', 'sql: select 1')
  .replace('undo: { file: steps/join-names.sql }', 'undo: select 1')
  .replace('{ file: sql/sales_by_day.sql }', 'select 1 as n');
const VARIABLES = Object.fromEntries(
  [...FILE.matchAll(/\$\{(\w+)\}/g)].map(([, name]) => [name, `of-${name}`]),
);

function load(text: string, variables: Record<string, string> = VARIABLES): Loaded {
  return loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables });
}

function listMistakes(loaded: Loaded): readonly Mistake[] {
  return loaded.ok ? loaded.warnings : loaded.mistakes;
}

/** Requires positions inside the file, messages without internal values, and a report that can be rendered. */
function expectSound(text: string): void {
  const mistakes = listMistakes(load(text));
  const lines = text.split('\n');
  for (const { position, length, message } of mistakes) {
    expect(position.line).toBeGreaterThanOrEqual(1);
    expect(position.line).toBeLessThanOrEqual(lines.length);
    expect(position.column).toBeGreaterThanOrEqual(1);
    expect(position.column).toBeLessThanOrEqual((lines[position.line - 1] ?? '').length + 1);
    expect(length).toBeGreaterThanOrEqual(1);
    expect(message).not.toMatch(/undefined|\[object|NaN is|Error:/);
  }
  expect(renderMistakes(mistakes, { file: 'svc.yaml', text })).not.toContain('undefined');
}

// Each test loads hundreds of files, which takes long on a busy machine.
vi.setConfig({ testTimeout: scaled(120_000) });

const KNOWN_KEYS = (
  'version server port auth oauth google tables t fields name type rls operations using default sql enum min ' +
  'foreign_key references storage rpc returns body args functions file runtime env indexes columns providers email'
).split(' ');
const PUNCTUATION = [
  '[',
  ']',
  '{',
  '}',
  ':',
  ',',
  '#',
  '&',
  '*',
  '!',
  '|',
  '>',
  "'",
  '"',
  '%',
  '@',
  '`',
  '$',
  '-',
  '?',
];

describe('no file makes the loader throw, and every mistake has a position in the file', () => {
  const line = fc.nat(FILE.split('\n').length - 1);
  const damage = fc.oneof(
    fc.record({ kind: fc.constant('delete'), line }),
    fc.record({ kind: fc.constant('repeat'), line }),
    fc.record({ kind: fc.constant('indent'), line }),
    fc.record({
      kind: fc.constant('insert'),
      line,
      at: fc.nat(60),
      text: fc.constantFrom(
        ...PUNCTUATION,
        ' ',
        '\t',
        'ä',
        '\u{1f600}',
        '${X}',
        '*a',
        '<<: ',
        'null',
        '1e999',
        '- ',
      ),
    }),
    fc.record({ kind: fc.constant('cut'), line, at: fc.nat(60) }),
  );

  test('a valid file with a few damaged lines', () => {
    fc.assert(
      fc.property(fc.array(damage, { minLength: 1, maxLength: 4 }), (damages) => {
        const lines = FILE.split('\n');
        for (const change of damages) {
          const old = lines[change.line] ?? '';
          if (change.kind === 'delete') lines.splice(change.line, 1);
          else if (change.kind === 'repeat') lines.splice(change.line, 0, old);
          else if (change.kind === 'indent') lines[change.line] = `  ${old}`;
          else if ('text' in change)
            lines[change.line] = old.slice(0, change.at) + change.text + old.slice(change.at);
          else if ('at' in change) lines[change.line] = old.slice(0, change.at);
        }
        expectSound(lines.join('\n'));
      }),
      { numRuns: 30 },
    );
  });

  test('any values under the known keys', () => {
    const scalar = fc.oneof(
      fc.string(),
      fc.integer(),
      fc.double(),
      fc.boolean(),
      fc.constant(null),
      fc.constantFrom('a.b', 'auth.users.id', 'storage.x', '5m', '${X:-1}'),
    );
    const known = fc.constantFrom(...KNOWN_KEYS);
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof({ depthSize: 'medium', withCrossShrink: true }, scalar, tie('list'), tie('map')),
      list: fc.array(tie('tree'), { maxLength: 4 }),
      map: fc.dictionary(fc.oneof(known, fc.string({ maxLength: 4 })), tie('tree'), { maxKeys: 6 }),
    }));
    fc.assert(
      fc.property(fc.dictionary(known, tree, { maxKeys: 8 }), (value) =>
        expectSound(stringify({ version: 1, ...value })),
      ),
      { numRuns: 120 },
    );
  });

  test('any text', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 400 }), expectSound), { numRuns: 120 });
  });
});

test('no message shows the value of a variable, wherever the file refers to it', () => {
  const document = parseDocument(FILE);
  const places: [number, number][] = [];
  visit(document, {
    Scalar(key, node) {
      if (key !== 'key' && isScalar(node) && node.range) places.push([node.range[0], node.range[1]]);
    },
  });
  expect(places.length).toBeGreaterThan(150);
  for (const secret of ['73519264.5', 'a\nb: hunter2']) {
    for (const [start, end] of places) {
      const text = `${FILE.slice(0, start)}"\${SECRET}"${FILE.slice(end)}`;
      const mistakes = listMistakes(load(text, { ...VARIABLES, SECRET: secret }));
      expect(JSON.stringify(mistakes)).not.toContain(JSON.stringify(secret).slice(1, -1));
    }
  }
});

test('a number keeps its digits from the file to the configuration', () => {
  const digits = fc
    .tuple(
      fc.constantFrom('', '-'),
      fc.bigInt({ min: 0n, max: 10n ** 40n }),
      fc.option(fc.stringMatching(/^[0-9]{1,30}$/)),
    )
    .map(([sign, whole, fraction]) => `${sign}${whole}${fraction === null ? '' : `.${fraction}`}`);
  fc.assert(
    fc.property(digits, (number) => {
      const field = `{ name: a, type: numeric, default: ${number}, min: ${number}, max: "${number}" }`;
      const loaded = load(`version: 1\ntables: { t: { rls: [], fields: [${field}] } }`);
      expect(loaded.ok && loaded.config.tables[0]?.fields[0]).toMatchObject({
        default: { kind: 'scalar', type: 'number', text: number },
        min: number,
        max: number,
      });
    }),
    { numRuns: 100 },
  );
});

test('decimals compare like numbers', () => {
  const scaled = fc.tuple(
    fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }),
    fc.integer({ min: -20, max: 20 }),
  );
  fc.assert(
    fc.property(scaled, scaled, ([a, x], [b, y]) => {
      const [left, right] = [parseDecimal(`${a}e${x}`), parseDecimal(`${b}e${y}`)];
      const [first, second] = [a * 10n ** BigInt(x + 20), b * 10n ** BigInt(y + 20)];
      const expected = first === second ? 0 : first < second ? -1 : 1;
      expect(left && right && compareDecimals(left, right)).toBe(expected);
    }),
  );
});

test('adding and removing entries restores the original file', () => {
  const text = fc.string({ minLength: 1, maxLength: 30 }).filter((written) => /\S/.test(written));
  fc.assert(
    fc.property(text, fc.constantFrom('draft', 'sold'), (description, state) => {
      const path = ['rpc', 'search_products', 'args'];
      const source = { name: 'svc.yaml', directory: undefined, text: FILE };
      const edited = editConfig(
        source,
        [
          { kind: 'append', path, value: { name: 'zz', type: 'text', default: state } },
          {
            kind: 'set',
            path: ['rpc', 'zz'],
            value: { description, returns: { type: 'int' }, body: description },
          },
          { kind: 'delete', path: ['rpc', 'zz'] },
          { kind: 'delete', path: [...path, 2] },
        ],
        { variables: VARIABLES },
      );
      expect(edited).toMatchObject({ ok: true, texts: new Map() });
    }),
    { numRuns: 30 },
  );
});
