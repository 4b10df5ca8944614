// Keys, checks, foreign keys and indexes, matched by what they say and only then by label: a respelled or renamed one
// is no difference.
import type { DesiredIndex, LiveIndex } from '../schema/indexes.ts';
import type { DesiredTable } from '../schema/desired.ts';
import type { LiveKey, LiveTable } from '../schema/live/live-schema.ts';
import { isBuiltBeside, isTransient, transientLabel } from '../schema/label.ts';
import { columnKey } from '../schema/desired.ts';
import type { ReferenceAction } from '../schema/model.ts';
import { type ForeignKey, isPlainKey, type Key, sameList } from '../schema/relation.ts';
import { rebuildKey, type TableDiff } from './table-diff.ts';

export function diffKeys({ table, live, key, owned, changes, unmanaged, claim }: TableDiff): void {
  const taken = new Set<string>();
  for (const wanted of table.keys) {
    const constraint = live.keys.find((one) => !taken.has(one.label) && sameKey(one, wanted));
    const index = constraint ? undefined : live.indexes.find((one) => isUniqueIndexFor(one, wanted));
    if (index) {
      taken.add(index.label);
      claim.indexes.push(index.label);
      continue;
    }
    if (constraint) taken.add(constraint.label);
    else changes.push({ kind: 'add-key', table, live, key: wanted });
    claim.constraints.push(constraint?.label ?? wanted.label);
  }
  for (const found of live.keys) {
    if (taken.has(found.label)) continue;
    if (table.indexes.some((index) => isDeclaredAsIndex(index, found))) {
      claim.constraints.push(found.label);
      continue;
    }
    // A table has one primary key, so a declared one replaces any other.
    const replaced = found.kind === 'primary' && table.keys.some((one) => one.kind === 'primary');
    if (replaced || owned.constraints.includes(found.label))
      changes.push({ kind: 'drop-key', table, live, key: found });
    else unmanaged.push({ table: key, what: 'constraint', name: found.label });
  }
}

/** Keys that the table loses, and with them every foreign key that refers to them. */
export function keysNotDeclared(table: DesiredTable, live: LiveTable): LiveKey[] {
  return live.keys.filter(
    (found) =>
      !table.keys.some((one) => sameKey(one, found)) &&
      !table.indexes.some((index) => isDeclaredAsIndex(index, found)),
  );
}

function sameKey(a: Key, b: Key): boolean {
  return (
    a.kind === b.kind &&
    a.deferrable === b.deferrable &&
    a.nullsNotDistinct === b.nullsNotDistinct &&
    sameList(a.columns, b.columns)
  );
}

function isUniqueIndexFor(index: LiveIndex, key: Key): boolean {
  return (
    key.kind === 'unique' &&
    isPlainKey(key) &&
    index.unique &&
    index.valid &&
    index.plain &&
    index.predicate === null &&
    sameList(index.columns, key.columns)
  );
}

/** An index that is declared beside a unique key on the same columns would only repeat it. */
export function repeatsKey(index: DesiredIndex, keys: readonly Key[]): boolean {
  return keys.some((key) => isUniqueOn(index, key));
}

function isDeclaredAsIndex(index: DesiredIndex, key: LiveKey): boolean {
  return isUniqueOn(index, key);
}

function isUniqueOn(index: DesiredIndex, key: Key): boolean {
  return (
    index.plain &&
    index.unique &&
    index.predicate === null &&
    key.kind === 'unique' &&
    isPlainKey(key) &&
    sameList(index.columns, key.columns)
  );
}

