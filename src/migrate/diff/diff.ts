// Desired against live: what must change. Constraints, indexes and policies are matched by what they say and only
// then by label, so a respelled, reordered or renamed thing is no difference. Pure: it reads nothing and decides
// nothing about safety.
import type { Change } from './change.ts';
import type {
  Desired,
  DesiredColumn,
  DesiredFunction,
  DesiredIndex,
  DesiredKey,
  DesiredPolicy,
  DesiredReference,
  DesiredStoragePolicy,
  DesiredTable,
} from '../schema/desired.ts';
import {
  POLICY_ROLES,
  type Command,
  type Live,
  type LiveColumn,
  type LiveFunction,
  type LiveIndex,
  type LiveKey,
  type LivePolicy,
  type LiveTable,
} from '../schema/live-schema.ts';
import {
  isTransient,
  policyLabel,
  referenceTriggerLabels,
  STORAGE_POLICY_PREFIX,
  storagePolicyLabel,
  transientLabel,
} from '../schema/label.ts';
import { tableKey } from '../schema/model.ts';
import { ownedOf, type OwnedTable, type Ownership } from '../schema/managed.ts';
import { STORAGE_OBJECTS } from '../schema/policy-rings.ts';
import { quoteLiteral } from '../../postgres/sql.ts';

/** Something the database has on a managed table that the file does not say and the engine did not make. */
export type Unmanaged = {
  readonly table: string;
  readonly what: 'column' | 'constraint' | 'index' | 'policy' | 'function';
  readonly name: string;
};

export type Difference = {
  readonly changes: readonly Change[];
  readonly unmanaged: readonly Unmanaged[];
  /** What of each table is the file's, by the labels it has or will have. */
  readonly claims: ReadonlyMap<string, OwnedTable>;
  /** Labels on `storage.objects` that are the file's. */
  readonly storageClaims: readonly string[];
};

type Claim = {
  closed: boolean;
  readonly columns: string[];
  readonly constraints: string[];
  readonly indexes: string[];
  readonly policies: string[];
};

/** Objects that must be taken away and made again because something below them changes. */
export type Rebuild = ReadonlySet<string>;

/** A function is told by its number, as `label` of no table. */
export function rebuildKey(
  kind: 'policy' | 'check' | 'index' | 'default' | 'function',
  table: string,
  label: string,
): string {
  return `${kind} ${table} ${label}`;
}

export function diff(
  desired: Desired,
  live: Live,
  owned: Ownership,
  rebuild: Rebuild = new Set(),
): Difference {
  const changes: Change[] = [];
  const unmanaged: Unmanaged[] = [];
  const claims = new Map<string, Claim>();
  const wanted = new Set(desired.tables.map((table) => tableKey(table.schema, table.name)));
  for (const schema of schemasOf(desired)) {
    const found = live.schemas.get(schema);
    if (!found) changes.push({ kind: 'create-schema', schema });
    if (!found?.usageGranted) changes.push({ kind: 'grant-schema', schema });
  }
  // Columns below whose foreign keys something changes.
  const retyped = new Set<string>();
  for (const table of desired.tables) {
    const found = live.tables.get(tableKey(table.schema, table.name));
    for (const column of table.columns) {
      const liveColumn = found?.columns.get(column.name);
      if (liveColumn && liveColumn.type !== column.type)
        retyped.add(`${tableKey(table.schema, table.name)}.${column.name}`);
    }
    // A foreign key stands on the key it points at: when that goes, it must step aside, too.
    for (const key of found ? vanishingKeys(table, found) : []) {
      for (const column of key.columns) retyped.add(`${tableKey(table.schema, table.name)}.${column}`);
    }
  }
  for (const table of desired.tables) {
    const key = tableKey(table.schema, table.name);
    const found = live.tables.get(key);
    const claim: Claim = {
      columns: table.columns.map((column) => column.name),
      constraints: [],
      indexes: [],
      policies: [],
      closed: false,
    };
    claims.set(key, claim);
    if (!found) {
      changes.push(...newTable(table));
      claimAll(claim, table);
      continue;
    }
    const context: TableContext = {
      table,
      live: found,
      key,
      owned: ownedOf(owned, key),
      ownership: owned,
      rebuild,
      retyped,
      changes,
      unmanaged,
      claim,
    };
    diffTable(context);
  }
  for (const key of owned.tables.keys()) {
    const found = live.tables.get(key);
    if (found && !wanted.has(key)) changes.push({ kind: 'retire-table', live: found });
  }
  diffFunctions(desired, live, owned, rebuild, changes, unmanaged);
  const storageClaims = diffStoragePolicies(
    desired.storagePolicies,
    live.storagePolicies,
    owned,
    rebuild,
    changes,
  );
  return { changes, unmanaged, claims, storageClaims };
}

