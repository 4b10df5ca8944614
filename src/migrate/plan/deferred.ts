// Which changes must wait for the cutover of a type change that is made online: whatever depends on the column, and
// whatever names something deferred. Names are compared as words; deferring too much only delays.
import type { LiveIndex } from '../schema/indexes.ts';
import type { Change } from '../diff/change.ts';
import type { DesiredFunction, DesiredTable } from '../schema/desired.ts';
import type { Expression } from '../schema/expression.ts';
import type { Host } from '../schema/rights/hosts.ts';
import { keyOf, tableKey } from '../schema/model.ts';
import { primaryKeyOf } from '../schema/relation.ts';
import { type DesiredStatement, phaseOf } from '../schema/statements.ts';
import { wordsOf } from '../../lib/sql/sql-text.ts';
import { type ChangeOf, columnsKey } from './step-list.ts';

/**
 * `online`: the columns whose type changes online, as `schema.table.column`. `swapped`: materialized views that take the
 * place of others.
 */
export function deferredChanges(
  changes: readonly Change[],
  online: ReadonlySet<string>,
  swapped: ReadonlySet<Change> = new Set(),
): ReadonlySet<Change> {
  const deferred = new Set<Change>(swapped);
  if (online.size + swapped.size === 0) return deferred;
  const columns = withReferences(changes, online);
  const typeChanges = changes.flatMap((change) =>
    change.kind === 'change-type' && columns.has(columnKeyOf(change.table, change.column.name))
      ? [change]
      : [],
  );
  const names: Names = {
    columns,
    words: new Set(typeChanges.map((change) => change.column.name)),
    rowTypes: new Set(typeChanges.map((change) => change.table.name)),
    tables: new Set(),
    keys: new Set(),
    access: new Set(),
    held: new Set(),
    labels: new Set(),
    keyed: new Set(),
    hosts: new Set(),
  };
  for (const change of swapped) remember(change, names);
  // Deferring one change may defer what names it.
  for (let before = -1; before !== deferred.size;) {
    before = deferred.size;
    for (const change of changes) {
      if (deferred.has(change) || !mustDefer(change, names)) continue;
      deferred.add(change);
      remember(change, names);
    }
  }
  return deferred;
}

type Names = {
  readonly columns: Set<string>;
  /** Deferred columns and functions, as SQL text names them. */
  readonly words: Set<string>;
  /** The columns' tables: a function may return their rows. */
  readonly rowTypes: Set<string>;
  /** Deferred new tables. */
  readonly tables: Set<string>;
  /** Deferred new keys, by `columnsKey`: nothing can refer to them before. */
  readonly keys: Set<string>;
  /** Tables whose policies and grants are deferred: all of one table change together, or a gap could open. */
  readonly access: Set<string>;
  /** Words of the expressions that stay until the cutover: no type of what they name can change before. */
  readonly held: Set<string>;
  /** Labels that are in use until the cutover. */
  readonly labels: Set<string>;
  /** Tables whose primary key is dropped in the cutover. */
  readonly keyed: Set<string>;
  /** Tables of svc whose policies are deferred, likewise. */
  readonly hosts: Set<Host>;
};

/** Both ends of a foreign key must change their type together. */
function withReferences(changes: readonly Change[], online: ReadonlySet<string>): Set<string> {
  const changing = new Set(
    changes.flatMap((change) =>
      change.kind === 'change-type' ? [columnKeyOf(change.table, change.column.name)] : [],
    ),
  );
  const pairs = changes.flatMap((change): [string, string][] => {
    if (change.kind !== 'add-foreign-key' && change.kind !== 'drop-foreign-key') return [];
    const { foreignKey } = change;
    const target = tableKey(foreignKey.targetSchema, foreignKey.targetTable);
    return foreignKey.columns.map((column, n) => [
      columnKeyOf(change.table, column),
      `${target}.${foreignKey.targetColumns[n] ?? ''}`,
    ]);
  });
  const all = new Set(online);
  for (let before = 0; before !== all.size;) {
    before = all.size;
    for (const [a, b] of pairs) {
      if (all.has(a) && changing.has(b)) all.add(b);
      if (all.has(b) && changing.has(a)) all.add(a);
    }
  }
  return all;
}

function columnKeyOf(table: DesiredTable, column: string): string {
  return `${keyOf(table)}.${column}`;
}