export function diffChecks({ table, live, key, owned, rebuild, changes, unmanaged, claim }: TableDiff): void {
  const taken = new Set<string>();
  for (const wanted of table.checks) {
    const free = live.checks.filter((one) => !taken.has(one.label));
    const sameLabel = free.find((one) => one.label === wanted.label);
    const sameText = (one: { expression: string }): boolean => one.expression === wanted.expression.normal;
    const match =
      sameLabel && sameText(sameLabel)
        ? sameLabel
        : free.find((one) => sameText(one) && !isDeclaredLabel(table, one.label));
    const found = match ?? sameLabel;
    if (found) taken.add(found.label);
    const again =
      found !== undefined &&
      (!sameText(found) || !found.enforced || rebuild.has(rebuildKey('check', key, found.label)));
    // A replacement gets the declared label, whatever the label of the check it replaces.
    claim.constraints.push(match && !again ? match.label : wanted.label);
    if (found === undefined || again) {
      changes.push({ kind: 'add-check', table, live, check: wanted, replaces: found ?? null });
    } else if (!found.validated && !wanted.notValid) {
      changes.push({ kind: 'validate-check', table, live, check: found });
    }
  }
  for (const found of live.checks) {
    if (taken.has(found.label) || isTransient(found.label)) continue;
    // The guard of a NOT NULL that is still on its way belongs to the plan that finishes it.
    const guarded = table.columns.find((one) => one.notNull && transientLabel('nn', one.at) === found.label);
    if (guarded && live.columns.get(guarded.name)?.notNull === false) continue;
    if (found.label.startsWith(GUARD_PREFIX) || owned.constraints.includes(found.label))
      changes.push({ kind: 'drop-check', table, live, check: found });
    else unmanaged.push({ table: key, what: 'constraint', name: found.label });
  }
}

const GUARD_PREFIX = 'svc_nn_';

// Two columns may have equal checks in different roles; a label that belongs to another declaration stays with it.
function isDeclaredLabel(table: DesiredTable, label: string): boolean {
  return table.checks.some((check) => check.label === label);
}

export function diffExclusions({ table, live, key, owned, rebuild, changes, claim }: TableDiff): void {
  const taken = new Set<string>();
  for (const wanted of table.exclusions) {
    const same = live.exclusions.filter(
      (one) => !taken.has(one.label) && one.definition === wanted.definition,
    );
    const match = same.find(({ label }) => label === wanted.label) ?? same[0];
    if (match) taken.add(match.label);
    const again = match !== undefined && rebuild.has(rebuildKey('index', key, match.label));
    claim.constraints.push(match && !again ? match.label : wanted.label);
    if (match && again) changes.push({ kind: 'drop-exclusion', table, live, exclusion: match });
    if (!match || again) changes.push({ kind: 'add-exclusion', table, live, exclusion: wanted });
  }
  for (const found of live.exclusions) {
    if (taken.has(found.label)) continue;
    // One of the same label with another meaning is an earlier version of the declared one.
    const replaced = table.exclusions.some((one) => one.label === found.label);
    if (replaced || owned.constraints.includes(found.label))
      changes.push({ kind: 'drop-exclusion', table, live, exclusion: found });
  }
}

function sameForeignKey(wanted: ForeignKey, found: ForeignKey): boolean {
  return (
    sameList(found.columns, wanted.columns) &&
    sameList(found.targetColumns, wanted.targetColumns) &&
    found.targetSchema === wanted.targetSchema &&
    found.targetTable === wanted.targetTable &&
    found.deferrable === wanted.deferrable &&
    found.matchFull === wanted.matchFull &&
    sameAction(wanted.onDelete, found.onDelete, wanted.deferrable) &&
    sameAction(wanted.onUpdate, found.onUpdate, null) &&
    sameSet(found.onDeleteColumns ?? [], wanted.onDeleteColumns ?? [])
  );
}

/** NO ACTION differs from RESTRICT only where the check can wait; values that are referred to hardly ever change. */
function sameAction(
  wanted: ReferenceAction,
  found: ReferenceAction,
  deferrable: ForeignKey['deferrable'],
): boolean {
  return wanted === found || (wanted === 'restrict' && found === 'no_action' && deferrable === null);
}

function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return sameList(a.toSorted(), b.toSorted());
}