export function schemasOf(desired: Desired): string[] {
  return [...new Set(['public', ...desired.tables.map((table) => table.schema)])];
}

function claimAll(claim: Claim, table: DesiredTable): void {
  claim.constraints.push(...[...table.keys, ...table.checks, ...table.foreignKeys].map((one) => one.label));
  claim.indexes.push(...table.indexes.map((one) => one.label));
  claim.policies.push(...labelled(table, [], table.policies).map((one) => one.label));
}

function newTable(table: DesiredTable): Change[] {
  const on = { table, live: null };
  return [
    { kind: 'create-table', table },
    ...table.keys.map((key): Change => ({ kind: 'add-key', ...on, key })),
    ...table.checks.map((check): Change => ({ kind: 'add-check', ...on, check, replaces: null })),
    ...table.foreignKeys.map((foreignKey): Change => ({ kind: 'add-foreign-key', ...on, foreignKey })),
    ...table.indexes
      .filter((index) => !table.keys.some((key) => isSaidByKey(index, key)))
      .map((index): Change => ({ kind: 'add-index', ...on, index })),
    ...labelled(table, [], table.policies).map(({ policy, label }): Change => ({
      kind: 'create-policy',
      ...on,
      policy,
      label,
      replaces: null,
    })),
    ...(table.rowSecurity ? [{ kind: 'enable-rls', ...on } as const] : []),
    { kind: 'grant-table', ...on },
    ...table.references.map((reference): Change => ({ kind: 'add-reference', ...on, reference })),
  ];
}

type TableContext = {
  readonly table: DesiredTable;
  readonly live: LiveTable;
  readonly key: string;
  readonly owned: OwnedTable;
  readonly ownership: Ownership;
  readonly rebuild: Rebuild;
  readonly retyped: ReadonlySet<string>;
  readonly changes: Change[];
  readonly unmanaged: Unmanaged[];
  readonly claim: Claim;
};

function diffTable(context: TableContext): void {
  diffColumns(context);
  diffKeys(context);
  diffChecks(context);
  diffForeignKeys(context);
  diffIndexes(context);
  diffPolicies(context);
  diffReferences(context);
  const { table, live, changes } = context;
  if (table.rowSecurity && !live.rowSecurity) changes.push({ kind: 'enable-rls', table, live });
  if (!table.rowSecurity && live.rowSecurity) changes.push({ kind: 'disable-rls', table, live });
  if (live.rowSecurityForced) changes.push({ kind: 'unforce-rls', table, live });
  context.claim.closed = staysClosed(context);
  if (live.granted !== 'api' && !context.claim.closed) changes.push({ kind: 'grant-table', table, live });
}

function staysClosed({ table, live, key, ownership }: TableContext): boolean {
  if (table.model.rls !== 'absent' || live.granted !== 'none') return false;
  const owned = ownership.tables.get(key) ?? ownership.retiredTables.get(key);
  return owned === undefined || owned.closed === true;
}

