// Views. CREATE OR REPLACE can only append columns; a view with others is dropped and made again, with what reads it.
import type { Live } from '../schema/live/live-schema.ts';
import type { Ownership } from '../schema/managed.ts';
import { keyOf } from '../schema/model.ts';
import {
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

export function diffViews(
  desired: readonly DesiredView[],
  live: Live['views'],
  owned: Ownership,
  rebuild: Rebuild,
  changes: Change[],
): void {
  for (const view of readFirst(desired)) {
    const key = keyOf(view);
    const found = live.get(key);
    if (!found) {
      changes.push({ kind: 'create-view', view, live: null });
      continue;
    }
    const isRemade = rebuild.has(rebuildKey('view', key, '')) || !isReplaceable(view.normal ?? found, found);
    if (isRemade) {
      changes.push({ kind: 'recreate-view', view, live: found });
      continue;
    }
    if (!sameView(view, found)) changes.push({ kind: 'replace-view', view, live: found });
    if (!sameGrants(view, found)) changes.push({ kind: 'grant-view', view, live: found });
    if ((view.model.comment ?? null) !== found.comment)
      changes.push({ kind: 'comment-view', view, live: found });
  }
  for (const key of owned.views) {
    const found = live.get(key);
    if (found && !desired.some((view) => keyOf(view) === key))
      changes.push({ kind: 'drop-view', live: found });
  }
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
export function reachOf<V extends { readonly definer: boolean; readonly reads: readonly string[] }>(
  key: string,
  views: ReadonlyMap<string, V>,
  isSecured: (key: string) => boolean,
): Set<string> {
  const reached = new Set<string>();
  const seen = new Set<string>();
  const visit = (at: string): void => {
    const view = views.get(at);
    if (!view || seen.has(at)) return;
    seen.add(at);
    for (const read of view.reads) {
      if (views.has(read)) visit(read);
      else if (view.definer && isSecured(read)) reached.add(read);
    }
  };
  visit(key);
  return reached;
}

export function isOpenView(view: DesiredView): boolean {
  return isOpen(grantsOf(view.model));
}
