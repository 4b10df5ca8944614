// Materialized views as statements. Filling one takes as long as its query. Where that is long, a new one stays empty until
// it is filled after the one transaction, and a changed one is filled beside the old one, whose place it takes at the end.
import { quoteIdent } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import type { Desired } from '../schema/desired.ts';
import type { Live } from '../schema/live/live-schema.ts';
import { keyOf, nameOf } from '../schema/model.ts';
import { describeIndex } from '../schema/sql/index-sql.ts';
import { wordsOf } from '../../lib/sql/sql-text.ts';
import {
  besideOf,
  createMaterializedSql,
  createViewIndexSql,
  type DesiredView,
  indexBeside,
  type LiveView,
} from '../schema/views.ts';
import {
  BUILD_ROWS_PER_MS,
  type ChangeOf,
  estimateRows,
  type Planners,
  type PlanSettings,
  type StepList,
} from './step-list.ts';

/** How long filling takes, in milliseconds, where that is longer than anybody may be held. */
export type LongFillings = ReadonlyMap<Change, number>;

const BYTES_PER_ROW = 100;

export function longFillings(
  changes: readonly Change[],
  desired: Desired,
  live: Live,
  { direct, maxWriteBlockMs }: PlanSettings,
): LongFillings {
  const views = new Map(desired.views.map((view) => [keyOf(view), view.normal?.reads ?? []]));
  const readsOf = (key: string): readonly string[] => views.get(key) ?? live.views.get(key)?.reads ?? [];
  const long = new Map<Change, number>();
  for (const change of changes) {
    if (direct || (change.kind !== 'create-view' && change.kind !== 'recreate-view')) continue;
    if (change.view.model.materialized !== true) continue;
    const stored = change.live?.materialized ? change.live.bytes / BYTES_PER_ROW : 0;
    const ms = (stored + rowsBehind(keyOf(change.view), readsOf, live)) / BUILD_ROWS_PER_MS;
    if (ms > maxWriteBlockMs) long.set(change, ms);
  }
  return long;
}

/** Of all tables that it reads, through other views, too. */
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
 * Those that are filled beside what they replace. Where a column that the new query reads changes its type, the query is
 * about what is there only after that change.
 */
export function swappedViews(
  long: LongFillings,
  changes: readonly Change[],
  desired: Desired,
): ReadonlySet<Change> {
  const views = new Map(desired.views.map((view) => [keyOf(view), view]));
  const retyped = new Map<string, string[]>();
  for (const change of changes) {
    if (change.kind !== 'change-type') continue;
    const key = keyOf(change.table);
    retyped.set(key, [...(retyped.get(key) ?? []), change.column.name]);
  }
  const readsRetyped = ({ normal }: DesiredView): boolean => {
    const words = wordsOf(normal?.definition ?? '');
    return (normal?.reads ?? []).some((key) => {
      const view = views.get(key);
      return view ? readsRetyped(view) : (retyped.get(key) ?? []).some((column) => words.has(column));
    });
  };
  return new Set(
    [...long.keys()].filter(
      (change) => change.kind === 'recreate-view' && !change.isForced && !readsRetyped(change.view),
    ),
  );
}

export const MATERIALIZED = {
  'refresh-view': (steps, { view }) => refresh(steps, view),
  'add-view-index': addIndex,
  'drop-view-index': (steps, { view, index }) =>
    steps.add({
      identity: view.at,
      sql: `drop index ${nameOf({ schema: view.schema, name: index.label })}`,
      stage: 'drop-dependants',
      sign: '-',
      summary: `view ${view.name}: index ${index.label}`,
      hazards: ['INDEX_DROPPED'],
    }),
  'rename-view-index': (steps, { view, index, label }) =>
    steps.add({
      identity: view.at,
      sql: `alter index ${nameOf({ schema: view.schema, name: index.label })} rename to ${quoteIdent(label)}`,
      stage: 'rename-indexes',
      sign: '~',
      summary: `view ${view.name}: index ${index.label} → ${label}`,
    }),
} satisfies Partial<Planners>;

function refresh(steps: StepList, view: DesiredView): void {
  steps.add({
    identity: view.at,
    sql: `refresh materialized view ${nameOf(view)}`,
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

/** `ms`: where it is filled only later, how long that takes. What an earlier run filled beside it goes. */
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

/** Its part before the cutover; the old one goes by the statement that drops all. */
export function fillBeside(steps: StepList, view: DesiredView, ms: number): void {
  const beside = besideOf(view);
  steps.add({
    identity: view.at,
    sql: [
      dropBeside(view),
      createMaterializedSql(view, beside, true),
      ...view.indexes.map((index) => createViewIndexSql(view, index, beside, indexBeside(view, index.label))),
    ].join('; '),
    lane: 'shadow',
    stage: 'views',
    sign: '~',
    summary: `materialized view ${view.name} (${columnsOf(view)}): fill beside the old one`,
    estimateMs: ms,
    hazards: view.indexes.some(({ unique }) => unique) ? ['DATA_DEPENDENT'] : [],
  });
}

/** Part of the cutover, after the old one is gone. */
export function takePlace(steps: StepList, view: DesiredView, comments: readonly string[]): void {
  const { schema } = view;
  steps.add({
    identity: view.at,
    sql: [
      `alter materialized view ${nameOf({ schema, name: besideOf(view) })} rename to ${quoteIdent(view.name)}`,
      ...view.indexes.map(
        ({ label }) =>
          `alter index ${nameOf({ schema, name: indexBeside(view, label) })} rename to ${quoteIdent(label)}`,
      ),
      ...comments,
    ].join('; '),
    stage: 'views',
    sign: '~',
    summary: `materialized view ${view.name}: the new one takes the place of the old one`,
  });
}

function dropBeside(view: DesiredView): string {
  return `drop materialized view if exists ${nameOf({ schema: view.schema, name: besideOf(view) })}`;
}

function columnsOf(view: DesiredView): string {
  return (view.normal?.columns ?? []).map(({ name }) => name).join(', ');
}
