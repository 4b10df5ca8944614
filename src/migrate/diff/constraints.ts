// Compares keys, checks, exclusions, foreign keys and indexes. Objects are matched by definition first and by label
// second, so another spelling or another name is not a difference.
import type { DesiredIndex, LiveIndex } from '../schema/indexes.ts';
import type { DesiredTable } from '../schema/desired.ts';
import type { LiveKey, LiveTable } from '../schema/live/live-schema.ts';
import { isShadowLabel, isTransient, transientLabel } from '../schema/label.ts';
import { columnKey } from '../schema/desired.ts';
import type { ReferenceAction } from '../schema/model.ts';
import { type ForeignKey, isPlainKey, type Key, sameList } from '../schema/relation.ts';
import { rebuildKey, type TableDiff } from './table-diff.ts';

export function diffKeys({ table, live, key, owned, changes, unmanaged, claim }: TableDiff): void {
  const matched = new Set<string>();
  for (const desired of table.keys) {
    const constraint = live.keys.find((liveKey) => !matched.has(liveKey.label) && sameKey(liveKey, desired));
    const index = constraint
      ? undefined
      : live.indexes.find((liveIndex) => isUniqueIndexFor(liveIndex, desired));
    if (index) {
      matched.add(index.label);
      claim.indexes.push(index.label);
      continue;
    }
    if (constraint) matched.add(constraint.label);
    else changes.push({ kind: 'add-key', table, live, key: desired });
    claim.constraints.push(constraint?.label ?? desired.label);
  }
  for (const found of live.keys) {
    if (matched.has(found.label)) continue;
    if (table.indexes.some((index) => isDeclaredAsIndex(index, found))) {
      claim.constraints.push(found.label);
      continue;
    }
    // A table has one primary key, so a declared one replaces any other.
    const replaced =
      found.kind === 'primary' && table.keys.some((declaredKey) => declaredKey.kind === 'primary');
    if (replaced || owned.constraints.includes(found.label))
      changes.push({ kind: 'drop-key', table, live, key: found });
    else unmanaged.push({ table: key, what: 'constraint', name: found.label });
  }
}

/** Returns the live keys that the file does not declare. Foreign keys that refer to them are dropped with them. */
export function keysNotDeclared(table: DesiredTable, live: LiveTable): LiveKey[] {
  return live.keys.filter(
    (found) =>
      !table.keys.some((declaredKey) => sameKey(declaredKey, found)) &&
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

/** Returns whether a declared unique key has the same columns, which makes the index redundant. */
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
  const matched = new Set<string>();
  for (const desired of table.checks) {
    const free = live.checks.filter((liveCheck) => !matched.has(liveCheck.label));
    const sameLabel = free.find((liveCheck) => liveCheck.label === desired.label);
    const sameText = (liveCheck: { expression: string }): boolean =>
      liveCheck.expression === desired.expression.normal;
    const match =
      sameLabel && sameText(sameLabel)
        ? sameLabel
        : free.find((liveCheck) => sameText(liveCheck) && !isDeclaredLabel(table, liveCheck.label));
    const found = match ?? sameLabel;
    if (found) matched.add(found.label);
    const mustRebuild =
      found !== undefined &&
      (!sameText(found) || !found.enforced || rebuild.has(rebuildKey('check', key, found.label)));
    // A replacement gets the declared label.
    claim.constraints.push(match && !mustRebuild ? match.label : desired.label);
    if (found === undefined || mustRebuild) {
      changes.push({ kind: 'add-check', table, live, check: desired, replaces: found ?? null });
    } else if (!found.validated && !desired.notValid) {
      changes.push({ kind: 'validate-check', table, live, check: found });
    }
  }
  for (const found of live.checks) {
    if (matched.has(found.label) || isTransient(found.label)) continue;
    // A temporary check for NOT NULL is dropped by the plan that sets NOT NULL.
    const guarded = table.columns.find(
      (column) => column.notNull && transientLabel('nn', column.at) === found.label,
    );
    if (guarded && live.columns.get(guarded.name)?.notNull === false) continue;
    if (found.label.startsWith(GUARD_PREFIX) || owned.constraints.includes(found.label))
      changes.push({ kind: 'drop-check', table, live, check: found });
    else unmanaged.push({ table: key, what: 'constraint', name: found.label });
  }
}

const GUARD_PREFIX = 'svc_nn_';

// Two checks may have the same expression. A label that belongs to another declaration is not a match.
function isDeclaredLabel(table: DesiredTable, label: string): boolean {
  return table.checks.some((check) => check.label === label);
}

export function diffExclusions({ table, live, key, owned, rebuild, changes, claim }: TableDiff): void {
  const matched = new Set<string>();
  for (const desired of table.exclusions) {
    const same = live.exclusions.filter(
      (liveExclusion) => !matched.has(liveExclusion.label) && liveExclusion.definition === desired.definition,
    );
    const match = same.find(({ label }) => label === desired.label) ?? same[0];
    if (match) matched.add(match.label);
    const mustRebuild = match !== undefined && rebuild.has(rebuildKey('index', key, match.label));
    claim.constraints.push(match && !mustRebuild ? match.label : desired.label);
    if (match && mustRebuild) changes.push({ kind: 'drop-exclusion', table, live, exclusion: match });
    if (!match || mustRebuild) changes.push({ kind: 'add-exclusion', table, live, exclusion: desired });
  }
  for (const found of live.exclusions) {
    if (matched.has(found.label)) continue;
    // A live constraint with a declared label and another definition is an earlier version.
    const replaced = table.exclusions.some((exclusion) => exclusion.label === found.label);
    if (replaced || owned.constraints.includes(found.label))
      changes.push({ kind: 'drop-exclusion', table, live, exclusion: found });
  }
}

function sameForeignKey(desired: ForeignKey, found: ForeignKey): boolean {
  return (
    sameList(found.columns, desired.columns) &&
    sameList(found.targetColumns, desired.targetColumns) &&
    found.targetSchema === desired.targetSchema &&
    found.targetTable === desired.targetTable &&
    found.deferrable === desired.deferrable &&
    found.matchFull === desired.matchFull &&
    sameAction(desired.onDelete, found.onDelete, desired.deferrable) &&
    sameAction(desired.onUpdate, found.onUpdate, null) &&
    sameSet(found.onDeleteColumns ?? [], desired.onDeleteColumns ?? [])
  );
}

/**
 * RESTRICT in the file also matches NO ACTION unless the key is deferrable, because they differ only in deferred
 * checks.
 */
function sameAction(
  desired: ReferenceAction,
  found: ReferenceAction,
  deferrable: ForeignKey['deferrable'],
): boolean {
  return desired === found || (desired === 'restrict' && found === 'no_action' && deferrable === null);
}

function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return sameList(a.toSorted(), b.toSorted());
}

