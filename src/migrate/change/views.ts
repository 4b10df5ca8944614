// Traits of changes to views.
import type { Change } from '../diff/change.ts';
import { objectKey } from '../schema/model.ts';
import type { DesiredView, LiveView } from '../schema/views.ts';
import { type ObjectKey, wordKeys } from './object-key.ts';
import type { AlteredObject, RemovedObject, TraitsByKind } from './trait-types.ts';

const OF_VIEW = { provides: viewName, requires: viewKeys };

export const VIEW_TRAITS = {
  'create-view': OF_VIEW,
  'replace-view': OF_VIEW,
  'recreate-view': {
    ...OF_VIEW,
    removes: removedView,
    alters: ({ live, view }) => alteredView(live, view.at),
    holds: ({ live }) => [live.definition],
  },
  'refresh-view': OF_VIEW,
  'grant-view': OF_VIEW,
  'comment-view': OF_VIEW,
  'add-view-index': OF_VIEW,
  'drop-view-index': {
    ...OF_VIEW,
    removes: ({ live, index }) => [{ kind: 'index', table: objectKey(live), label: index.label }],
  },
  'rename-view-index': OF_VIEW,
  // A deferred policy may still read it.
  'drop-view': {
    requires: () => ['cutover'],
    removes: removedView,
    alters: ({ live }) => alteredView(live, `views.${live.name}`),
    holds: ({ live }) => [live.definition],
  },
} satisfies Partial<TraitsByKind>;

type ViewChange = Extract<Change, { readonly view: DesiredView }>;

function viewName({ view }: ViewChange): readonly ObjectKey[] {
  return [`name ${view.name}`];
}

function viewKeys({ view, live }: ViewChange): readonly ObjectKey[] {
  return [
    `name ${view.name}`,
    ...wordKeys('name', view.normal?.definition, live?.definition),
    ...(view.normal?.reads ?? []).map((key): ObjectKey => `table ${key}`),
  ];
}

function removedView({ live }: { readonly live: LiveView }): readonly RemovedObject[] {
  return [{ kind: 'view', table: objectKey(live), label: '' }];
}

function alteredView({ oid }: LiveView, at: string): AlteredObject {
  return { class: 'pg_class', oid, number: null, at, goes: false };
}