function mustDefer(change: Change, names: Names): boolean {
  if ('table' in change && names.tables.has(keyOf(change.table))) return true;
  const isOn = (column: string): boolean =>
    'table' in change && names.columns.has(columnKeyOf(change.table, column));
  const says = (...texts: readonly (Expression | string | null | undefined)[]): boolean =>
    texts.some((text) =>
      [...wordsOf(typeof text === 'string' ? text : (text?.sql ?? ''))].some((word) => names.words.has(word)),
    );
  if (change.kind === 'change-type' && names.held.has(change.column.name)) return true;
  if ('column' in change)
    return isOn(change.column.name) || says(change.column.default, change.column.model.backfill);
  switch (change.kind) {
    case 'create-type':
    case 'add-values':
    case 'recreate-type':
    case 'add-domain-check':
    case 'validate-domain-check':
    case 'drop-domain-check':
    case 'set-domain-default':
    case 'set-domain-not-null':
    case 'add-attribute':
    case 'comment-type':
    case 'create-sequence':
    case 'alter-sequence':
    case 'grant-free-sequence':
    case 'comment-sequence':
    case 'create-extension':
    case 'update-extension':
    case 'create-publication':
    case 'publish-generated':
    case 'create-schema':
    case 'grant-schema':
    case 'retire-table':
    case 'set-storage':
    case 'set-logged':
    case 'add-partition':
    case 'make-partitions':
    case 'retire-partition':
    case 'rename-partition':
    case 'retire-column':
    // Nothing uses it any more.
    case 'drop-retired':
      return false;
    case 'create-table':
      return says(...change.table.columns.map((column) => column.default));
    case 'set-comment':
      return change.commented !== null && isOn(change.commented.name);
    case 'add-key':
      return (
        change.key.columns.some(isOn) ||
        isTaken(change.table, change.key.label, names) ||
        // A table can have only one primary key, whatever its label.
        (change.key.kind === 'primary' && names.keyed.has(keyOf(change.table)))
      );
    case 'drop-key':
      return change.key.columns.some(isOn);
    case 'add-foreign-key':
    case 'drop-foreign-key':
    case 'validate-foreign-key':
      return change.foreignKey.columns.some(isOn) || isTargetDeferred(change, names);
    case 'add-check':
      return (
        change.check.columns.some(isOn) ||
        says(change.check.expression, change.replaces?.expression) ||
        isTaken(change.table, change.check.label, names)
      );
    case 'add-exclusion':
      return (
        change.exclusion.columns.some(isOn) ||
        says(change.exclusion.text) ||
        isTaken(change.table, change.exclusion.label, names)
      );
    case 'drop-exclusion':
      return change.exclusion.columns.some(isOn) || says(change.exclusion.definition);
    case 'drop-check':
    case 'validate-check':
      return change.check.columns.some(isOn) || says(change.check.expression);
    case 'add-index':
      return (
        change.index.columns.some(isOn) ||
        says(change.index.predicate) ||
        (change.holder !== null && change.holder.columns.some(isOn)) ||
        isTaken(change.table, change.index.label, names)
      );
    case 'drop-index':
      return change.index.columns.some(isOn) || says(indexText(change.index));
    case 'rename-index':
      return isTaken(change.table, change.label, names);
    case 'create-policy':
    case 'drop-policy':
      return names.access.has(keyOf(change.table)) || says(change.policy.using, change.policy.check);
    case 'enable-rls':
    case 'disable-rls':
    case 'unforce-rls':
    case 'grant-table':
      return names.access.has(keyOf(change.table));
    // The former key may be gone long before the cutover, and updates would be refused without one.
    case 'unpublish':
      return false;
    case 'set-replica-identity':
      return change.identity === 'default' && isKeyDeferred(change.table, names);
    case 'keep-replica-identity':
      return isKeyDeferred(change.table, names);
    // Nobody is told of a row before its policies say who may be.
    case 'publish':
      return names.access.has(keyOf(change.table)) || isKeyDeferred(change.table, names);
    case 'add-reference':
    case 'suspend-reference':
      return (
        isOn(change.reference.column) ||
        change.table.keys.some((key) => key.kind === 'primary' && key.columns.some(isOn))
      );
    case 'drop-reference':
      return change.table.keys.some((key) => key.columns.some(isOn)) || says(change.trigger.definition);
    case 'create-function':
    case 'replace-function':
    case 'recreate-function':
    case 'grant-function':
      return says(change.fn.head, change.fn.body) || namesRowType(change, names);
    case 'create-statement':
    case 'recreate-statement':
    case 'alter-statement':
    case 'grant-statement':
    case 'comment-statement':
      return (
        names.words.has(change.statement.name) ||
        says(...textsOf(change)) ||
        [...names.tables].some((key) =>
          textsOf(change).some((text) => text.includes(key.slice(key.indexOf('.') + 1))),
        )
      );
    // What uses it may be made anew in the cutover.
    case 'drop-statement':
      return phaseOf(change.live) !== 'last' || says(...change.live.definition);
    case 'set-on-update':
      return change.trigger.values.some((one) => isOn(one.column) || says(one.expression));
    case 'drop-on-update':
    case 'drop-new-user':
      return false;
    case 'set-new-user':
      return (
        names.tables.has(keyOf(change.trigger.table)) ||
        change.trigger.values.some((one) => says(one.expression)) ||
        says(change.trigger.when)
      );
    // Both or neither: one that is made again must not be dropped after that.
    case 'set-trigger':
    case 'set-user-trigger':
      return says(change.trigger.definition, change.isRemade ? change.found?.definition : null);
    case 'set-view-trigger':
      return (
        names.words.has(change.view.name) ||
        says(change.trigger.definition, change.isRemade ? change.found?.definition : null)
      );
    case 'drop-view-trigger':
      return names.words.has(change.view.name) || says(change.trigger.definition, change.next?.definition);
    case 'drop-trigger':
    case 'drop-user-trigger':
      return says(change.trigger.definition, change.next?.definition);
    // A column has it until the cutover.
    case 'drop-type':
    // A deferred policy may still call or read it.
    case 'drop-function':
    case 'drop-view':
      return true;
    case 'create-view':
    case 'replace-view':
    case 'recreate-view':
    case 'refresh-view':
    case 'add-view-index':
    case 'drop-view-index':
    case 'rename-view-index':
    case 'grant-view':
    case 'comment-view':
      return (
        names.words.has(change.view.name) ||
        says(change.view.normal?.definition, change.live?.definition) ||
        (change.view.normal?.reads ?? []).some((key) => names.tables.has(key))
      );
    case 'create-hosted-policy':
    case 'drop-hosted-policy':
      return names.hosts.has(change.host) || says(change.policy.using, change.policy.check);
  }
}

