// Finds the tables whose policies must stay as written. When a policy reads a table, PostgreSQL expands the policies of
// that table which contain a sub-select. It fails with 42P17 (infinite recursion) when it reaches a table again.
// Writing `(select auth.uid())` for `auth.uid()` adds a sub-select and may complete such a cycle. It is safe for tables
// that are not part of a cycle. Function bodies are expanded separately and cannot be part of one.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { sql } from '../../../postgres/sql.ts';
import { STORAGE_OBJECTS } from './hosts.ts';
import { objectKey, type PolicyModel, type SchemaModel, tableKey } from '../model.ts';
import { ownedTable, type Ownership } from '../managed.ts';
import { relationsIn } from '../../../lib/sql/sql-text.ts';

/** Placeholder for relations and policies outside the file, which may read any table. */
const ANYTHING = '';

/**
 * Returns the tables, including `storage.objects`, that may be part of a cycle of policies.
 * `unmanaged`: tables with policies that read a table and are not declared in the file.
 */
export function tablesInCycles(model: SchemaModel, unmanaged: ReadonlySet<string>): Set<string> {
  const reads = collectReads(model, unmanaged);
  const inCycle = new Set<string>();
  for (const start of reads.keys()) if (isInCycle(start, reads)) inCycle.add(start);
  return inCycle;
}

function collectReads(
  model: SchemaModel,
  unmanaged: ReadonlySet<string>,
): ReadonlyMap<string, ReadonlySet<string>> {
  const known = new Set([STORAGE_OBJECTS, ...model.tables.map(objectKey)]);
  const reads = new Map<string, Set<string>>();
  const add = (key: string, policies: readonly PolicyModel[]): void => {
    const found = new Set(policies.flatMap(policyTexts).flatMap((text) => findTargets(text, known)));
    if (unmanaged.has(key)) found.add(ANYTHING);
    if (found.size > 0) reads.set(key, found);
  };
  for (const table of model.tables) add(objectKey(table), typeof table.rls === 'string' ? [] : table.rls);
  add(
    STORAGE_OBJECTS,
    model.buckets.flatMap((bucket) => bucket.policies),
  );
  return reads;
}

function policyTexts({ using, withCheck, check }: PolicyModel): string[] {
  return [using, withCheck, check].filter((text) => text !== null);
}

function findTargets(text: string, known: ReadonlySet<string>): string[] {
  return relationsIn(text).map((parts) => {
    const [name = '', schema = 'public'] = [...(parts ?? [])].reverse();
    const key = tableKey(schema, name);
    return known.has(key) ? key : ANYTHING;
  });
}

function isInCycle(start: string, reads: ReadonlyMap<string, ReadonlySet<string>>): boolean {
  const seen = new Set<string>();
  const pending = [...(reads.get(start) ?? [])];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (next === start || next === ANYTHING) return true;
    if (seen.has(next)) continue;
    seen.add(next);
    pending.push(...(reads.get(next) ?? []));
  }
  return false;
}

/** Returns the declared tables with undeclared policies that contain a sub-select with a FROM clause. */
export async function readTablesWithUnmanagedPolicies(
  session: Queryable,
  model: SchemaModel,
  schemas: readonly string[],
  owned: Ownership,
): Promise<Set<string>> {
  const rows = await session.query<{ table: string; label: string }>(sql`
    select n.nspname || '.' || c.relname as table, p.polname as label
    from pg_policy p join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace
    where (n.nspname = any (${[...schemas]}) or c.oid = to_regclass(${STORAGE_OBJECTS}))
      and coalesce(p.polqual::text, '') || coalesce(p.polwithcheck::text, '') like '%{RANGETBLENTRY %'`);
  const foreign = new Set(
    rows
      .filter(({ table, label }) =>
        table === STORAGE_OBJECTS
          ? !owned.hosted[STORAGE_OBJECTS].has(label)
          : !ownedTable(owned, table).policies.includes(label),
      )
      .map((row) => row.table),
  );
  const unmanaged = new Set(foreign.has(STORAGE_OBJECTS) ? [STORAGE_OBJECTS] : []);
  for (const table of model.tables) {
    const former = table.renamedFrom === null ? '' : tableKey(table.schema, table.renamedFrom);
    if (foreign.has(objectKey(table)) || foreign.has(former)) unmanaged.add(objectKey(table));
  }
  return unmanaged;
}