function diffColumns(context: TableContext): void {
  const { table, live, key, owned, ownership, rebuild, changes, unmanaged } = context;
  for (const column of table.columns) {
    const liveColumn = live.columns.get(column.name);
    if (!liveColumn) {
      changes.push({ kind: 'add-column', table, live, column });
      continue;
    }
    const on = { table, live, column, liveColumn };
    const retypes = liveColumn.type !== column.type;
    if (retypes) changes.push({ kind: 'change-type', ...on });
    diffDefault(on, retypes || rebuild.has(rebuildKey('default', key, column.name)), changes);
    const begun = owned.fills?.[column.name];
    if (column.notNull && !liveColumn.notNull) changes.push({ kind: 'set-not-null', ...on });
    else if (begun !== undefined) changes.push({ kind: 'resume-backfill', ...on, value: begun });
    if (!column.notNull && liveColumn.notNull) changes.push({ kind: 'drop-not-null', ...on });
  }
  const names = new Set(table.columns.map((column) => column.name));
  for (const liveColumn of live.columns.values()) {
    if (names.has(liveColumn.name) || isTransient(liveColumn.name)) continue;
    if (ownership.retiredColumns.has(`${key}.${liveColumn.name}`)) continue;
    if (owned.columns.includes(liveColumn.name))
      changes.push({ kind: 'retire-column', table, live, liveColumn });
    else unmanaged.push({ table: key, what: 'column', name: liveColumn.name });
  }
}

type ColumnPair = {
  readonly table: DesiredTable;
  readonly live: LiveTable;
  readonly column: DesiredColumn;
  readonly liveColumn: LiveColumn;
};

function diffDefault(on: ColumnPair, again: boolean, changes: Change[]): void {
  const { column, liveColumn } = on;
  if (column.serial && !liveColumn.serial) {
    if (liveColumn.default !== null) changes.push({ kind: 'drop-default', ...on });
    changes.push({ kind: 'make-serial', ...on });
    return;
  }
  if (column.serial) {
    if (!liveColumn.sequenceGranted) changes.push({ kind: 'grant-sequence', ...on });
    return;
  }
  if (liveColumn.generated) return;
  if (liveColumn.serial) changes.push({ kind: 'drop-serial', ...on });
  const wanted = column.default?.normal ?? null;
  if (wanted === null) {
    if (liveColumn.default !== null) changes.push({ kind: 'drop-default', ...on });
    return;
  }
  if (wanted === liveColumn.default && !again) return;
  // A default of the old type may not be castable to the new one, and the type could not change below it.
  if (again && liveColumn.default !== null) changes.push({ kind: 'drop-default', ...on });
  changes.push({ kind: 'set-default', ...on });
}

function diffKeys({ table, live, key, owned, changes, unmanaged, claim }: TableContext): void {
  const taken = new Set<string>();
  for (const wanted of table.keys) {
    const match =
      live.keys.find(
        (one) => !one.special && one.kind === wanted.kind && sameList(one.columns, wanted.columns),
      ) ?? (wanted.kind === 'unique' ? live.indexes.find((index) => isFullUnique(index, wanted)) : undefined);
    if (match) taken.add(match.label);
    else changes.push({ kind: 'add-key', table, live, key: wanted });
    if (match && 'predicate' in match) claim.indexes.push(match.label);
    else claim.constraints.push(match?.label ?? wanted.label);
  }
  for (const found of live.keys) {
    if (taken.has(found.label)) continue;
    if (table.indexes.some((index) => isKeyFor(index, found))) {
      claim.constraints.push(found.label);
      continue;
    }
    // A table has one primary key, so a declared one always takes the place of another.
    const replaced = found.kind === 'primary' && table.keys.some((one) => one.kind === 'primary');
    if (replaced || owned.constraints.includes(found.label))
      changes.push({ kind: 'drop-key', table, live, key: found });
    else unmanaged.push({ table: key, what: 'constraint', name: found.label });
  }
}

function vanishingKeys(table: DesiredTable, live: LiveTable): LiveKey[] {
  return live.keys.filter(
    (found) =>
      !table.keys.some((one) => one.kind === found.kind && sameList(one.columns, found.columns)) &&
      !table.indexes.some((index) => isKeyFor(index, found)),
  );
}

