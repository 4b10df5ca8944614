// Statements for materialized views. Filling a view takes as long as its query. If that is long, a new view is filled
// after the transaction. A changed view is filled as a shadow view, which replaces the old view in the cutover.
import { quoteIdent } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { type ChangeOf, ofKind } from '../diff/change-kinds.ts';
import type { Desired } from '../schema/desired.ts';
import type { Live } from '../schema/live/live-schema.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import { describeIndex } from '../schema/sql/index-sql.ts';
import { sqlWords } from '../../lib/sql/sql-text.ts';
import {
  shadowViewName,
  createMaterializedSql,
  createViewIndexSql,
  type DesiredView,
  shadowIndexName,
  type LiveView,
} from '../schema/views.ts';
import {
  BUILD_ROWS_PER_MS,
  estimateRows,
  type Planners,
  type PlanSettings,
  type StepList,
} from './step-list.ts';

/** Milliseconds that it takes to fill a view, for views that take longer than the allowed block. */
export type LongFillings = ReadonlyMap<Change, number>;

const BYTES_PER_ROW = 100;

export function longFillings(
  changes: readonly Change[],
  desired: Desired,
  live: Live,
  { direct, maxWriteBlockMs }: PlanSettings,
): LongFillings {
  const views = new Map(desired.views.map((view) => [objectKey(view), view.normal?.reads ?? []]));
  const readsOf = (key: string): readonly string[] => views.get(key) ?? live.views.get(key)?.reads ?? [];
  const long = new Map<Change, number>();
  for (const change of ofKind(changes, 'create-view', 'recreate-view')) {
    if (direct) continue;
    if (change.view.model.materialized !== true) continue;
    const stored = change.live?.materialized ? change.live.bytes / BYTES_PER_ROW : 0;
    const ms = (stored + rowsBehind(objectKey(change.view), readsOf, live)) / BUILD_ROWS_PER_MS;
    if (ms > maxWriteBlockMs) long.set(change, ms);
  }
  return long;
}

/** Returns the estimated rows of all tables that a relation reads, directly or through views. */
function rowsBehind(key: string, readsOf: (key: string) => readonly string[], live: Live): number {
  const seen = new Set<string>();
  const visit = (at: string): number => {
    if (seen.has(at)) return 0;
    seen.add(at);
    const table = live.tables.get(at);
    const own = table ? estimateRows(table) : (live.views.get(at)?.bytes ?? 0) / BYTES_PER_ROW;
    return readsOf(at).reduce((sum, read) => sum + visit(read), own);
  };
  return visit(key);
}

/**
 * Returns the views that are filled as shadow views. This is impossible if the query reads a column whose type changes,
 * because the query is valid only after that change.
 */
export function swappedViews(
  long: LongFillings,
  changes: readonly Change[],
  desired: Desired,
): ReadonlySet<Change> {
  const views = new Map(desired.views.map((view) => [objectKey(view), view]));
  const retyped = new Map<string, string[]>();
  for (const { table, column } of ofKind(changes, 'change-type')) {
    const key = objectKey(table);
    retyped.set(key, [...(retyped.get(key) ?? []), column.name]);
  }
  const readsRetyped = ({ normal }: DesiredView): boolean => {
    const words = sqlWords(normal?.definition ?? '');
    return (normal?.reads ?? []).some((key) => {
      const view = views.get(key);
      return view ? readsRetyped(view) : (retyped.get(key) ?? []).some((column) => words.has(column));
    });
  };
  return new Set(
    ofKind([...long.keys()], 'recreate-view').filter(
      ({ isForced, view }) => !isForced && !readsRetyped(view),
    ),
  );
}

export const MATERIALIZED = {
  'refresh-view': (steps, { view }) => refresh(steps, view),
  'add-view-index': addIndex,
  'drop-view-index': (steps, { view, index }) =>
    steps.add({
      identity: view.at,
      sql: `drop index ${quoteName({ schema: view.schema, name: index.label })}`,
      stage: 'drop-dependants',
      sign: '-',
      summary: `view ${view.name}: index ${index.label}`,
      hazards: ['INDEX_DROPPED'],
    }),
  'rename-view-index': (steps, { view, index, label }) =>
    steps.add({
      identity: view.at,
      sql: `alter index ${quoteName({ schema: view.schema, name: index.label })} rename to ${quoteIdent(label)}`,
      stage: 'rename-indexes',
      sign: '~',
      summary: `view ${view.name}: index ${index.label} → ${label}`,
    }),
} satisfies Partial<Planners>;

