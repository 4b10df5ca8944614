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
const shown = (one: MigrationPlan): string =>
  renderPlan(one, { paint: (_style, text) => text, locate, database: 'app@db/app' });

const STEPS = [
  step('add it'),
  step('fill it', { lane: 'online', lock: 'RowExclusive', scans: true, estimateMs: 2_340, sign: '~' }),
  step('index it', { lane: 'concurrent', lock: 'none', hazards: ['NON_TX', 'INDEX_BUILD'] }),
  step('drop it', { identity: 'rpc.f', at: 'rpc.f', sign: '-', rewrites: true, hazards: ['DATA_LOSS'] }),
  step('swap it', { lane: 'cutover' }),
];

test('steps are grouped by what they are about, with lock, cost and hazards', () => {
  expect(shown(plan(STEPS)).replaceAll(/ +$/gm, '')).toMatchInlineSnapshot(`
    "svc migrate plan   app@db/app   PostgreSQL 18   file aaaaaaaa ← bbbbbbbb

      tables.todos  svc.yaml:3:3
        + add it                                                   AccessExclusive · 1 ms
        ~ fill it                                                  online · RowExclusive · reads every row · ≈ 2.3 s
        + index it                                                 concurrent · 1 ms · INDEX_BUILD
        + swap it                                                  cutover · AccessExclusive · 1 ms
      rpc.f
        - drop it                                                  AccessExclusive · rewrites the table · 1 ms · DATA_LOSS

    2 statements in one transaction, locks for about 2 ms · 2 online · 1 in one more transaction when these are ready · 0 refusals"
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
    '  nothing to do: the database is what the file says',
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
    '-- concurrent',
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
  const others = [
    plan(STEPS.slice(1)),
    plan(STEPS, { schemaHash: 'another' }),
    plan(STEPS, { catalogFingerprint: '7:43' }),
  ];
  for (const other of others) expect(planFingerprint(other)).not.toBe(fingerprint);
});

test('a step in one line', () => {
  expect(STEPS.map(stepLine)[3]).toBe('- rpc.f: drop it');
  const summary = 'column owner default (\nauth.uid()\n)';
  expect(stepLine({ sign: '+', at: 'tables.notes', summary })).toBe(
    '+ tables.notes: column owner default (auth.uid())',
  );
});
