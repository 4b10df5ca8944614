// Mistakes in `sequences:`.
import { expect, test } from 'vitest';
import { loadConfig } from '../load.ts';

const mistakes = (sequence: string, more = ''): string[] => {
  const loaded = loadConfig(
    { name: 'svc.yaml', directory: undefined, text: `version: 1\nsequences: { ${sequence} }\n${more}` },
    { variables: {} },
  );
  if (loaded.ok) return [];
  return loaded.mistakes
    .filter(({ severity }) => severity === 'error')
    .map((mistake) => `${mistake.path.join('.')}: ${mistake.message}. ${mistake.hint ?? ''}`.trim());
};

test.each([
  ['nothing', 's: {}'],
  ['the ends of a type', 's: { type: smallint, min: -32768, max: 32767 }'],
  ['numbers that JavaScript rounds', 's: { start: 9223372036854775807, max: 9223372036854775807 }'],
  ['a sequence that counts down', 's: { increment: -1, start: -5 }'],
  ['one role', 's: { usage: authenticated }'],
])('a sequence with %s', (_what, sequence) => expect(mistakes(sequence)).toEqual([]));

test.each([
  [
    's: { increment: 0 }',
    'sequences.s.increment: an increment of 0 would always return the same value. Write 1, or another increment.',
  ],
  ['s: { start: 1.5 }', 'sequences.s.start: "1.5" is not a whole number of at most 19 digits.'],
  [
    's: { type: smallint, max: 40000 }',
    'sequences.s.max: smallint ranges from -32768 to 32767, and max is 40000. Choose another number.',
  ],
  ['s: { min: 5, max: 5 }', 'sequences.s.min: min (5) must be less than max (5). Correct one of the two.'],
  [
    's: { min: 5, start: 3 }',
    'sequences.s.start: start (3) must be between 5 and 9223372036854775807. Correct start, min or max.',
  ],
  ['s: { increment: -1, max: 0, start: 1 }', 'start (1) must be between -9223372036854775808 and 0'],
  ['s: { cache: 0 }', 'sequences.s.cache: 0 must be at least 1'],
  [
    's: { usage: [public] }',
    'sequences.s.usage.0: public includes every role of the database. Name the roles: usage: [authenticated].',
  ],
  ['s: { usage: [anon, anon] }', 'sequences.s.usage.1: anon is listed twice'],
  ['s: { schema: auth }', 'the schema auth is reserved'],
  ['s: { from: 1 }', 'from'],
  ['a: {}, b: { renamed_from: a }', 'sequences.b.renamed_from: a is still declared here'],
])('%s is a mistake', (sequence, message) => {
  expect(mistakes(sequence).join('\n')).toContain(message);
});

test('a sequence cannot have the name of a table or a view', () => {
  const table = 'tables: { s: { rls: [], fields: [{ name: id, type: integer, primary_key: true }] } }';
  expect(mistakes('s: {}', table)).toEqual([
    'sequences.s: s is already a table of this file. Give the sequence another name.',
  ]);
  expect(mistakes('s: {}', 'views: { s: { query: select 1 as a } }')[0]).toContain(
    's is already a view of this file',
  );
});