function isFullUnique(index: LiveIndex, wanted: DesiredKey): boolean {
  return (
    index.unique &&
    index.valid &&
    !index.special &&
    index.predicate === null &&
    sameList(index.columns, wanted.columns)
  );
}

function isSaidByKey(index: DesiredIndex, key: DesiredKey): boolean {
  return (
    index.unique && index.predicate === null && key.kind === 'unique' && sameList(index.columns, key.columns)
  );
}

function isKeyFor(index: DesiredIndex, key: LiveKey): boolean {
  return (
    index.unique &&
    index.predicate === null &&
    key.kind === 'unique' &&
    !key.special &&
    sameList(index.columns, key.columns)
  );
}

function diffChecks({ table, live, key, owned, rebuild, changes, unmanaged, claim }: TableContext): void {
  const taken = new Set<string>();
  for (const wanted of table.checks) {
    const free = live.checks.filter((one) => !taken.has(one.label));
    const sameLabel = free.find((one) => one.label === wanted.label);
    const sameText = (one: { expression: string }): boolean => one.expression === wanted.expression.normal;
    const match =
      sameLabel && sameText(sameLabel)
        ? sameLabel
        : free.find((one) => sameText(one) && !ownLabel(table, one.label));
    const found = match ?? sameLabel;
    if (found) taken.add(found.label);
    // A replacement gets the declared label, whatever its former self was called.
    claim.constraints.push(match?.label ?? wanted.label);
    if (found === undefined) {
      changes.push({ kind: 'add-check', table, live, check: wanted, replaces: null });
    } else if (!sameText(found) || !found.enforced || rebuild.has(rebuildKey('check', key, found.label))) {
      changes.push({ kind: 'add-check', table, live, check: wanted, replaces: found });
    } else if (!found.validated) {
      changes.push({ kind: 'validate-check', table, live, check: found });
    }
  }
  for (const found of live.checks) {
    if (taken.has(found.label) || isTransient(found.label)) continue;
    const guards = guardedColumn(table, found.label);
    if (guards && live.columns.get(guards.name)?.notNull === false) continue;
    const leftover = found.label.startsWith(GUARD_PREFIX);
    if (leftover || owned.constraints.includes(found.label))
      changes.push({ kind: 'drop-check', table, live, check: found });
    else unmanaged.push({ table: key, what: 'constraint', name: found.label });
  }
}

const GUARD_PREFIX = 'svc_nn_';

// The guard of a NOT NULL that is still on its way belongs to the plan that finishes it.
function guardedColumn(table: DesiredTable, label: string): DesiredColumn | undefined {
  return table.columns.find((column) => column.notNull && transientLabel('nn', column.at) === label);
}

// Two columns may say the same text about different roles; a label that belongs to another declaration stays with it.
function ownLabel(table: DesiredTable, label: string): boolean {
  return table.checks.some((check) => check.label === label);
}

function diffForeignKeys({
  table,
  live,
  key,
  owned,
  retyped,
  changes,
  unmanaged,
  claim,
}: TableContext): void {
  const taken = new Set<string>();
  for (const wanted of table.foreignKeys) {
    const match = live.foreignKeys.find(
      (one) =>
        !taken.has(one.label) &&
        !one.special &&
        sameList(one.columns, [wanted.column]) &&
        sameList(one.targetColumns, [wanted.targetColumn]) &&
        one.targetSchema === wanted.targetSchema &&
        one.targetTable === wanted.targetTable &&
        one.onDelete === wanted.onDelete,
    );
    if (match) taken.add(match.label);
    const touched =
      match?.enforced === false ||
      retyped.has(`${key}.${wanted.column}`) ||
      retyped.has(`${tableKey(wanted.targetSchema, wanted.targetTable)}.${wanted.targetColumn}`);
    claim.constraints.push(match && !touched ? match.label : wanted.label);
    if (match && touched) changes.push({ kind: 'drop-foreign-key', table, live, foreignKey: match });
    if (!match || touched) changes.push({ kind: 'add-foreign-key', table, live, foreignKey: wanted });
    else if (!match.validated) changes.push({ kind: 'validate-foreign-key', table, live, foreignKey: match });
  }
  for (const found of live.foreignKeys) {
    if (taken.has(found.label)) continue;
    // The same label with another meaning is the declared one's former self.
    const replaced = table.foreignKeys.some((one) => one.label === found.label);
    if (replaced || owned.constraints.includes(found.label)) {
      changes.push({ kind: 'drop-foreign-key', table, live, foreignKey: found });
    } else unmanaged.push({ table: key, what: 'constraint', name: found.label });
  }
}