export function diffForeignKeys(context: TableDiff): void {
  const { table, live, key, owned, changingColumns, changes, unmanaged, claim } = context;
  const matched = new Set<string>();
  for (const desired of table.foreignKeys) {
    const match = live.foreignKeys.find(
      (liveForeignKey) => !matched.has(liveForeignKey.label) && sameForeignKey(desired, liveForeignKey),
    );
    if (match) matched.add(match.label);
    const mustRebuild =
      match?.enforced === false ||
      desired.columns.some((column) => changingColumns.has(`${key}.${column}`)) ||
      desired.targetColumns.some((column) =>
        changingColumns.has(columnKey(desired.targetSchema, desired.targetTable, column)),
      );
    claim.constraints.push(match && !mustRebuild ? match.label : desired.label);
    if (match && mustRebuild) changes.push({ kind: 'drop-foreign-key', table, live, foreignKey: match });
    if (!match || mustRebuild) changes.push({ kind: 'add-foreign-key', table, live, foreignKey: desired });
    else if (!match.validated && !desired.notValid)
      changes.push({ kind: 'validate-foreign-key', table, live, foreignKey: match });
  }
  for (const found of live.foreignKeys) {
    if (matched.has(found.label)) continue;
    // A live constraint with a declared label and another definition is an earlier version.
    const replaced = table.foreignKeys.some((foreignKey) => foreignKey.label === found.label);
    if (replaced || owned.constraints.includes(found.label))
      changes.push({ kind: 'drop-foreign-key', table, live, foreignKey: found });
    else unmanaged.push({ table: key, what: 'constraint', name: found.label });
  }
}

function isSameIndex(desired: DesiredIndex, found: LiveIndex): boolean {
  if (found.unique !== desired.unique) return false;
  if (!desired.plain) return found.definition === desired.definition;
  return (
    found.plain &&
    sameList(found.columns, desired.columns) &&
    found.predicate === (desired.predicate?.normal ?? null)
  );
}

export function diffIndexes(context: TableDiff): void {
  const { table, live, key, owned, rebuild, changes, unmanaged, claim } = context;
  const matched = new Set<string>();
  const missing: DesiredIndex[] = [];
  for (const desired of table.indexes) {
    // A unique constraint on the same columns is equivalent to a unique index.
    if (live.keys.some((liveKey) => isDeclaredAsIndex(desired, liveKey)) || repeatsKey(desired, table.keys))
      continue;
    const match = live.indexes.find(
      (liveIndex) => !matched.has(liveIndex.label) && isSameIndex(desired, liveIndex),
    );
    if (match) matched.add(match.label);
    const mustRebuild = match !== undefined && rebuild.has(rebuildKey('index', key, match.label));
    // A rebuilt index gets the declared label.
    claim.indexes.push(
      match?.valid && !mustRebuild && !isShadowLabel(match.label) ? match.label : desired.label,
    );
    if (match && (!match.valid || mustRebuild))
      changes.push({ kind: 'drop-index', table, live, index: match, isReplaced: false });
    if (!match?.valid || mustRebuild) missing.push(desired);
    else if (isShadowLabel(match.label))
      changes.push({ kind: 'rename-index', table, live, index: match, label: desired.label });
  }
  const leaving = live.indexes.filter((found) => {
    if (matched.has(found.label) || isTransient(found.label)) return false;
    if (table.keys.some((declaredKey) => isUniqueIndexFor(found, declaredKey))) return false;
    const halfBuilt =
      !found.valid &&
      (isShadowLabel(found.label) || table.indexes.some((index) => index.label === found.label));
    return halfBuilt || owned.indexes.includes(found.label) || isShadowLabel(found.label);
  });
  for (const index of missing) {
    const holder = leaving.find((leavingIndex) => leavingIndex.valid && leavingIndex.label === index.label);
    changes.push({ kind: 'add-index', table, live, index, holder: holder ?? null });
  }
  // Queries can use the old index until the new one is built.
  for (const index of leaving)
    changes.push({ kind: 'drop-index', table, live, index, isReplaced: index.valid && missing.length > 0 });
  for (const found of live.indexes) {
    if (matched.has(found.label) || leaving.includes(found) || isTransient(found.label)) continue;
    if (table.keys.some((declaredKey) => isUniqueIndexFor(found, declaredKey))) continue;
    unmanaged.push({ table: key, what: 'index', name: found.label });
  }
}
