// Hazards that the policy of a run rejects, from one file to the next, without a database.
import { describe, expect, test } from 'vitest';
import { liveDatabase, declared, ownedAfter } from '../../../test/migrate/schema-without-database.ts';
import { diff } from '../diff/diff.ts';
import type { HazardPolicy } from '../plan/hazard-policy.ts';
import type { OnlineTypeChanges } from '../plan/types/online-type-change.ts';
import { planSteps } from '../plan/plan.ts';
import type { PlanSettings } from '../plan/step-list.ts';
import { renderProblem } from '../problem.ts';
import { checkHazards } from './hazards.ts';

const POLICY: PlanSettings & HazardPolicy = {
  maxWriteBlockMs: 100,
  direct: false,
  allow: [],
  drop: 'retire',
  strictRollout: false,
};

type Given = {
  readonly rows?: number;
  readonly policy?: Partial<typeof POLICY>;
  /** Columns whose change rewrites the table. */
  readonly rewriting?: readonly string[];
  readonly inTheWay?: readonly string[];
  readonly removed?: Readonly<Record<string, number>>;
};

function refusals(before: string, after: string, given: Given = {}): string[] {
  const policy = { ...POLICY, ...given.policy };
  const was = declared(before);
  const { changes } = diff(declared(after), liveDatabase(was, given.rows ?? 10), ownedAfter(was));
  const online: OnlineTypeChanges = {
    columns: new Map(),
    inTheWay: new Map((given.rewriting ?? []).map((column) => [column, given.inTheWay ?? []])),
    deferred: new Set(),
    swapped: new Set(),
    leftovers: [],
  };
  const facts = {
    rewriting: new Set(given.rewriting),
    nonEmpty: new Set(['public.todos']),
    toBackfill: new Set<string>(),
    begunBackfills: new Map<string, string>(),
    mayQuiet: false,
    losing: new Set<string>(),
    drops: policy.drop === 'drop',
    searchPath: 'public',
    serverVersion: 180_000,
  };
  const steps = planSteps(changes, facts, online, policy);
  const removed = new Map(Object.entries(given.removed ?? {}));
  return checkHazards(
    steps,
    changes,
    online.inTheWay,
    { removed, serverVersion: facts.serverVersion },
    policy,
  ).map(renderProblem);
}

const FILE = `tables:
  todos:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: title, type: text }
    rls:
      - { operations: [select], using: "true" }
  notes:
    fields:
      - { name: id, type: integer, primary_key: true }
    rls: []
`;
const WITHOUT_TITLE = FILE.replace('      - { name: title, type: text }\n', '');
const WITHOUT_NOTES = FILE.slice(0, FILE.indexOf('  notes:'));
const OPEN = FILE.replace('    rls:\n      - { operations: [select], using: "true" }\n', '');
const LONGER = FILE.replace('name: id, type: integer', 'name: id, type: bigint');

test('changes without a hazard are allowed', () => {
  expect(refusals(FILE, FILE.replace('type: text', 'type: text, default: none'))).toEqual([]);
  expect(refusals(FILE, WITHOUT_TITLE)).toEqual([]);
  expect(refusals(FILE, WITHOUT_NOTES)).toEqual([]);
});

describe('turning off row-level security', () => {
  const problem =
    'MIG-303 tables.todos.rls: row-level security is on with 1 policy and about 10 rows; ' +
    `removing rls would open it to every key holder
  → Put rls back, or allow it by name: --allow authz_open=tables.todos`;

  test.each<readonly [readonly string[], readonly string[]]>([
    [[], [problem]],
    [['authz_open=tables.notes'], [problem]],
    [['authz_open=tables.todos'], []],
    [['authz_open'], []],
  ])('with --allow %j', (allow, expected) => {
    expect(refusals(FILE, OPEN, { policy: { allow } })).toEqual(expected);
  });
});

describe('a table that is rewritten under a lock', () => {
  const column = 'tables.todos.fields.id';
  const given = { rows: 50_000_000, rewriting: [column] };

  test('is rejected for a large table, with the reason why it cannot be done online', () => {
    const [problem = ''] = refusals(FILE, LONGER, { ...given, inTheWay: ['an expression index uses it'] });
    expect(problem).toMatch(
      /^MIG-301 tables\.todos\.fields\.id: .* would hold ACCESS EXCLUSIVE for about 250 s/,
    );
    expect(problem).toContain(
      '(50,000,000 rows, 5,000 MB); it cannot be done online, because an expression index uses it',
    );
    expect(problem).toContain(
      'Remove that first, or run it in a quiet hour with --allow rewrite=tables.todos.fields.id',
    );
  });

  test.each<readonly [string, Given, number]>([
    ['small', { ...given, rows: 10 }, 0],
    ['large', given, 1],
    ['allowed by name', { ...given, policy: { allow: [`rewrite=${column}`] } }, 0],
    ['under --direct', { ...given, policy: { direct: true } }, 0],
  ])('%s', (_name, scenario, expected) => {
    expect(refusals(FILE, LONGER, scenario)).toHaveLength(expected);
  });
});

describe('a removal', () => {
  const dropped = {
    policy: { drop: 'drop' },
    removed: { 'tables.todos.fields.title': 3, 'tables.notes': 1_200 },
  } as const;

  test('that destroys data must be allowed by name', () => {
    expect(refusals(FILE, WITHOUT_TITLE, dropped)).toEqual([
      `MIG-302 tables.todos: column title dropped: it holds 3 values
  → To accept the loss: --allow data_loss=tables.todos.fields.title. With drop: retire the data is kept.`,
    ]);
    expect(refusals(FILE, WITHOUT_NOTES, dropped)).toEqual([
      expect.stringContaining('table notes dropped: it holds 1,200 rows'),
    ]);
    const allow = ['data_loss=tables.notes'];
    expect(refusals(FILE, WITHOUT_NOTES, { ...dropped, policy: { drop: 'drop', allow } })).toEqual([]);
  });

  test('of an empty column needs no permission', () => {
    expect(refusals(FILE, WITHOUT_TITLE, { policy: { drop: 'drop' } })).toEqual([]);
  });

  test('from a protected table is rejected even for an empty column', () => {
    const guarded = (yaml: string): string => yaml.replace('  todos:\n', '  todos:\n    protect: true\n');
    expect(refusals(guarded(FILE), guarded(WITHOUT_TITLE), { policy: { drop: 'drop' } })).toEqual([
      expect.stringContaining('column title dropped: the table is protected'),
    ]);
  });

  test('is rejected with drop: refuse', () => {
    const policy = { drop: 'refuse' } as const;
    expect(refusals(FILE, WITHOUT_TITLE, { policy })).toEqual([
      expect.stringMatching(/^MIG-302 tables\.todos: column title removed: removals are refused/),
    ]);
    expect(refusals(FILE, WITHOUT_NOTES, { policy })).toEqual([
      expect.stringMatching(/^MIG-302 tables\.notes: table notes removed: removals are refused/),
    ]);
  });

  test('of the primary key is always rejected', () => {
    const keyless = FILE.replace('      - { name: id, type: integer, primary_key: true }\n', '');
    expect(refusals(FILE, keyless)).toContainEqual(
      expect.stringContaining('MIG-305 tables.todos: id is part of the primary key and was removed'),
    );
  });

  test('is rejected with a strict rollout', () => {
    expect(refusals(FILE, WITHOUT_NOTES, { policy: { strictRollout: true } })).toEqual([
      expect.stringMatching(/^MIG-302 tables\.notes: .* may break replicas that still run the previous file/),
    ]);
  });
});
