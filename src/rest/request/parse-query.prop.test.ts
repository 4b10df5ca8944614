import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { Problem } from '../../problem/problem.ts';
import { readJsonBody } from './json-keys.ts';
import { parseQuery } from './parse-query.ts';

const piece = fc.oneof(
  fc.constantFrom(
    'select=',
    'a=',
    'or=',
    'order=',
    'limit=',
    '&',
    '(',
    ')',
    ',',
    '.',
    'eq.',
    'in.',
    'not.',
    '"',
    '\\',
    '->',
    '->>',
    '::',
    ':',
    '!',
    '...',
    '*',
    '{',
    '}',
    'and(',
    'is.null',
    '%',
    '+',
    ' ',
  ),
  fc.string({ unit: 'grapheme', maxLength: 4 }),
);

test('any text is either parsed or refused with a problem, never a fault', () => {
  fc.assert(
    fc.property(
      fc.array(piece, { maxLength: 20 }),
      fc.constantFrom('relation', 'routine-by-get', 'routine-by-post'),
      (pieces, target) => {
        try {
          const { shape, values } = parseQuery(pieces.join(''), target);
          expect(typeof shape).toBe('string');
          expect(values.every((value) => typeof value === 'string')).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(Problem);
        }
      },
    ),
    { numRuns: 5_000 },
  );
});

test('keys of a JSON body are those that JSON.parse sees', () => {
  const row = fc.dictionary(fc.string({ unit: 'grapheme', maxLength: 6 }), fc.jsonValue({ maxDepth: 2 }), {
    maxKeys: 5,
  });
  fc.assert(
    fc.property(fc.oneof(row, fc.array(row, { maxLength: 4 })), fc.constantFrom(0, 2), (body, indent) => {
      const read = readJsonBody(Buffer.from(JSON.stringify(body, undefined, indent)));
      const rows = Array.isArray(body) ? body : [body];
      expect(read?.rows).toBe(rows.length);
      expect(read?.keys).toEqual(Object.keys(rows[0] ?? {}).toSorted());
      const sets = new Set(rows.map((row) => JSON.stringify(Object.keys(row).toSorted())));
      expect(read?.uniform).toBe(sets.size <= 1);
    }),
  );
});

test('a body other than an object or an array of objects has no keys', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.jsonValue().map((value) => JSON.stringify(value)),
      ),
      (text) => {
        const read = readJsonBody(Buffer.from(text));
        if (read === undefined) return;
        expect(/^\s*[[{]/.test(text)).toBe(true);
      },
    ),
    { numRuns: 2_000 },
  );
});