function diffIndexes({ table, live, key, owned, rebuild, changes, unmanaged, claim }: TableContext): void {
  const taken = new Set<string>();
  for (const wanted of table.indexes) {
    // A unique constraint over the same columns does all a unique index would.
    if (live.keys.some((one) => isKeyFor(wanted, one)) || table.keys.some((one) => isSaidByKey(wanted, one)))
      continue;
    const match = live.indexes.find(
      (one) =>
        !taken.has(one.label) &&
        !one.special &&
        one.unique === wanted.unique &&
        sameList(one.columns, wanted.columns) &&
        one.predicate === (wanted.predicate?.normal ?? null),
    );
    if (match) taken.add(match.label);
    claim.indexes.push(match?.valid ? match.label : wanted.label);
    const again = match !== undefined && rebuild.has(rebuildKey('index', key, match.label));
    if (match && (!match.valid || again)) changes.push({ kind: 'drop-index', table, live, index: match });
    if (!match?.valid || again) changes.push({ kind: 'add-index', table, live, index: wanted });
  }
  for (const found of live.indexes) {
    if (taken.has(found.label) || isTransient(found.label)) continue;
    if (found.valid && table.keys.some((one) => one.kind === 'unique' && isFullUnique(found, one))) continue;
    const ours =
      owned.indexes.includes(found.label) ||
      (!found.valid && table.indexes.some((one) => one.label === found.label));
    if (ours) changes.push({ kind: 'drop-index', table, live, index: found });
    else unmanaged.push({ table: key, what: 'index', name: found.label });
  }
}

// PUBLIC is these two and roles that pass row-level security anyway.
function isForCallers(policy: LivePolicy): boolean {
  return policy.roles === POLICY_ROLES || policy.roles === 'public';
}

/** What a policy lets happen, in one comparable text. `all` stands for its four commands. */
function policySignature(
  command: Command,
  permissive: boolean,
  using: string | null,
  check: string | null,
): string {
  const effective =
    command === 'update' || command === 'all' || command === 'insert' ? (check ?? using) : null;
  return JSON.stringify([command, permissive, command === 'insert' ? null : using, effective]);
}

function signatureOfDesired(policy: DesiredPolicy): string {
  return policySignature(
    policy.command,
    policy.permissive,
    policy.using?.normal ?? null,
    policy.check?.normal ?? null,
  );
}

function signatureOfLive(policy: LivePolicy): string {
  return policySignature(policy.command, policy.permissive, policy.using, policy.check);
}

const SINGLE_COMMANDS = ['select', 'insert', 'update', 'delete'] as const;

function expanded(
  policies: ReadonlyArray<{
    command: Command;
    permissive: boolean;
    using: string | null;
    check: string | null;
  }>,
): string[] {
  return policies
    .flatMap((one) =>
      (one.command === 'all' ? SINGLE_COMMANDS : [one.command]).map((command) =>
        policySignature(command, one.permissive, one.using, one.check),
      ),
    )
    .sort();
}

