// Mistakes in `types:` and in fields of these types.
import { expect, test } from 'vitest';
import { loadConfig } from '../load.ts';

const mistakes = (text: string): string[] => {
  const loaded = loadConfig(
    { name: 'svc.yaml', directory: undefined, text: `version: 1\n${text}` },
    { variables: {} },
  );
  if (loaded.ok) return [];
  return loaded.mistakes
    .filter(({ severity }) => severity === 'error')
    .map((mistake) => `${mistake.path.join('.')}: ${mistake.message}. ${mistake.hint ?? ''}`.trim());
};

const field = (keys: string, types = 'mood: { enum: [sad, ok] }'): string =>
  `types: { ${types} }\ntables:\n  t:\n    rls: []\n` +
  `    fields: [{ name: id, type: integer, primary_key: true }, { name: mood, ${keys} }]`;

test.each([
  ['without its schema', field('type: mood, default: ok')],
  ['with its schema, as an array', field('type: "public.mood[]", default: [sad, ok]')],
  ['as an array written as text', field('type: "mood[]", default: "{sad}"')],
  ['by an expression', field(`type: mood, default: { sql: "'o' || 'k'" }`)],
  ['under a name that is also a type of another product', field('type: email', 'email: { enum: [a] }')],
  [
    'as the result of a set-returning function',
    `types: { mood: { enum: [a] } }\nrpc: { f: { returns: { type: setof mood }, body: "" } }`.replace(
      '""',
      'begin end',
    ),
  ],
  ['with values that look like numbers', field('type: size, default: 1.10', 'size: { enum: [1.10, 2] }')],
])('a type that is used %s', (_how, text) => expect(mistakes(text)).toEqual([]));

test.each([
  [
    field('type: mood, default: okk'),
    'tables.t.fields.1.default: the default "okk" is not a value of mood. Did you mean ok?',
  ],
  [
    field('type: "mood[]", default: [sad, sadd]'),
    'tables.t.fields.1.default.1: the default "sadd" is not a value of mood. Did you mean sad?',
  ],
  [
    field('type: mood, default: [sad]'),
    'tables.t.fields.1.default: a list is not a valid value of type mood. Correct the type or the default.',
  ],
  ['types: { text: { enum: [a] } }', 'types.text: text is a PostgreSQL type. Choose another name.'],
  [
    field('type: text', 't: { enum: [a] }'),
    'types.t: there is a table t, which defines a type with the same name. Choose another name for the type.',
  ],
  ['types: { mood: { enum: [a, a] } }', 'types.mood.enum.1: "a" is listed twice. Remove one of the two.'],
  [
    'types: { mood: { enum: [""] } }',
    'types.mood.enum.0: "" is not a valid enum value: values have 1 to 63 bytes. ' +
      'For longer texts use a text column with the key enum.',
  ],
  [
    'types: { mood: { enum: [sad, ok], renamed_values: { fine: okay } } }',
    'types.mood.renamed_values.fine: fine was renamed to "okay", which is not among the values. Add it to enum.',
  ],
  [
    'types: { mood: { enum: [sad, ok], renamed_values: { ok: sad } } }',
    'types.mood.renamed_values.ok: ok is still listed under enum, so it cannot be renamed. ' +
      'Remove one of the two. To swap two values, deploy a third name first.',
  ],
  [
    'types: { mood: { enum: [sad], renamed_values: { a: sad, b: sad } } }',
    'types.mood.renamed_values.b: both a and b were renamed to sad. Remove one of the two.',
  ],
  [
    'types: { mood: {} }',
    'types.mood: the type mood has no definition. ' +
      'Write enum: [values], domain: <type> or composite: { attribute: <type> }.',
  ],
  [
    'types: { mood: { enum: [a], domain: text } }',
    'types.mood.domain: a type is either an enum or a domain. Declare two types.',
  ],
  [
    'types: { mood: { enum: [a], not_null: true } }',
    'types.mood.not_null: not_null is only valid for a domain, and mood is an enum. Remove not_null.',
  ],
  [
    'types: { mood: { domain: text, renamed_values: { a: b } } }',
    'types.mood.renamed_values: renamed_values is only valid for an enum, and mood is a domain. Remove renamed_values.',
  ],
  [
    'types: { mood: { domain: "mood[]" } }',
    'types.mood.domain: mood cannot be based on itself. Name another type.',
  ],
  [
    'types: { mood: { domain: integer, default: now() } }',
    'types.mood.default: now() would be a text and not a call. Write default: { sql: now() }.',
  ],
  [
    'types: { mood: { enum: [a], schema: auth } }',
    'types.mood.schema: the schema auth is reserved. Omit schema to use public, or choose another name.',
  ],
  [
    'types: { mood: { enum: [a], renamed_from: mood } }',
    'types.mood.renamed_from: mood cannot be renamed from itself. Remove renamed_from.',
  ],
])('%s', (text, expected) => expect(mistakes(text)).toEqual([expected]));
