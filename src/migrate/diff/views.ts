// Compares views. CREATE OR REPLACE can only append columns. For other changes, the view and its readers are recreated.
import type { LiveIndex } from '../schema/indexes.ts';
import type { Live } from '../schema/live/live-schema.ts';
import type { Ownership } from '../schema/managed.ts';
import { isTransient } from '../schema/label.ts';
import { objectKey, tableKey } from '../schema/model.ts';
import {
  shadowViewName,
  type DesiredView,
  viewGrants,
  isOpen,
  isReplaceable,
  type LiveView,
  PUBLIC_GRANTEE,
  sortByReads,
} from '../schema/views.ts';
import { sameList } from '../schema/relation.ts';
import type { Change } from './change.ts';
import { type Rebuild, rebuildKey } from './table-diff.ts';
import { diffViewTriggers } from './triggers.ts';

export function diffViews(
  desired: readonly DesiredView[],
  live: Live['views'],
  owned: Ownership,
  rebuild: Rebuild,
  changes: Change[],
): void {
  const replaced = new Set<string>();
  for (const view of sortByReads(desired)) {
    const key = objectKey(view);
    const found = live.get(key);
    if (!found) {
      changes.push({ kind: 'create-view', view, live: null });
      diffViewTriggers(view, null, owned, rebuild, changes);
      continue;
    }
    const isForced = rebuild.has(rebuildKey('view', key, ''));
    if (isForced || !canKeepView(view, found)) {
      if (!isForced) replaced.add(tableKey(view.schema, shadowViewName(view)));
      changes.push({ kind: 'recreate-view', view, live: found, isForced });
      // The triggers are dropped with the view.
      diffViewTriggers(view, null, owned, rebuild, changes);
      continue;
    }
    if (found.materialized) diffMaterialized(view, found, rebuild, changes);
    else if (!sameView(view, found)) changes.push({ kind: 'replace-view', view, live: found });
    diffViewTriggers(view, found, owned, rebuild, changes);
    if (!sameGrants(view, found)) changes.push({ kind: 'grant-view', view, live: found });
    if ((view.model.comment ?? null) !== found.comment)
      changes.push({ kind: 'comment-view', view, live: found });
  }
  for (const key of owned.views) {
    const found = live.get(key);
    if (found && !desired.some((view) => objectKey(view) === key))
      changes.push({ kind: 'drop-view', live: found });
  }
  // Drop views that an interrupted run left behind. A view that this run will fill is dropped by the step that fills
  // it.
  for (const [key, found] of live)
    if (found.materialized && isTransient(found.name) && !replaced.has(key))
      changes.push({ kind: 'drop-view', live: found });
}

/** Returns whether the view need not be recreated. No statement can change the query of a materialized view. */
function canKeepView(view: DesiredView, live: LiveView): boolean {
  if (live.materialized !== (view.model.materialized ?? false)) return false;
  return live.materialized
    ? (view.normal?.definition ?? live.definition) === live.definition
    : isReplaceable(view.normal ?? live, live);
}

/** Undeclared indexes are dropped, because they would be lost whenever the view is recreated. */
function diffMaterialized(view: DesiredView, live: LiveView, rebuild: Rebuild, changes: Change[]): void {
  const base = { view, live };
  if (!live.populated) changes.push({ kind: 'refresh-view', ...base });
  const kept = new Set<LiveIndex>();
  const isSame = (index: DesiredView['indexes'][number], n: number, found: LiveIndex): boolean =>
    !kept.has(found) &&
    found.valid &&
    found.unique === index.unique &&
    found.definition === view.normal?.indexes?.[n] &&
    !rebuild.has(rebuildKey('index', objectKey(live), found.label));
  view.indexes.forEach((index, n) => {
    const candidates = live.indexes.filter((found) => isSame(index, n, found));
    const found = candidates.find(({ label }) => label === index.label) ?? candidates[0];
    if (found === undefined) {
      changes.push({ kind: 'add-view-index', ...base, index });
      return;
    }
    kept.add(found);
    if (index.model.name !== null && found.label !== index.label)
      changes.push({ kind: 'rename-view-index', ...base, index: found, label: index.label });
  });
  for (const index of live.indexes)
    if (!kept.has(index)) changes.push({ kind: 'drop-view-index', ...base, index });
}

function sameView({ model, normal }: DesiredView, live: LiveView): boolean {
  return (
    normal?.definition === live.definition &&
    model.definer === live.definer &&
    (model.barrier ?? false) === live.barrier &&
    (model.checkOption ?? null) === live.checkOption
  );
}

function sameGrants({ model }: DesiredView, live: LiveView): boolean {
  const found = new Map(Object.entries(live.grants));
  return (
    !found.has(PUBLIC_GRANTEE) &&
    [...viewGrants(model)].every(([role, privileges]) => sameList(privileges, found.get(role) ?? []))
  );
}

/**
 * Returns the tables whose row-level security the view bypasses, because the view or a view that it reads has the
 * privileges of its owner. `isSecured` returns whether callers are restricted in reading a relation, given as
 * `schema.name`.
 */
export function findBypassedTables<
  V extends { readonly definer: boolean; readonly materialized: boolean; readonly reads: readonly string[] },
>(key: string, views: ReadonlyMap<string, V>, isSecured: (key: string) => boolean): Set<string> {
  const reached = new Set<string>();
  const seen = new Set<string>();
  const visit = (at: string): void => {
    const view = views.get(at);
    if (!view || seen.has(at)) return;
    seen.add(at);
    for (const read of view.reads) {
      const below = views.get(read);
      // Access to the rows of a materialized view is controlled by its grants.
      if (below?.materialized && !view.definer) continue;
      if (below) visit(read);
      else if (view.definer && isSecured(read)) reached.add(read);
    }
  };
  visit(key);
  return reached;
}

export function isOpenView(view: DesiredView): boolean {
  return isOpen(viewGrants(view.model));
}