type ForeignKeyChange = ChangeOf<'add-foreign-key' | 'drop-foreign-key' | 'validate-foreign-key'>;

function isTargetDeferred(change: ForeignKeyChange, names: Names): boolean {
  const { targetSchema, targetTable, targetColumns, label } = change.foreignKey;
  const target = tableKey(targetSchema, targetTable);
  if (names.tables.has(target)) return true;
  if (targetColumns.some((column) => names.columns.has(`${target}.${column}`))) return true;
  return (
    change.kind === 'add-foreign-key' &&
    (isTaken(change.table, label, names) || names.keys.has(columnsKey(target, targetColumns)))
  );
}

function isKeyDeferred(table: DesiredTable, names: Names): boolean {
  return names.keys.has(columnsKey(keyOf(table), primaryKeyOf(table)));
}

function namesRowType({ fn, live }: Extract<Change, { fn: DesiredFunction }>, names: Names): boolean {
  const words = wordsOf(`${fn.head}\n${fn.body}\n${live?.body ?? ''}`);
  return [...words].some((word) => names.rowTypes.has(word));
}

function isTaken(table: DesiredTable, label: string, names: Names): boolean {
  return names.labels.has(`${keyOf(table)} ${label}`);
}

function indexText({ plain, predicate, definition }: LiveIndex): string | null {
  return plain ? predicate : definition;
}

function textsOf(change: Extract<Change, { statement: DesiredStatement }>): readonly string[] {
  const live = 'live' in change ? change.live : null;
  return [...(change.statement.normal?.definition ?? []), ...(live?.definition ?? [])];
}

function hold(names: Names, ...texts: readonly (string | null | undefined)[]): void {
  for (const text of texts) for (const word of wordsOf(text ?? '')) names.held.add(word);
}

function remember(change: Change, names: Names): void {
  const table = 'table' in change ? keyOf(change.table) : '';
  const holdLabel = (label: string): void => void names.labels.add(`${table} ${label}`);
  if (change.kind === 'drop-key') holdLabel(change.key.label);
  if (change.kind === 'drop-index') holdLabel(change.index.label);
  if (change.kind === 'drop-exclusion') {
    holdLabel(change.exclusion.label);
    hold(names, change.exclusion.definition);
  }
  if (change.kind === 'drop-check') holdLabel(change.check.label);
  if (change.kind === 'drop-foreign-key') holdLabel(change.foreignKey.label);
  if (change.kind === 'drop-key' && change.key.kind === 'primary') names.keyed.add(table);

  if (change.kind === 'drop-index') hold(names, indexText(change.index));
  if (change.kind === 'drop-check') hold(names, change.check.expression);
  if (change.kind === 'add-check') hold(names, change.replaces?.expression);
  if (
    change.kind === 'drop-trigger' ||
    change.kind === 'drop-user-trigger' ||
    change.kind === 'drop-view-trigger'
  )
    hold(names, change.trigger.definition);
  if (change.kind === 'drop-policy' || change.kind === 'drop-hosted-policy')
    hold(names, change.policy.using, change.policy.check);

  if (change.kind === 'recreate-view' || change.kind === 'drop-view') hold(names, change.live.definition);
  if ('view' in change && !('trigger' in change)) names.words.add(change.view.name);

  if (change.kind === 'recreate-statement' || change.kind === 'drop-statement')
    hold(names, ...change.live.definition);
  if (
    (change.kind === 'create-statement' || change.kind === 'recreate-statement') &&
    change.statement.name !== ''
  )
    names.words.add(change.statement.name);

  if (change.kind === 'create-table') names.tables.add(table);
  if (change.kind === 'create-policy' || change.kind === 'drop-policy') names.access.add(table);
  if (change.kind === 'create-hosted-policy' || change.kind === 'drop-hosted-policy')
    names.hosts.add(change.host);
  if (change.kind === 'add-key') names.keys.add(columnsKey(table, change.key.columns));
  if (change.kind === 'add-index' && change.index.unique)
    names.keys.add(columnsKey(table, change.index.columns));
  if ('fn' in change && change.kind !== 'grant-function') names.words.add(change.fn.name);
  if (change.kind !== 'change-type') return;
  names.columns.add(columnKeyOf(change.table, change.column.name));
  names.words.add(change.column.name);
  names.rowTypes.add(change.table.name);
}
