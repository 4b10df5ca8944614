// Creates the new types, domains and functions of the plan in a transaction that is rolled back, so that casts and
// expressions that use them can be checked.
import { raw } from '../../../postgres/sql.ts';
import { isDatabaseError } from '../../../postgres/pg-error.ts';
import type { Queryable } from '../../../postgres/owner-database.ts';
import type { Change } from '../../diff/change.ts';
import { planSteps } from '../../plan/plan.ts';
import type { TableFacts } from '../../plan/step-list.ts';
import type { Stage } from '../../plan/step.ts';

const KINDS: ReadonlySet<Change['kind']> = new Set<Change['kind']>([
  'create-schema',
  'create-sequence',
  'create-type',
  'recreate-type',
  'add-domain-check',
  'create-function',
  'replace-function',
]);

/** Stages with statements that a cast or an expression can depend on. Stages that only grant access are left out. */
const STAGES: ReadonlySet<Stage> = new Set<Stage>([
  'schemas',
  'new-types',
  'functions-of-ranges',
  'functions',
  'checks',
]);

/** Returns the statements in the order of the plan. */
export function newObjectStatements(changes: readonly Change[], searchPath: string): string[] {
  const created = changes.filter(isCreated).map(withStub);
  if (created.length === 0) return [];
  const settings = { maxWriteBlockMs: 0, direct: true };
  const steps = planSteps(created, { ...NO_FACTS, searchPath }, NOTHING_ONLINE, settings);
  return steps.filter(({ stage }) => STAGES.has(stage)).map((step) => step.sql);
}

/** Runs each statement in a savepoint. A function that uses a table of the plan fails and is skipped. */
export async function createNewObjects(session: Queryable, statements: readonly string[]): Promise<void> {
  if (statements.length === 0) return;
  await session.query(raw('set local check_function_bodies = off'));
  for (const statement of statements) {
    await session.query(raw('savepoint svc_new'));
    try {
      await session.query(raw(statement));
      await session.query(raw('release savepoint svc_new'));
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      await session.query(raw('rollback to savepoint svc_new'));
    }
  }
}

function withStub(change: Change): Change {
  const isFunction = change.kind === 'create-function' || change.kind === 'replace-function';
  if (!isFunction || change.fn.stub === undefined) return change;
  const { atomic: _atomic, ...model } = change.fn.model;
  return { ...change, fn: { ...change.fn, model, body: change.fn.stub } };
}

/** A new check of a domain in use is left out. It is checked with the rows. */
function isCreated(change: Change): boolean {
  return KINDS.has(change.kind) && (change.kind !== 'add-domain-check' || change.users.length === 0);
}

const NO_FACTS: TableFacts = {
  rewriting: new Set(),
  nonEmpty: new Set(),
  toBackfill: new Set(),
  begunBackfills: new Map(),
  mayQuiet: false,
  losing: new Set(),
  drops: false,
  searchPath: '',
  serverVersion: 0,
};

const NOTHING_ONLINE = {
  columns: new Map(),
  inTheWay: new Map(),
  deferred: new Set<Change>(),
  swapped: new Set<Change>(),
  leftovers: [],
};
