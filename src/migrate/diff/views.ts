// Views. CREATE OR REPLACE can only append columns; a view with others is dropped and made again, with what reads it.
import type { LiveIndex } from '../schema/indexes.ts';
import type { Live } from '../schema/live/live-schema.ts';
import type { Ownership } from '../schema/managed.ts';
import { isTransient } from '../schema/label.ts';
import { keyOf, tableKey } from '../schema/model.ts';
import {
  besideOf,
  type DesiredView,
  grantsOf,
  isOpen,
  isReplaceable,
  type LiveView,
  PUBLIC_GRANTEE,
  readFirst,
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
  for (const view of readFirst(desired)) {
    const key = keyOf(view);
    const found = live.get(key);
    if (!found) {
      changes.push({ kind: 'create-view', view, live: null });
      diffViewTriggers(view, null, owned, rebuild, changes);
      continue;
    }
    const isForced = rebuild.has(rebuildKey('view', key, ''));
    if (isForced || !isKept(view, found)) {
      if (!isForced) replaced.add(tableKey(view.schema, besideOf(view)));
      changes.push({ kind: 'recreate-view', view, live: found, isForced });
      // They go with it.
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
    if (found && !desired.some((view) => keyOf(view) === key))
      changes.push({ kind: 'drop-view', live: found });
  }
  // A run that ended before its cutover left them. What still replaces another is dropped and filled anew by that step.
  for (const [key, found] of live)
    if (found.materialized && isTransient(found.name) && !replaced.has(key))
      changes.push({ kind: 'drop-view', live: found });
}

/** No statement gives a materialized view another query. */
function isKept(view: DesiredView, live: LiveView): boolean {
  if (live.materialized !== (view.model.materialized ?? false)) return false;
  return live.materialized
    ? (view.normal?.definition ?? live.definition) === live.definition
    : isReplaceable(view.normal ?? live, live);
}

/** All indexes of it are the file's: they would be lost whenever it is made again. */
function diffMaterialized(view: DesiredView, live: LiveView, rebuild: Rebuild, changes: Change[]): void {
  const on = { view, live };
  if (!live.populated) changes.push({ kind: 'refresh-view', ...on });
  const kept = new Set<LiveIndex>();
  const isSame = (index: DesiredView['indexes'][number], n: number, found: LiveIndex): boolean =>
    !kept.has(found) &&
    found.valid &&
    found.unique === index.unique &&
    found.definition === view.normal?.indexes?.[n] &&
    !rebuild.has(rebuildKey('index', keyOf(live), found.label));
  view.indexes.forEach((index, n) => {
    const same = live.indexes.filter((found) => isSame(index, n, found));
    const found = same.find(({ label }) => label === index.label) ?? same[0];
    if (found === undefined) {
      changes.push({ kind: 'add-view-index', ...on, index });
      return;
    }
    kept.add(found);
    if (index.model.name !== null && found.label !== index.label)
      changes.push({ kind: 'rename-view-index', ...on, index: found, label: index.label });
  });
  for (const index of live.indexes)
    if (!kept.has(index)) changes.push({ kind: 'drop-view-index', ...on, index });
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
    [...grantsOf(model)].every(([role, privileges]) => sameList(privileges, found.get(role) ?? []))
  );
}

/**
 * Tables that a view lets callers read past their row-level security, because it or a view below it reads them with the
 * owner's rights. `isSecured`: by `schema.name`, what callers may not simply read.
 */
export function reachOf<
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
      // Who may read stored rows is said by their own grants.
      if (below?.materialized && !view.definer) continue;
      if (below) visit(read);
      else if (view.definer && isSecured(read)) reached.add(read);
    }
  };
  visit(key);
  return reached;
}

export function isOpenView(view: DesiredView): boolean {
  return isOpen(grantsOf(view.model));
}
