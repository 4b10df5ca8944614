// What a client should know of its bindings before it waits for changes that never come.
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import { databaseFailure, isDatabaseError } from '../../postgres/pg-error.ts';
import { toWire } from '../../postgres/pool/caller-pool.ts';
import { join, raw, sql } from '../../postgres/sql.ts';
import { toSql } from './condition-test.ts';
import { tableIdent, type PublishedTable, type PublishedTables } from './published-tables.ts';
import type { Binding, Findings, Subscription } from './subscription.ts';

/** A binding whose filter has a value or an operator that its column cannot have is marked as broken. */
export async function findingsOf(
  { bindings, caller }: Subscription,
  tables: PublishedTables,
  context: FeatureContext,
): Promise<Findings> {
  const faults: string[] = [];
  const hints = new Set<string>();
  // One after the other: a single join must not take all connections.
  for (const binding of bindings) {
    const its = [...tables.all].filter((table) => binding.isFor(table));
    const fault = await faultOf(binding, its, caller, context);
    const hint = unheardDeletes(binding, its);
    if (fault !== undefined) faults.push(fault);
    else if (hint !== undefined && binding.event === 'delete') faults.push(hint);
    else if (hint !== undefined) hints.add(hint);
  }
  return { faults, hints: [...hints] };
}

/** Of all tables of a schema one that can be heard is enough. */
async function faultOf(
  binding: Binding,
  tables: readonly PublishedTable[],
  caller: Caller,
  context: FeatureContext,
): Promise<string | undefined> {
  const { asked, schema } = binding;
  if (tables.length === 0) {
    return asked.table === undefined
      ? `no table of the schema ${schema} tells of its changes. Set \`realtime: true\` on one in svc.yaml`
      : `the table ${schema}.${asked.table} does not tell of its changes. Set \`realtime: true\` on it in svc.yaml`;
  }
  binding.isBroken = false;
  let first: string | undefined;
  let isHeard = false;
  for (const table of tables) {
    const fault =
      faultOfRights(binding, table, caller) ?? (await faultOfAsking(binding, table, caller, context));
    if (binding.isBroken) return fault;
    first ??= fault;
    isHeard ||= fault === undefined;
  }
  return isHeard ? undefined : first;
}

function faultOfRights(binding: Binding, table: PublishedTable, { role, user }: Caller): string | undefined {
  // Of a page that subscribes as it loads the library sends no token until the next one.
  const signedIn = user ? '' : '. Whoever has signed in awaits `realtime.setAuth()` before subscribing';
  const name = `table ${table.schema}.${table.name}`;
  const selectable = table.selectable[role];
  const unknown = binding.conditions.find(({ column }) => !table.columns.some((one) => one.name === column));
  if (unknown) return `the ${name} has no column ${unknown.column}`;
  const hidden = binding.conditions.find(({ column }) => !selectable.has(column));
  if (hidden) return `the role ${role} may not select the column ${hidden.column} of the ${name}`;
  const missing = [...(binding.columns ?? [])].find((one) => !selectable.has(one));
  if (missing !== undefined) return `the ${name} has no column ${missing} that ${role} may select`;
  if (selectable.size === 0) return `the role ${role} may not select from the ${name}${signedIn}`;
  if (table.hasRowSecurity && !table.seenBy.has(role)) {
    return `row-level security is on, and no select policy of the ${name} is for the role ${role}: nothing would be delivered${signedIn}`;
  }
  return undefined;
}

/** PostgreSQL reads the values of the filter and knows which operators a type has, and whether policies can be asked. */
async function faultOfAsking(
  binding: Binding,
  table: PublishedTable,
  caller: Caller,
  { callers }: FeatureContext,
): Promise<string | undefined> {
  if (binding.conditions.length === 0 && !table.hasRowSecurity) return undefined;
  const types = new Map(table.columns.map(({ name, sqlType }) => [name, sqlType]));
  const holds = binding.conditions.map((condition) =>
    toSql(condition, 't', types.get(condition.column) ?? 'text'),
  );
  try {
    await callers.run(
      caller,
      [
        toWire(
          sql`select from ${tableIdent(table)} t where ${holds.length > 0 ? join(holds, ' and ') : raw('true')} limit 0`,
        ),
      ],
      { readOnly: true },
    );
    return undefined;
  } catch (error) {
    // A database that is busy says nothing about the binding.
    if (!isDatabaseError(error) || databaseFailure(error)) throw error;
    // Policies that cannot be asked now may be later, for another caller.
    binding.isBroken =
      binding.conditions.length > 0 &&
      isDatabaseError(error, 'data_exception', 'undefined_function', 'cannot_coerce', 'datatype_mismatch');
    return error.message;
  }
}

/** Why a filter that finds a row does not find its end. */
function unheardDeletes(binding: Binding, tables: readonly PublishedTable[]): string | undefined {
  if (!binding.wants('delete')) return undefined;
  for (const table of tables) {
    if (!table.events.has('delete') || table.hasWholeOld) continue;
    const beyondKey = binding.conditions.find(({ column }) => !table.key.includes(column));
    if (!beyondKey) continue;
    return `DELETE events carry the primary key only; set \`realtime.old: full\` to filter them by ${beyondKey.column}`;
  }
  return undefined;
}
