// Every mistake that the schema reports has a hint: wrong values at every key of the file, and mistakes that people
// bring from other products.
import { expect, test } from 'vitest';
import { asNode, childSchema, rootSchema, type SchemaNode } from '../schema/known-keys.ts';
import { loadConfig } from '../load.ts';
import { stringify } from 'yaml';
import { scaled } from '../../../test/support/run/scaled.ts';

type Step = string | number;

function listMistakes(text: string): readonly { message: string; hint: string | undefined; path: string }[] {
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
  return (loaded.ok ? [] : loaded.mistakes).map(({ message, hint, path }) => ({
    message,
    hint,
    path: path.join('.'),
  }));
}

function paths(node: SchemaNode, path: readonly Step[] = []): Step[][] {
  if (path.length > 9) return [];
  const branches = [node, ...(Array.isArray(node?.['anyOf']) ? node['anyOf'].map(asNode) : [])];
  const steps = new Set(
    branches.flatMap((branch): Step[] => [
      ...Object.keys(asNode(branch?.['properties']) ?? {}),
      ...(branch?.['items'] === undefined ? [] : [0]),
      ...(asNode(branch?.['additionalProperties']) === undefined ? [] : ['name']),
    ]),
  );
  return [...steps].flatMap((step) => {
    const whole = [...path, step];
    return [whole, ...paths(childSchema(node, step), whole)];
  });
}

function fileWith(path: readonly Step[], value: unknown): string {
  const inner = path.reduceRight<unknown>(
    (below, step) => (typeof step === 'number' ? [below] : { [step]: below }),
    value,
  );
  return stringify({ version: 1, ...(inner as object) });
}

test('a wrong value at any key is reported with a hint', { timeout: scaled(120_000) }, () => {
  const found = paths(rootSchema());
  expect(found.length).toBeGreaterThan(300);
  for (const path of found)
    for (const value of ['some text', [[1]], { odd: 1 }])
      for (const { message, hint } of listMistakes(fileWith(path, value)))
        expect(hint, `${path.join('.')}: ${message}`).toBeTruthy();
});

const table = (more: string): string =>
  `version: 1\ntables: { t: { ${more}, fields: [{ name: id, type: uuid, primary_key: true }] } }\n`;
const field = (more: string): string =>
  `version: 1\ntables: { t: { rls: [], ` +
  `fields: [{ name: id, type: uuid, primary_key: true }, { name: a, ${more} }] } }\n`;

test.each([
  [field('type: text, nullable: false'), /required: true/],
  [field('type: uuid, default: uuid_generate_v4()'), /uuid_v4\(\)/],
  [field('type: uuid, foreign_key: { references: users.id }'), /auth\.users\.id/],
  [field('type: uuid, foreign_key: auth.users.id'), /foreign_key: \{ references: auth\.users\.id \}/],
  [field('type: enum, values: [a, b]'), /enum: \[open, done\]/],
  [field('type: objectid'), /uuid/],
  [table('rls: [], indexes: [id]'), /\{ columns: \[id\] \}/],
  [table('rls: [], unique: [[a, b]]'), /constraints: \[\{ unique: \[a, b\] \}\]/],
  [table('rls: [], grants: [read]'), /grants: \{ anon: \[select\]/],
  [table('rls: [{ operations: [select], using: true, role: authenticated }]'), /mean to\?/],
  ["version: 1\nserver: { cors: '*' }\n", /cors: \{ origins: \[/],
  ['version: 1\nserver: { timeouts: { request: 1 hour } }\n', /without a space/],
  ['version: 2\n', /version: 1/],
  [
    'version: 1\nrpc: { f: { language: javascript, returns: { type: int }, body: "1" } }\n',
    /under functions/,
  ],
  ['version: 1\nfunctions: { f: { file: f.js, runtime: deno } }\n', /runtime: node/],
  ['version: 1\nfunctions: { f: { file: f.js, schedule: daily } }\n', /under schedules/],
  ['version: 1\nfunctions: { f: { file: f.js, events: [insert] } }\n', /triggers/],
  ['version: 1\nrpc: { f: { schedule: daily, returns: { type: int }, body: "" } }\n', /under schedules/],
  ['version: 1\nrpc: { f: { events: [insert], returns: { type: int }, body: "" } }\n', /triggers: \[\{/],
  [table('rls: [], events: [insert]'), /triggers: \[\{ timing: after/],
  ['version: 1\nimages: {}\n', /storage: \{ photos: \{ types: \["image/],
  ['version: 1\nstorage: { photos: { images: true } }\n', /types: \["image/],
  [
    'version: 1\nproviders: { email: { type: gmail, default_from_email: a@example.com } }\n',
    /type: smtp and url: smtp:/,
  ],
  [
    'version: 1\nseed: [{ name: demo, rows: { t: [{ x: 1 }] } }]\n' + table('rls: []').slice(11),
    /Columns of t: id/,
  ],
  ['version: 1\nseed: [{ name: demo, objects: { photos: seed } }]\n', /storage: \{ photos: \{\} \}/],
  ['version: 1\nseed: [{ name: demo, users: [{ email: a@example.com }] }]\n', /as: alice/],
])('%s', (text, advice) => {
  expect(listMistakes(text).map(({ hint }) => hint)).toContainEqual(expect.stringMatching(advice));
});