function refresh(steps: StepList, view: DesiredView): void {
  steps.add({
    identity: view.at,
    sql: `refresh materialized view ${quoteName(view)}`,
    lane: 'online',
    stage: 'views',
    sign: '~',
    summary: `view ${view.name}: fill`,
  });
}

function addIndex(steps: StepList, { view, live, index }: ChangeOf<'add-view-index'>): void {
  const ms = live.bytes / BYTES_PER_ROW / BUILD_ROWS_PER_MS;
  const sql = createViewIndexSql(view, index, view.name, index.label);
  const base = {
    identity: index.at,
    stage: 'indexes',
    summary: `view ${view.name}: ${index.unique ? 'unique ' : ''}index ${describeIndex(index.model)}`,
    estimateMs: ms,
  } as const;
  const hazards = [...(index.unique ? (['DATA_DEPENDENT'] as const) : []), 'INDEX_BUILD'] as const;
  if (steps.isBrief(ms)) return steps.add({ ...base, sql, hazards });
  steps.add({
    ...base,
    sql: sql.replace(/\bindex /, 'index concurrently '),
    lane: 'concurrent',
    hazards: [...hazards, 'NON_TX'],
    action: { kind: 'build-index', schema: view.schema, label: index.label },
  });
}

/** Drops the shadow view of an earlier run. `ms`: duration of the fill, or null to fill the view at once. */
export function createMaterialized(
  steps: StepList,
  view: DesiredView,
  { live, comments, ms }: { live: LiveView | null; comments: readonly string[]; ms: number | null },
): void {
  steps.add({
    identity: view.at,
    sql: [
      ...(live ? [dropBeside(view)] : []),
      createMaterializedSql(view, view.name, ms === null),
      ...view.indexes.map((index) => createViewIndexSql(view, index, view.name, index.label)),
      ...comments,
    ].join('; '),
    stage: 'views',
    sign: live ? '~' : '+',
    summary: `materialized view ${view.name} (${columnsOf(view)})`,
    hazards: view.indexes.some(({ unique }) => unique) ? ['DATA_DEPENDENT'] : [],
  });
  if (ms !== null) refresh(steps, view);
}

/** Fills the shadow view before the cutover. */
export function fillShadowView(steps: StepList, view: DesiredView, ms: number): void {
  const beside = shadowViewName(view);
  steps.add({
    identity: view.at,
    sql: [
      dropBeside(view),
      createMaterializedSql(view, beside, true),
      ...view.indexes.map((index) =>
        createViewIndexSql(view, index, beside, shadowIndexName(view, index.label)),
      ),
    ].join('; '),
    lane: 'shadow',
    stage: 'views',
    sign: '~',
    summary: `materialized view ${view.name} (${columnsOf(view)}): fill a shadow view`,
    estimateMs: ms,
    hazards: view.indexes.some(({ unique }) => unique) ? ['DATA_DEPENDENT'] : [],
  });
}

/** Renames the shadow view into place in the cutover, after the old view is dropped. */
export function cutOverView(steps: StepList, view: DesiredView, comments: readonly string[]): void {
  const { schema } = view;
  steps.add({
    identity: view.at,
    sql: [
      `alter materialized view ${quoteName({ schema, name: shadowViewName(view) })} rename to ${quoteIdent(view.name)}`,
      ...view.indexes.map(
        ({ label }) =>
          `alter index ${quoteName({ schema, name: shadowIndexName(view, label) })} rename to ${quoteIdent(label)}`,
      ),
      ...comments,
    ].join('; '),
    stage: 'views',
    sign: '~',
    summary: `materialized view ${view.name}: replace by the shadow view`,
  });
}

function dropBeside(view: DesiredView): string {
  return `drop materialized view if exists ${quoteName({ schema: view.schema, name: shadowViewName(view) })}`;
}

function columnsOf(view: DesiredView): string {
  return (view.normal?.columns ?? []).map(({ name }) => name).join(', ');
}
