// Which tables must keep their policies as written. When a policy reads a table, PostgreSQL expands that table's policies
// as well, but only those with a sub-select, and fails with 42P17 (infinite recursion) when it meets a table again. So
// writing `(select auth.uid())` for `auth.uid()` may close a ring that was open. Tables that no chain of policies leads
// back to cannot be met again: there the two mean the same. Function bodies are expanded separately and play no part.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { sql } from '../../../postgres/sql.ts';
import { STORAGE_OBJECTS } from './hosts.ts';
import { keyOf, type PolicyModel, type SchemaModel, tableKey } from '../model.ts';
import { ownedOf, type Ownership } from '../managed.ts';
import { relationsIn } from '../../../lib/sql/sql-text.ts';

/** A view, a table or a policy that is not in the file: it may lead anywhere. */
const ANYTHING = '';

/**
 * Tables, `storage.objects` among them, that a chain of policies may lead back to.
 * `strangers`: tables with policies that are not the file's and read something.
 */
export function tablesInRings(model: SchemaModel, strangers: ReadonlySet<string>): Set<string> {
  const reads = readingsOf(model, strangers);
  const inRing = new Set<string>();
  for (const start of reads.keys()) if (leadsBack(start, reads)) inRing.add(start);
  return inRing;
}

function readingsOf(
  model: SchemaModel,
  strangers: ReadonlySet<string>,
): ReadonlyMap<string, ReadonlySet<string>> {
  const known = new Set([STORAGE_OBJECTS, ...model.tables.map(keyOf)]);
  const reads = new Map<string, Set<string>>();
  const add = (key: string, policies: readonly PolicyModel[]): void => {
    const found = new Set(policies.flatMap(textsOf).flatMap((text) => targetsIn(text, known)));
    if (strangers.has(key)) found.add(ANYTHING);
    if (found.size > 0) reads.set(key, found);
  };
  for (const table of model.tables) add(keyOf(table), typeof table.rls === 'string' ? [] : table.rls);
  add(
    STORAGE_OBJECTS,
    model.buckets.flatMap((bucket) => bucket.policies),
  );
  return reads;
}

function textsOf({ using, withCheck, check }: PolicyModel): string[] {
  return [using, withCheck, check].filter((text) => text !== null);
}

function targetsIn(text: string, known: ReadonlySet<string>): string[] {
  return relationsIn(text).map((parts) => {
    const [name = '', schema = 'public'] = [...(parts ?? [])].reverse();
    const key = tableKey(schema, name);
    return known.has(key) ? key : ANYTHING;
  });
}

function leadsBack(start: string, reads: ReadonlyMap<string, ReadonlySet<string>>): boolean {
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

/** Tables of the file with policies that are not the file's and hold a sub-select that reads something. */
export async function readStrangers(
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
          : !ownedOf(owned, table).policies.includes(label),
      )
      .map((row) => row.table),
  );
  const strangers = new Set(foreign.has(STORAGE_OBJECTS) ? [STORAGE_OBJECTS] : []);
  for (const table of model.tables) {
    const former = table.renamedFrom === null ? '' : tableKey(table.schema, table.renamedFrom);
    if (foreign.has(keyOf(table)) || foreign.has(former)) strangers.add(keyOf(table));
  }
  return strangers;
}
