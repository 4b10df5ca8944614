import { expect, test } from 'vitest';
import type { MigrationPlan } from '../make-plan.ts';
import { problem } from '../problem.ts';
import { perHost } from '../schema/rights/hosts.ts';
import type { Step } from '../plan/step.ts';
import { planFingerprint, renderPlan, renderSql, stepLine, toArtifact } from './render.ts';

function step(sql: string, more: Partial<Step> = {}): Step {
  const identity = 'tables.todos.fields.title';
  return {
    sql,
    lane: 'metadata',
    stage: 'columns',
    identity,
    at: identity,
    sign: '+',
    summary: sql,
    table: 'public.todos',
    otherTables: [],
    lock: 'AccessExclusive',
    rewrites: false,
    scans: false,
    estimateMs: 1,
    hazards: [],
    action: { kind: 'sql' },
    deferred: false,
    ...more,
  };
}

function plan(steps: readonly Step[], more: Partial<MigrationPlan> = {}): MigrationPlan {
  return {
    schemaHash: 'aaaaaaaa00000000',
    parentHash: 'bbbbbbbb00000000',
    serverVersion: 180_001,
    catalogFingerprint: '7:42',
    steps,
    foreign: [],
    problems: [],
    hints: [],
    notes: [],
    unmanaged: [],
    desired: {
      extensions: [],
      sequences: [],
      statements: [],
      types: [],
      tables: [],
      functions: [],
      hosted: perHost(() => []),
      views: [],
      newUsers: [],
      userTriggers: [],
    },
    scope: null,
    schemas: ['public'],
    searchPath: 'public, extensions',
    writes: [],
    forgotten: [],
    forgottenLater: [],
    owned: {
      types: new Set(),
      retiredTypes: new Set(),
      tables: new Map(),
      retiredTables: new Map(),
      retiredColumns: new Set(),
      functions: new Map(),
      retiredFunctions: new Set(),
      hosted: perHost(() => new Set()),
      userTriggers: new Set(),
      extensions: new Set(),
      retiredExtensions: new Set(),
      sequences: new Set(),
      statements: new Map(),
      retiredSequences: new Set(),
      views: new Set(),
    },
    ...more,
  };
}

const locate = (path: string): string | null => (path === 'tables.todos' ? 'svc.yaml:3:3' : null);
const shown = (migrationPlan: MigrationPlan): string =>
  renderPlan(migrationPlan, { paint: (_style, text) => text, locate, database: 'app@db/app' });

const STEPS = [
  step('add it'),
  step('fill it', { lane: 'online', lock: 'RowExclusive', scans: true, estimateMs: 2_340, sign: '~' }),
  step('index it', { lane: 'concurrent', lock: 'none', hazards: ['NON_TX', 'INDEX_BUILD'] }),
  step('drop it', { identity: 'rpc.f', at: 'rpc.f', sign: '-', rewrites: true, hazards: ['DATA_LOSS'] }),
  step('swap it', { lane: 'cutover' }),
];

test('steps are grouped by object, with lock, cost and hazards', () => {
  expect(shown(plan(STEPS)).replaceAll(/ +$/gm, '')).toMatchInlineSnapshot(`
    "svc migrate plan   app@db/app   PostgreSQL 18   file aaaaaaaa ← bbbbbbbb

      tables.todos  svc.yaml:3:3
        + add it                                                   AccessExclusive · 1 ms
        ~ fill it                                                  online · RowExclusive · reads every row · ≈ 2.3 s
        + index it                                                 concurrently · 1 ms · builds an index
        + swap it                                                  in the last transaction · AccessExclusive · 1 ms
      rpc.f
        - drop it                                                  AccessExclusive · rewrites the table · 1 ms · loses data

    2 statements in one transaction, locks for about 2 ms · 2 online · 1 in a second transaction after them · 0 refusals
    If a statement of the transaction fails, the transaction is rolled back. If a later step fails, the transaction stays applied and the next run continues with that step."
  `);
});

test('problems, hints and notes follow the steps', () => {
  const text = shown(
    plan([], {
      problems: [problem('MIG-101', 'tables.todos', 'no', 'Do this.')],
      hints: [problem('MIG-206', 'tables.notes', 'a rename?')],
      notes: ['not checked'],
      parentHash: null,
    }),
  );
  expect(text.split('\n').slice(2)).toEqual([
    '  nothing to do: the database matches the file',
    '  note: not checked',
    '  MIG-206 tables.notes: a rename?',
    '  MIG-101 tables.todos: no',
    '    → Do this.',
    '',
    '0 statements in one transaction, locks for about 0 ms · 1 refusal',
  ]);
  expect(text).toContain('← an empty history');
});

test('the SQL is complete, with the transactions', () => {
  const settings = [
    'set local lock_timeout = 300;',
    'set local search_path = public, extensions;',
    "set local timezone = 'UTC';",
    'set local check_function_bodies = off;',
  ];
  expect(renderSql(plan(STEPS), 300).split('\n')).toEqual([
    'begin;',
    ...settings,
    'add it;',
    'drop it;',
    'commit;',
    '-- online',
    'fill it;',
    '-- concurrently',
    'index it;',
    'begin;',
    ...settings,
    'swap it;',
    'commit;',
  ]);
});

test('a saved plan is bound to the catalog, the file and the statements', () => {
  const fingerprint = planFingerprint(plan(STEPS));
  expect(toArtifact(plan(STEPS), locate)).toMatchObject({ format: 1, stamp: '7:42', fingerprint });
  expect(planFingerprint(plan([...STEPS]))).toBe(fingerprint);
  const changed = [
    plan(STEPS.slice(1)),
    plan(STEPS, { schemaHash: 'another' }),
    plan(STEPS, { catalogFingerprint: '7:43' }),
  ];
  for (const changedPlan of changed) expect(planFingerprint(changedPlan)).not.toBe(fingerprint);
});

test('a step is rendered in one line', () => {
  expect(STEPS.map(stepLine)[3]).toBe('- rpc.f: drop it');
  const summary = 'column owner default (\nauth.uid()\n)';
  expect(stepLine({ sign: '+', at: 'tables.notes', summary })).toBe(
    '+ tables.notes: column owner default (auth.uid())',
  );
});
