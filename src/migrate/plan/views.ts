// Views as statements: made from the server's print of their query, with their grants and comments.
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { isTransient } from '../schema/label.ts';
import { keyOf, nameOf } from '../schema/model.ts';
import {
  createViewSql,
  type DesiredView,
  grantsOf,
  grantViewSql,
  inOrder,
  type LiveView,
  PUBLIC_GRANTEE,
} from '../schema/views.ts';
import { createMaterialized, fillBeside, takePlace } from './materialized.ts';
import type { ChangeOf, Planners, StepList } from './step-list.ts';
import type { Hazard } from './step.ts';

export const VIEWS = {
  'create-view': (steps, change) => createView(steps, change),
  'recreate-view': (steps, change) => createView(steps, change),
  'replace-view': (steps, { view, live }) => {
    const isNarrowed = live.definer && !view.model.definer;
    const isWidened = !live.definer && view.model.definer;
    const hazards: Hazard[] = [];
    if (isNarrowed) hazards.push('AUTHZ_NARROW');
    if (isWidened) hazards.push('AUTHZ_CHANGE');
    steps.add({
      ...onView(view),
      sql: createViewSql(view, view.normal?.definition ?? '', true),
      stage: 'views',
      sign: '~',
      summary: `view ${view.name}${secondsOf(view, live)}`,
      hazards,
    });
  },
  'grant-view': (steps, { view, live }) => grantView(steps, view, live, '~'),
  'comment-view': (steps, { view }) => commentView(steps, view),
  // All views that go are dropped by one statement.
  'drop-view': () => {},
} satisfies Partial<Planners>;

/** They may read each other. One statement drops them all, unless they are of two kinds. */
export function dropViews(steps: StepList, changes: readonly Change[]): void {
  const gone = changes.flatMap((change) =>
    change.kind === 'recreate-view' || change.kind === 'drop-view' ? [change] : [],
  );
  const [first] = gone;
  if (!first) return;
  const views = gone.map(({ live }) => live);
  steps.add({
    identity: first.kind === 'drop-view' ? `views.${first.live.name}` : first.view.at,
    sql: views.some(({ materialized }) => materialized)
      ? readersFirst(views)
          .map((live) => `drop ${live.materialized ? 'materialized ' : ''}view ${nameOf(live)}`)
          .join('; ')
      : `drop view ${views.map(nameOf).join(', ')}`,
    stage: 'drop-views',
    sign: '-',
    summary: gone
      .map(({ kind, live }) => `view ${live.name}${kind === 'drop-view' ? '' : ' (made again)'}`)
      .join(', '),
    hazards: gone.some(({ kind, live }) => kind === 'drop-view' && !isTransient(live.name))
      ? ['BREAKS_OLD_CODE']
      : [],
  });
}

/** No statement drops both kinds. */
function readersFirst(views: readonly LiveView[]): LiveView[] {
  const byKey = new Map(views.map((view) => [keyOf(view), view]));
  return inOrder(views, ({ reads }) => reads.flatMap((key) => byKey.get(key) ?? [])).reverse();
}

/** `ms`: how long it takes to fill a materialized one, where that is long. */
export function createView(
  steps: StepList,
  { view, live }: ChangeOf<'create-view' | 'recreate-view'>,
  { ms, isSwapped }: { ms: number | null; isSwapped: boolean } = { ms: null, isSwapped: false },
): void {
  const kept = Object.entries(live?.columnComments ?? {}).filter(([column]) =>
    view.normal?.columns.some(({ name }) => name === column),
  );
  const comments = kept.map(
    ([column, text]) => `comment on column ${nameOf(view)}.${quoteIdent(column)} is ${quoteLiteral(text)}`,
  );
  if (isSwapped && ms !== null) {
    fillBeside(steps, view, ms);
    takePlace(steps, view, comments);
  } else if (view.model.materialized) {
    // One that is dropped first cannot be read until it is filled.
    createMaterialized(steps, view, { live, comments, ms: live ? null : ms });
  } else {
    steps.add({
      ...onView(view),
      sql: [createViewSql(view, view.normal?.definition ?? ''), ...comments].join('; '),
      stage: 'views',
      sign: live ? '~' : '+',
      summary: `view ${view.name} (${(view.normal?.columns ?? []).map(({ name }) => name).join(', ')})${secondsOf(view, live)}`,
    });
  }
  grantView(steps, view, live, live ? '~' : '+');
  if (view.model.comment !== undefined) commentView(steps, view);
}

function secondsOf({ model }: DesiredView, live: LiveView | null): string {
  if (model.definer) return ', with the owner’s rights';
  return live?.definer ? ', with the callers’ rights from now on' : '';
}

/** Of other roles, what they had is put back. */
function grantView(steps: StepList, view: DesiredView, live: LiveView | null, sign: '+' | '~'): void {
  const name = nameOf(view);
  const wanted = grantsOf(view.model);
  const others = Object.entries(live?.grants ?? {}).filter(
    ([role]) => !wanted.has(role) && role !== PUBLIC_GRANTEE,
  );
  const grants = [[PUBLIC_GRANTEE, []] as const, ...wanted, ...others];
  steps.add({
    ...onView(view),
    sql: grants.map(([role, privileges]) => grantViewSql(name, role, privileges)).join('; '),
    stage: 'grants',
    sign,
    summary: `view ${view.name}: grants`,
    hazards: sign === '~' ? ['AUTHZ_CHANGE'] : [],
  });
}

function commentView(steps: StepList, view: DesiredView): void {
  const { comment } = view.model;
  steps.add({
    ...onView(view),
    sql: `comment on ${view.model.materialized ? 'materialized ' : ''}view ${nameOf(view)} is ${comment === undefined ? 'null' : quoteLiteral(comment)}`,
    stage: 'grants',
    sign: '~',
    summary: `view ${view.name}: comment`,
  });
}

function onView(view: DesiredView): { identity: string } {
  return { identity: view.at };
}
