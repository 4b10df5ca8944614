// Finds the bindings that cannot receive changes, so that clients do not wait for them.
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { join, raw, sql } from '../../postgres/sql.ts';
import { toSql, valueChecks } from './filter/condition-test.ts';
import type { DatabaseFilters, FilterCaller } from './filter/database-filters.ts';
import { tableIdent, type PublishedTable, type PublishedTables } from '../tables/published-tables.ts';
import type { Binding, SubscriptionStatus, Subscription } from './subscription.ts';

/** Marks bindings as broken if their filter has a value or an operator that the column does not support. */
export async function describeSubscription(
  { bindings, caller, address }: Subscription,
  tables: PublishedTables,
  filters: DatabaseFilters,
): Promise<SubscriptionStatus> {
  const faults: string[] = [];
  const hints = new Set<string>();
  // Sequential, so that one join does not use all connections.
  for (const binding of bindings) {
    const matching = [...tables.all].filter((table) => binding.matchesTable(table));
    const fault = await findBindingFault(binding, matching, { ...caller, address }, filters);
    const hint = undeliverableDeletes(binding, matching);
    if (fault !== undefined) faults.push(fault);
    else if (hint !== undefined && binding.event === 'delete') faults.push(hint);
    else if (hint !== undefined) hints.add(hint);
  }
  return { faults, hints: [...hints] };
}

/** Returns undefined when the binding can receive changes. One table of a schema is enough. */
async function findBindingFault(
  binding: Binding,
  tables: readonly PublishedTable[],
  caller: FilterCaller,
  filters: DatabaseFilters,
): Promise<string | undefined> {
  const { requested, schema } = binding;
  if (tables.length === 0) {
    return requested.table === undefined
      ? `no table of the schema ${schema} publishes its changes. Set \`realtime: true\` on one in svc.yaml`
      : `the table ${schema}.${requested.table} does not publish its changes. Set \`realtime: true\` on it in svc.yaml`;
  }
  binding.isBroken = false;
  let first: string | undefined;
  let isDeliverable = false;
  for (const table of tables) {
    const fault =
      findRightsFault(binding, table, caller) ?? (await findDatabaseFault(binding, table, caller, filters));
    if (binding.isBroken) return fault;
    first ??= fault;
    isDeliverable ||= fault === undefined;
  }
  return isDeliverable ? undefined : first;
}

const RLS_IS_ON = 'row-level security is on, and';

function findRightsFault(
  binding: Binding,
  table: PublishedTable,
  { role, user }: FilterCaller,
): string | undefined {
  // The library sends no token when a page subscribes while it loads.
  const signedIn = user ? '' : '. Await `realtime.setAuth()` before you subscribe as a signed-in user';
  const name = `table ${table.schema}.${table.name}`;
  const selectable = table.selectable[role];
  const unknown = binding.conditions.find(({ column }) => !table.columns.some(({ name }) => name === column));
  if (unknown) return `the ${name} has no column ${unknown.column}`;
  const hidden = binding.conditions.find(({ column }) => !selectable.has(column));
  if (hidden) return `the role ${role} may not select the column ${hidden.column} of the ${name}`;
  const missing = [...(binding.columns ?? [])].find((name) => !selectable.has(name));
  if (missing !== undefined) return `the ${name} has no column ${missing} that ${role} may select`;
  if (selectable.size === 0) return `the role ${role} may not select from the ${name}${signedIn}`;
  const isKeyHidden = table.key.length === 0 || table.key.some((column) => !selectable.has(column));
  if (table.hasRowSecurity && role !== 'service_role' && isKeyHidden) {
    return `${RLS_IS_ON} the role ${role} may not select the primary key of the ${name}: nothing would be delivered`;
  }
  if (table.hasRowSecurity && !table.seenBy.has(role)) {
    const why = `no select policy of the ${name} is for the role ${role}: nothing would be delivered`;
    return `${RLS_IS_ON} ${why}${signedIn}`;
  }
  return undefined;
}

/** PostgreSQL parses the values of the filter, checks the operators, and checks whether policies can be evaluated. */
async function findDatabaseFault(
  binding: Binding,
  table: PublishedTable,
  caller: FilterCaller,
  filters: DatabaseFilters,
): Promise<string | undefined> {
  const { conditions } = binding;
  if (conditions.length === 0 && !table.hasRowSecurity) return undefined;
  const databaseFilters = binding.databaseFilters(table);
  const refusal = filters.refusal(caller, databaseFilters);
  if (refusal !== undefined) {
    binding.isBroken = true;
    return refusal;
  }
  const columns = new Map(table.columns.map((column) => [column.name, column]));
  const holds = conditions.map((condition) =>
    toSql(condition, 't', columns.get(condition.column)?.sqlType ?? 'text'),
  );
  const checks = conditions.flatMap((condition) => {
    const column = columns.get(condition.column);
    return column ? valueChecks(condition, column) : [];
  });
  const all = holds.length > 0 ? join(holds, ' and ') : raw('true');
  const error =
    (await filters.checkValues(caller, databaseFilters, checks)) ??
    (await filters.checkStatement(caller, sql`select from ${tableIdent(table)} t where ${all} limit 0`));
  if (!error) return undefined;
  // Policies that fail for this caller may work for another caller later.
  binding.isBroken =
    conditions.length > 0 &&
    (!isDatabaseError(error) ||
      isDatabaseError(error, 'data_exception', 'undefined_function', 'cannot_coerce', 'datatype_mismatch'));
  return error.message;
}

/** Returns why a filter that matches a row does not match its deletion. */
function undeliverableDeletes(binding: Binding, tables: readonly PublishedTable[]): string | undefined {
  if (!binding.matchesEvent('delete')) return undefined;
  for (const table of tables) {
    if (!table.events.has('delete') || table.hasWholeOld) continue;
    const beyondKey = binding.conditions.find(({ column }) => !table.key.includes(column));
    if (!beyondKey) continue;
    return `DELETE events carry the primary key only; set \`realtime.old: full\` to filter them by ${beyondKey.column}`;
  }
  return undefined;
}
