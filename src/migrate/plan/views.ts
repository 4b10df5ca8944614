// Statements for views, created from the query as the server prints it, with their grants and comments.
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { type ChangeOf, ofKind } from '../diff/change-kinds.ts';
import { isTransient } from '../schema/label.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import { describeGrants } from '../schema/rights/grants.ts';
import {
  createViewSql,
  type DesiredView,
  viewGrants,
  grantViewSql,
  sortByDependencies,
  isOpen,
  type LiveView,
  PUBLIC_GRANTEE,
} from '../schema/views.ts';
import { createMaterialized, fillShadowView, cutOverView } from './materialized.ts';
import type { Planners, StepList } from './step-list.ts';
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
  // `dropViews` drops all views with one statement.
  'drop-view': () => {},
} satisfies Partial<Planners>;

/** Drops views with one statement, because they may read each other. Materialized views need a separate statement. */
export function dropViews(steps: StepList, changes: readonly Change[]): void {
  const gone = ofKind(changes, 'recreate-view', 'drop-view');
  const [first] = gone;
  if (!first) return;
  const views = gone.map(({ live }) => live);
  steps.add({
    identity: 'view' in first ? first.view.at : `views.${first.live.name}`,
    sql: views.some(({ materialized }) => materialized)
      ? readersFirst(views)
          .map((live) => `drop ${live.materialized ? 'materialized ' : ''}view ${quoteName(live)}`)
          .join('; ')
      : `drop view ${views.map(quoteName).join(', ')}`,
    stage: 'drop-views',
    sign: '-',
    summary: gone
      .map((change) => `view ${change.live.name}${'view' in change ? ' (made again)' : ''}`)
      .join(', '),
    hazards: ofKind(changes, 'drop-view').some(({ live }) => !isTransient(live.name))
      ? ['BREAKS_OLD_CODE']
      : [],
  });
}

/** Returns the views so that each comes before the views that it reads. */
function readersFirst(views: readonly LiveView[]): LiveView[] {
  const byKey = new Map(views.map((view) => [objectKey(view), view]));
  return sortByDependencies(views, ({ reads }) => reads.flatMap((key) => byKey.get(key) ?? [])).reverse();
}

/** `ms`: duration of the fill of a materialized view, or null if it is short. */
export function createView(
  steps: StepList,
  { view, live }: ChangeOf<'create-view' | 'recreate-view'>,
  { ms, isSwapped }: { ms: number | null; isSwapped: boolean } = { ms: null, isSwapped: false },
): void {
  const kept = Object.entries(live?.columnComments ?? {}).filter(([column]) =>
    view.normal?.columns.some(({ name }) => name === column),
  );
  const comments = kept.map(
    ([column, text]) => `comment on column ${quoteName(view)}.${quoteIdent(column)} is ${quoteLiteral(text)}`,
  );
  if (isSwapped && ms !== null) {
    fillShadowView(steps, view, ms);
    cutOverView(steps, view, comments);
  } else if (view.model.materialized) {
    // A view that is dropped first must be filled at once, because readers would get errors.
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

/** Sets the grants of the API roles and restores those of other roles. */
function grantView(steps: StepList, view: DesiredView, live: LiveView | null, sign: '+' | '~'): void {
  const name = quoteName(view);
  const wanted = viewGrants(view.model);
  const others = Object.entries(live?.grants ?? {}).filter(
    ([role]) => !wanted.has(role) && role !== PUBLIC_GRANTEE,
  );
  const grants = [[PUBLIC_GRANTEE, []] as const, ...wanted, ...others];
  const opens = live === null ? [] : opensOf(view, live, wanted);
  steps.add({
    ...onView(view),
    sql: grants.map(([role, privileges]) => grantViewSql(name, role, privileges)).join('; '),
    stage: 'grants',
    sign,
    summary: `view ${view.name}: grants: ${opens.length === 0 ? describeGrants(wanted) : opens.join('; ')}`,
    hazards: opens.length > 0 ? ['AUTHZ_OPEN'] : sign === '~' ? ['AUTHZ_CHANGE'] : [],
  });
}

/**
 * Returns the privileges that API roles gain on rows without policies. Another check rejects a view with the owner's
 * rights that becomes readable.
 */
function opensOf(
  { model }: DesiredView,
  live: LiveView,
  wanted: ReadonlyMap<string, readonly string[]>,
): string[] {
  const isReadable = isOpen(new Map(Object.entries(live.grants)));
  if (!(live.materialized && model.materialized) && !(live.definer && model.definer && isReadable)) return [];
  return ['anon', 'authenticated'].flatMap((role) => {
    const had = [...(live.grants[role] ?? []), ...(live.grants[PUBLIC_GRANTEE] ?? [])];
    const gains = (wanted.get(role) ?? []).filter((one) => !had.includes(one));
    return gains.length === 0 ? [] : [`${gains.join(', ').toLowerCase()} for ${role}`];
  });
}

function commentView(steps: StepList, view: DesiredView): void {
  const { comment } = view.model;
  steps.add({
    ...onView(view),
    sql: `comment on ${view.model.materialized ? 'materialized ' : ''}view ${quoteName(view)} is ${comment === undefined ? 'null' : quoteLiteral(comment)}`,
    stage: 'grants',
    sign: '~',
    summary: `view ${view.name}: comment`,
  });
}

function onView(view: DesiredView): { identity: string } {
  return { identity: view.at };
}