export function diffForeignKeys(context: TableDiff): void {
  const { table, live, key, owned, unsettled, changes, unmanaged, claim } = context;
  const taken = new Set<string>();
  for (const wanted of table.foreignKeys) {
    const match = live.foreignKeys.find((one) => !taken.has(one.label) && sameForeignKey(wanted, one));
    if (match) taken.add(match.label);
    const again =
      match?.enforced === false ||
      wanted.columns.some((column) => unsettled.has(`${key}.${column}`)) ||
      wanted.targetColumns.some((column) =>
        unsettled.has(columnKey(wanted.targetSchema, wanted.targetTable, column)),
      );
    claim.constraints.push(match && !again ? match.label : wanted.label);
    if (match && again) changes.push({ kind: 'drop-foreign-key', table, live, foreignKey: match });
    if (!match || again) changes.push({ kind: 'add-foreign-key', table, live, foreignKey: wanted });
    else if (!match.validated && !wanted.notValid)
      changes.push({ kind: 'validate-foreign-key', table, live, foreignKey: match });
  }
  for (const found of live.foreignKeys) {
    if (taken.has(found.label)) continue;
    // One of the same label with another meaning is an earlier version of the declared one.
    const replaced = table.foreignKeys.some((one) => one.label === found.label);
    if (replaced || owned.constraints.includes(found.label))
      changes.push({ kind: 'drop-foreign-key', table, live, foreignKey: found });
    else unmanaged.push({ table: key, what: 'constraint', name: found.label });
  }
}

function isSameIndex(wanted: DesiredIndex, found: LiveIndex): boolean {
  if (found.unique !== wanted.unique) return false;
  if (!wanted.plain) return found.definition === wanted.definition;
  return (
    found.plain &&
    sameList(found.columns, wanted.columns) &&
    found.predicate === (wanted.predicate?.normal ?? null)
  );
}

export function diffIndexes(context: TableDiff): void {
  const { table, live, key, owned, rebuild, changes, unmanaged, claim } = context;
  const taken = new Set<string>();
  const missing: DesiredIndex[] = [];
  for (const wanted of table.indexes) {
    // A unique constraint on the same columns does all that a unique index would.
    if (live.keys.some((one) => isDeclaredAsIndex(wanted, one)) || repeatsKey(wanted, table.keys)) continue;
    const match = live.indexes.find((one) => !taken.has(one.label) && isSameIndex(wanted, one));
    if (match) taken.add(match.label);
    const again = match !== undefined && rebuild.has(rebuildKey('index', key, match.label));
    // One that is built again gets the declared label.
    claim.indexes.push(match?.valid && !again && !isBuiltBeside(match.label) ? match.label : wanted.label);
    if (match && (!match.valid || again))
      changes.push({ kind: 'drop-index', table, live, index: match, isReplaced: false });
    if (!match?.valid || again) missing.push(wanted);
    else if (isBuiltBeside(match.label))
      changes.push({ kind: 'rename-index', table, live, index: match, label: wanted.label });
  }
  const leaving = live.indexes.filter((found) => {
    if (taken.has(found.label) || isTransient(found.label)) return false;
    if (table.keys.some((one) => isUniqueIndexFor(found, one))) return false;
    const halfBuilt =
      !found.valid && (isBuiltBeside(found.label) || table.indexes.some((one) => one.label === found.label));
    return halfBuilt || owned.indexes.includes(found.label) || isBuiltBeside(found.label);
  });
  for (const index of missing) {
    const holder = leaving.find((one) => one.valid && one.label === index.label);
    changes.push({ kind: 'add-index', table, live, index, holder: holder ?? null });
  }
  // Readers keep the former index until the new one is there.
  for (const index of leaving)
    changes.push({ kind: 'drop-index', table, live, index, isReplaced: index.valid && missing.length > 0 });
  for (const found of live.indexes) {
    if (taken.has(found.label) || leaving.includes(found) || isTransient(found.label)) continue;
    if (table.keys.some((one) => isUniqueIndexFor(found, one))) continue;
    unmanaged.push({ table: key, what: 'index', name: found.label });
  }
}
