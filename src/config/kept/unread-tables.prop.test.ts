// Whatever is changed in a file: reading only what has changed gives what reading all of it gives, or is not done.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, test, vi } from 'vitest';
import { RINGS } from '../../../test/migrate/policy-ring-cases.ts';
import { rounds } from '../../../test/support/rounds.ts';
import { loadSqlParser } from '../sql/parser.ts';
import { loadChanged, loadConfig, type Loaded } from '../load.ts';
import { unreadTables } from './unread-tables.ts';

vi.setConfig({ testTimeout: 120_000 });

const EXAMPLES = ['chat', 'documents', 'shop', 'team', 'todo'].map((name) => {
  const directory = join(import.meta.dirname, '../../../examples', name);
  return { name: `the example ${name}`, directory, text: readFileSync(join(directory, 'svc.yaml'), 'utf8') };
});

/** What tables say of each other: keys and types of others, names that are there once, policies that read others. */
const RELATED = `version: 1
types:
  state: { enum: [open, done] }
tables:
  # Who belongs where.
  orgs:
    fields:
      - { name: id, type: uuid, primary_key: true }
      - { name: slug, type: text, unique: true }
    rls:
      - { operations: [select], using: "exists (select from members m where m.org = id)" }
  members:
    fields:
      - { name: org, foreign_key: { references: orgs.id }, primary_key: true }
      - { name: person, type: uuid, primary_key: true }
      - { name: role, type: text, default: '\${ROLE:-member}' }
    indexes:
      - { name: members_by_person, columns: [person] }
    rls:
      - { operations: [select], using: person = auth.uid() }

  projects:
    renamed_from: plans
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: org, foreign_key: { references: orgs.id } }
      - { name: slug, foreign_key: { references: orgs.slug } }
      - { name: state, type: state, default: open }
    constraints:
      - { unique: [org, id] }
    rls: false
  notes:
    comment: |
      Of a project.
        members: who may read
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: org, type: uuid }
      - { name: project, type: bigint }
      - { name: before, foreign_key: { references: notes.id } }
    constraints:
      - { foreign_key: [org, project], references: "projects(org, id)" }
    indexes:
      - { name: notes_by_project, columns: [project] }
    rls:
      - { operations: [select, insert], check: "exists (select from projects p where p.id = project)" }
  open_notes:
    fields: [{ name: id, type: bigint }]
  tags:
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: note, foreign_key: { references: notes.id } }
      - { name: text, type: text, unique: true }
    rls: []
  plain:
    fields: [{ name: id, type: bigint, primary_key: true }, { name: n, type: integer, min: 1 }]
    rls: []
views:
  project_notes: { query: select n.id from notes n join projects p on p.id = n.project }
`;

const FILES = [
  ...EXAMPLES,
  { name: 'tables that refer to each other', directory: undefined, text: RELATED },
  ...RINGS.slice(0, 4).map(({ what, file }) => ({
    name: `a ring: ${what}`,
    directory: undefined,
    text: `version: 1\n${file}`,
  })),
];

const damage = fc.oneof(
  fc.record({ kind: fc.constantFrom('remove', 'repeat', 'indent', 'outdent'), at: fc.nat() }),
  fc.record({ kind: fc.constantFrom('word', 'word again', 'swap'), at: fc.nat(), other: fc.nat() }),
  fc.record({
    kind: fc.constant('insert'),
    at: fc.nat(),
    line: fc.constantFrom(
      '',
      '  # note',
      '  tags: {}',
      '---',
      '\t',
      'tables:',
      '  more:',
      '    x: |',
      '    "',
      "  '",
      '  - &a b',
      '  *a',
      '      - { name: more, type: state }',
      '      - { name: next, foreign_key: { references: notes.id } }',
      '      - { name: notes_by_project, columns: [id] }',
      '  more: { fields: [{ name: id, type: uuid }] }',
    ),
  }),
);
type Damage = { kind: string; at: number; other?: number; line?: string };

function damaged(text: string, changes: readonly Damage[]): string {
  const words = [
    ...new Set([...(text.match(/\w+/g) ?? []), ...'text uuid integer true false new'.split(' ')]),
  ];
  const lines = text.split('\n');
  const section = Math.max(0, lines.indexOf('tables:'));
  for (const { kind, at, other = 0, line = '' } of changes) {
    // Most of them in the section of tables.
    const n =
      at % 5 === 0
        ? at % lines.length
        : Math.min(lines.length - 1, section + 1 + (at % (lines.length - section)));
    const was = lines[n] ?? '';
    if (kind === 'remove') lines.splice(n, 1);
    else if (kind === 'repeat') lines.splice(n, 0, was);
    else if (kind === 'indent') lines[n] = `  ${was}`;
    else if (kind === 'outdent') lines[n] = was.replace(/^ {2}/, '');
    else if (kind === 'insert') lines.splice(n, 0, line);
    else if (kind === 'swap')
      [lines[n], lines[other % lines.length]] = [lines[other % lines.length] ?? '', was];
    else {
      const inLine = [...was.matchAll(/\w+/g)];
      const found = inLine[other % Math.max(1, inLine.length)];
      const word = words[(other >> 4) % words.length] ?? '';
      const changed = found && was.slice(0, found.index) + word + was.slice(found.index + found[0].length);
      if (changed !== undefined) lines.splice(n, kind === 'word' ? 1 : 0, changed);
    }
  }
  return lines.join('\n');
}

describe('a file that was changed', async () => {
  await loadSqlParser();
  const count = { taken: 0, all: 0 };
  test.each(FILES)('$name', ({ directory, text }) => {
    const load = (now: string): Loaded =>
      loadConfig({ name: 'svc.yaml', directory, text: now }, { variables: {} });
    const before = load(text);
    assert(before.ok, JSON.stringify(before));
    const { parts } = before.included;
    fc.assert(
      fc.property(fc.noBias(fc.array(damage, { minLength: 1, maxLength: 2 })), (changes) => {
        const now = damaged(text, changes);
        const source = { name: 'svc.yaml', directory, text: now };
        const unread = unreadTables(source, { ...before, text, parts });
        const changed = unread && loadChanged(source, { variables: {} }, unread);
        count.all += 1;
        if (!changed) return;
        count.taken += 1;
        assert.deepStrictEqual(changed, load(now));
      }),
      { numRuns: rounds(300, 5_000) },
    );
  });
  afterAll(() => {
    // Most of it is a mistake, or in a place that all tables may depend on.
    expect(count.taken / count.all).toBeGreaterThan(0.02);
  });
});