function diffPolicies({ table, live, key, owned, rebuild, changes, unmanaged, claim }: TableContext): void {
  const flat = table.policies.map((one) => ({
    ...one,
    using: one.using?.normal ?? null,
    check: one.check?.normal ?? null,
  }));
  const sameRoles = live.policies.every(isForCallers);
  const touched = live.policies.some((one) => rebuild.has(rebuildKey('policy', key, one.label)));
  if (!touched && sameRoles && sameList(expanded(flat), expanded(live.policies))) {
    claim.policies.push(...live.policies.map((one) => one.label));
    return;
  }

  const left = new Set(live.policies);
  const missing: DesiredPolicy[] = [];
  for (const wanted of table.policies) {
    const match = [...left].find(
      (one) =>
        isForCallers(one) &&
        signatureOfLive(one) === signatureOfDesired(wanted) &&
        !rebuild.has(rebuildKey('policy', key, one.label)),
    );
    if (match) {
      left.delete(match);
      claim.policies.push(match.label);
    } else missing.push(wanted);
  }
  const dropped: LivePolicy[] = [];
  for (const found of left) {
    // One like it comes back; a stranger's would be gone, so it stays in the way.
    const returns = missing.some((wanted) => signatureOfDesired(wanted) === signatureOfLive(found));
    if (returns || owned.policies.includes(found.label)) dropped.push(found);
    else unmanaged.push({ table: key, what: 'policy', name: found.label });
  }
  const replaced = new Map<DesiredPolicy, LivePolicy>();
  const free = new Set(dropped);
  for (const wanted of missing) {
    const former = [...free].find(
      (one) => one.command === wanted.command && one.permissive === wanted.permissive,
    );
    if (!former) continue;
    replaced.set(wanted, former);
    free.delete(former);
  }
  for (const found of dropped) {
    changes.push({ kind: 'drop-policy', table, live, policy: found, replaced: !free.has(found) });
  }
  const kept = live.policies.filter((one) => !dropped.includes(one)).map((one) => one.label);
  for (const { policy, label } of labelled(table, kept, missing)) {
    claim.policies.push(label);
    changes.push({
      kind: 'create-policy',
      table,
      live,
      policy,
      label,
      replaces: replaced.get(policy) ?? null,
    });
  }
}

/** The label each policy gets. */
export function labelled(
  table: { readonly name: string },
  taken: readonly string[],
  policies: readonly DesiredPolicy[],
): { policy: DesiredPolicy; label: string }[] {
  const used = new Set(taken);
  return policies.map((policy) => {
    let label = policy.name ?? policyLabel(table.name, 1, policy.command);
    for (let number = 2; used.has(label); number += 1)
      label = policyLabel(table.name, number, policy.command);
    used.add(label);
    return { policy, label };
  });
}

/** How the trigger of a reference prints its call; the one place that knows both ends. */
export function trackCall(table: DesiredTable, reference: DesiredReference): string {
  const key = table.keys.find((one) => one.kind === 'primary')?.columns ?? [];
  const args = [reference.column, reference.bucket, reference.cascade ? 'cascade' : 'keep', ...key];
  return `storage.track_ref(${args.map((arg) => quoteLiteral(arg)).join(', ')})`;
}

function diffReferences({ table, live, key, retyped, changes }: TableContext): void {
  const expected = new Set<string>();
  for (const reference of table.references) {
    const labels = referenceTriggerLabels(reference.column);
    expected.add(labels.row).add(labels.truncate);
    const row = live.triggers.find((one) => one.label === labels.row);
    const truncate = live.triggers.some((one) => one.label === labels.truncate && one.enabled);
    const primary = table.keys.find((one) => one.kind === 'primary')?.columns ?? [];
    const touched = [reference.column, ...primary].some((column) => retyped.has(`${key}.${column}`));
    if (row && touched) changes.push({ kind: 'suspend-reference', table, live, reference });
    const isTracked = row?.enabled === true && row.definition.endsWith(trackCall(table, reference));
    if (!isTracked || !truncate || touched) {
      changes.push({ kind: 'add-reference', table, live, reference });
    }
  }
  for (const found of live.triggers) {
    if (!expected.has(found.label)) changes.push({ kind: 'drop-reference', table, live, trigger: found });
  }
}

