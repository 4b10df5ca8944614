// Policies that read each other's tables in a ring. PostgreSQL rejects every statement that reaches such a ring (42P17,
// infinite recursion), whatever the rows contain. Views and tables that are not in the file are ignored, because their
// text is unknown here: only certain rings are reported.
import { holdsSubSelect, relationsIn } from '../../../lib/sql/sql-text.ts';
import type { KeyPath } from '../../mistakes/mistake.ts';
import { CALLERS, type Operation, type RawPolicy } from '../../schema/tables/policies.ts';
import type { CheckContext } from '../context.ts';
import type { Tables } from './foreign-key.ts';

const CONDITIONS = ['using', 'withCheck', 'check'] as const;
const KEYS = { using: 'using', withCheck: 'with_check', check: 'check' } as const;

/** Policies that apply to one role, by table. */
type Guarded = ReadonlyMap<string, readonly RawPolicy[]>;

export function checkPolicyRings(context: CheckContext, tables: Tables): void {
  const guarded = guardedTables(tables);
  const reported = new Set<string>();
  for (const role of listRoles(guarded)) {
    const forRole: Guarded = new Map(
      [...guarded].map(([key, policies]) => [key, policiesFor(policies, role)]),
    );
    for (const ring of ringsIn(forRole)) {
      const path = [...tablePath(tables, ring.key), ...policyPath(guarded, ring)];
      if (reported.has(path.join('.'))) continue;
      reported.add(path.join('.'));
      report(
        context,
        path,
        ring.steps.map((key) => tableName(tables, key)),
      );
    }
  }
}

function guardedTables(tables: Tables): Guarded {
  const guarded = new Map<string, readonly RawPolicy[]>();
  for (const [key, { table }] of tables) if (Array.isArray(table.rls)) guarded.set(key, table.rls);
  return guarded;
}

function report(context: CheckContext, path: KeyPath, [own = '', ...way]: readonly string[]): void {
  const between = way.slice(0, -1).join(', then ');
  const reads = between === '' ? `${own}, its own table` : `${between}, and from there ${own} again`;
  context.report({
    code: 'policy-ring',
    path,
    severity: 'warning',
    message: `this policy reads ${reads}: every request under it fails with 42P17 (infinite recursion)`,
    hint: 'Read the rows in a function under rpc with security: definer, and call it here.',
  });
}

function listRoles(guarded: Guarded): Set<string> {
  const named = [...guarded.values()].flat().flatMap(({ to }) => to ?? CALLERS);
  return new Set(named.filter((role) => role !== 'public').concat(CALLERS));
}

function policiesFor(policies: readonly RawPolicy[], role: string): RawPolicy[] {
  return policies.filter(({ to = CALLERS }) => to.includes(role) || to.includes('public'));
}

/** `steps`: tables from `key` back to it, in reading order. */
type Ring = {
  readonly key: string;
  readonly policy: RawPolicy;
  readonly condition: (typeof CONDITIONS)[number];
  readonly steps: readonly string[];
};

function ringsIn(guarded: Guarded): Ring[] {
  const rings: Ring[] = [];
  const readsByTable = new Map([...guarded].map(([key, policies]) => [key, selectReads(policies, guarded)]));
  for (const [key, policies] of guarded) {
    // PostgreSQL does not expand a table again if its select policies have no sub-select.
    if (!policies.some((policy) => isFor(policy, 'select') && readsSomething(policy))) continue;
    for (const policy of policies)
      for (const condition of CONDITIONS)
        for (const next of readBy(policy[condition], guarded)) {
          const way = wayBack(next, key, readsByTable);
          if (way) rings.push({ key, policy, condition, steps: [key, ...way] });
        }
  }
  return rings;
}

/** Returns the shortest chain of reads between two tables, including both. `readsByTable`: reads of select policies. */
function wayBack(
  from: string,
  to: string,
  readsByTable: ReadonlyMap<string, readonly string[]>,
): readonly string[] | undefined {
  const seen = new Set([from]);
  const pending: string[][] = [[from]];
  for (let way = pending.shift(); way; way = pending.shift()) {
    const last = way.at(-1) ?? to;
    if (last === to) return way;
    for (const next of readsByTable.get(last) ?? []) {
      if (seen.has(next)) continue;
      seen.add(next);
      pending.push([...way, next]);
    }
  }
  return undefined;
}

function selectReads(policies: readonly RawPolicy[], guarded: Guarded): string[] {
  return policies
    .filter((policy) => isFor(policy, 'select'))
    .flatMap(({ using, check }) => readBy(using ?? check, guarded));
}

function readBy(text: string | undefined, guarded: Guarded): string[] {
  return relationsIn(text ?? '')
    .map((parts) => (parts?.length === 1 ? `public.${parts[0]}` : (parts ?? []).join('.')))
    .filter((key) => guarded.has(key));
}

function isFor({ operations }: RawPolicy, operation: Operation): boolean {
  return operations.includes(operation);
}

function readsSomething(policy: RawPolicy): boolean {
  return CONDITIONS.some((condition) => {
    const text = policy[condition];
    return text !== undefined && /select/i.test(text) && holdsSubSelect(text);
  });
}

function policyPath(guarded: Guarded, { key, policy, condition }: Ring): KeyPath {
  return ['rls', (guarded.get(key) ?? []).indexOf(policy), KEYS[condition]];
}

function tablePath(tables: Tables, key: string): KeyPath {
  return ['tables', tableName(tables, key)];
}

function tableName(tables: Tables, key: string): string {
  return tables.get(key)?.name ?? key;
}
