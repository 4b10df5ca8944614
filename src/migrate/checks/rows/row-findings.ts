// Collects the facts that a plan needs about rows. A plan that reads no rows assumes that tables have rows and that
// removals lose values.
import type { Queryable } from '../../../postgres/owner-database.ts';
import type { Change } from '../../diff/change.ts';
import { ofKind } from '../../diff/change-kinds.ts';
import { countRemoved, removalOf, removals } from '../../plan/removal.ts';
import type { TableFacts } from '../../plan/step-list.ts';
import type { Step } from '../../plan/step.ts';
import type { MigrationProblem } from '../../problem.ts';
import { objectKey } from '../../schema/model.ts';
import type { Live } from '../../schema/live/live-schema.ts';
import { noteUsersWithoutRow } from '../new-users.ts';
import { checkRows, type RowChecks } from '../row-checks.ts';
import { needsBackfill, readRowFacts, type Prelude } from '../table-facts.ts';
import { checkDomains } from '../type-definitions.ts';

export type RowFindings = {
  readonly facts: Pick<TableFacts, 'nonEmpty' | 'toBackfill'>;
  /** Number of rows or values that each removal would drop, keyed by identity. Null if they were not counted. */
  readonly removed: ReadonlyMap<string, number | null>;
  readonly checks: RowChecks;
  readonly domains: readonly MigrationProblem[];
};

export type RowReadOptions = {
  readonly live: Live;
  readonly searchPath: string;
  readonly prelude: Prelude;
  readonly renames: readonly Step[];
  /** Paths of columns whose nulls this run fills. */
  readonly filled: ReadonlySet<string>;
  readonly drops: boolean;
  /** Runs `read` with the declared renames applied. */
  readonly underNewNames: <T>(read: () => Promise<T>) => Promise<T>;
};

export async function readRowFindings(
  session: Queryable,
  changes: readonly Change[],
  { live, searchPath, prelude, renames, filled, drops, underNewNames }: RowReadOptions,
): Promise<RowFindings> {
  const facts = await readRowFacts(session, changes, prelude);
  const removed = drops
    ? await underNewNames(() => countRemoved(session, changes))
    : new Map<string, number>();
  const checks = await checkRows(session, changes, searchPath, prelude, filled);
  const notes = [...checks.notes, ...(await noteUsersWithoutRow(session, changes))];
  const domains = await checkDomains(session, changes, live, { searchPath, renames });
  return { facts, removed, checks: { ...checks, notes }, domains };
}

const NOT_READ = 'the rows were not checked: this plan does not read rows';

export function findingsWithoutRows(changes: readonly Change[], drops: boolean): RowFindings {
  const nonEmpty = new Set<string>();
  const toBackfill = new Set<string>();
  for (const change of ofKind(changes, 'add-column', 'set-not-null')) {
    if (!change.live) continue;
    nonEmpty.add(objectKey(change.table));
    if (needsBackfill(change)) toBackfill.add(change.column.at);
  }
  const removed = drops ? removals(changes).map((change) => [removalOf(change).identity, null] as const) : [];
  const notes = changes.length === 0 ? [] : [NOT_READ];
  return {
    facts: { nonEmpty, toBackfill },
    removed: new Map(removed),
    checks: { problems: [], losses: new Map(), notes },
    domains: [],
  };
}