function diffFunctions(
  desired: Desired,
  live: Live,
  owned: Ownership,
  rebuild: Rebuild,
  changes: Change[],
  unmanaged: Unmanaged[],
): void {
  const wanted = new Set(desired.functions.map((fn) => tableKey(fn.schema, fn.name)));
  for (const fn of desired.functions) {
    const key = tableKey(fn.schema, fn.name);
    const found = live.functions.get(key) ?? [];
    const same =
      found.find((one) => sameSignature(fn, one)) ??
      (owned.functions.has(key) || found.length === 1 ? found[0] : undefined);
    for (const other of found) {
      if (other !== same)
        unmanaged.push({ table: key, what: 'function', name: `${other.name}(${other.identityArguments})` });
    }
    if (!same) changes.push({ kind: 'create-function', fn, live: null });
    else if (!sameSignature(fn, same) || rebuild.has(rebuildKey('function', '', same.oid)))
      changes.push({ kind: 'recreate-function', fn, live: same });
    else if (!sameFunction(fn, same)) changes.push({ kind: 'replace-function', fn, live: same });
    if (same && sameSignature(fn, same) && !same.granted)
      changes.push({ kind: 'grant-function', fn, live: same });
  }
  for (const key of owned.functions) {
    if (wanted.has(key)) continue;
    for (const found of live.functions.get(key) ?? []) changes.push({ kind: 'drop-function', live: found });
  }
}

/** Whether CREATE OR REPLACE can get there: argument types and names and the result are fixed, defaults only grow. */
export function sameSignature(fn: DesiredFunction, live: LiveFunction): boolean {
  const canonical = fn.normal;
  return (
    canonical !== null &&
    sameList(canonical.argumentTypes, live.argumentTypes) &&
    sameList(canonical.argumentNames, live.argumentNames) &&
    canonical.result === live.result &&
    canonical.defaults >= live.defaults
  );
}

const VOLATILITY: Record<string, string> = { v: 'volatile', s: 'stable', i: 'immutable' };
export const DEFINER_SETTINGS = ['search_path=public, pg_temp'];

function sameFunction(fn: DesiredFunction, live: LiveFunction): boolean {
  return (
    fn.normal?.arguments === live.arguments &&
    fn.body === live.body &&
    fn.model.language === live.language &&
    fn.model.volatility === VOLATILITY[live.volatility] &&
    fn.model.definer === live.definer &&
    sameList(fn.model.definer ? DEFINER_SETTINGS : [], live.settings)
  );
}

function diffStoragePolicies(
  desired: readonly DesiredStoragePolicy[],
  live: readonly LivePolicy[],
  owned: Ownership,
  rebuild: Rebuild,
  changes: Change[],
): string[] {
  const claims: string[] = [];
  const left = new Set(
    live.filter((one) => one.label.startsWith(STORAGE_POLICY_PREFIX) && owned.storagePolicies.has(one.label)),
  );
  const missing: DesiredStoragePolicy[] = [];
  for (const wanted of desired) {
    const match = [...left].find(
      (one) =>
        isForCallers(one) &&
        signatureOfLive(one) === signatureOfDesired(wanted) &&
        !rebuild.has(rebuildKey('policy', STORAGE_OBJECTS, one.label)),
    );
    if (match) {
      left.delete(match);
      claims.push(match.label);
    } else missing.push(wanted);
  }
  for (const found of left) changes.push({ kind: 'drop-storage-policy', policy: found });
  const used = new Set(live.filter((one) => !left.has(one)).map((one) => one.label));
  for (const policy of missing) {
    let number = 1;
    let label = storagePolicyLabel(policy.bucket, number, policy.command);
    while (used.has(label)) label = storagePolicyLabel(policy.bucket, (number += 1), policy.command);
    used.add(label);
    claims.push(label);
    changes.push({ kind: 'create-storage-policy', policy, label, bucket: policy.bucket });
  }
  return claims;
}

export function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one, index) => one === b[index]);
}
