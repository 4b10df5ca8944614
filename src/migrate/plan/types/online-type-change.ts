// A type change of a large table without a long lock: a shadow column of the new type, a trigger that keeps it up to date,
// a backfill in batches, indexes built concurrently, and one short transaction, the cutover, that puts it in place of the
// old column. Everything before the cutover is found again in the catalog, so a new start continues there.
import { groupBy } from '../../../lib/group-by.ts';
import type { Queryable } from '../../../postgres/owner-database.ts';
import { quoteIdent, quoteLiteral, raw } from '../../../postgres/sql.ts';
import type { Change, TypeChange } from '../../diff/change.ts';
import type { LiveTable } from '../../schema/live/live-schema.ts';
import { typeOf } from '../../schema/sql/column-sql.ts';
import { isTransient, transientLabel } from '../../schema/label.ts';
import { keyOf, nameOf } from '../../schema/model.ts';
import { copyTrigger, isPlain, readColumnFacts, type ColumnFacts } from './type-change.ts';
import {
  BUILD_ROWS_PER_MS,
  isSmall,
  onColumn,
  REWRITE_ROWS_PER_MS,
  SCAN_ROWS_PER_MS,
  type PlanSettings,
  type StepList,
  usingOf,
} from '../step-list.ts';
import { type HazardPolicy, isAllowed } from '../hazard-policy.ts';
import { deferredChanges } from '../deferred.ts';

export type OnlineTypeChange = {
  readonly change: TypeChange & { readonly live: LiveTable };
  /** The name of the new column until the cutover. */
  readonly shadowColumn: string;
  /** The check that proves every row has its value. */
  readonly proof: string;
  readonly facts: ColumnFacts;
};

export type OnlineTypeChanges = {
  /** By `tables.todos.fields.title`. */
  readonly columns: ReadonlyMap<string, OnlineTypeChange>;
  /** Type changes that cannot be made online, and why. */
  readonly inTheWay: ReadonlyMap<string, readonly string[]>;
  readonly deferred: ReadonlySet<Change>;
  /** Materialized views that take the place of others in the cutover. */
  readonly swapped: ReadonlySet<Change>;
  /** Shadow columns that no type change of this file needs any more. */
  readonly leftovers: ReadonlyArray<{ readonly live: LiveTable; readonly column: string }>;
};

export async function chooseOnline(
  session: Queryable,
  changes: readonly Change[],
  tables: ReadonlyMap<string, LiveTable>,
  rewriting: ReadonlySet<string>,
  settings: PlanSettings & HazardPolicy,
  mayQuiet: boolean,
  swapped: ReadonlySet<Change>,
): Promise<OnlineTypeChanges> {
  const columns = new Map<string, OnlineTypeChange>();
  const inTheWay = new Map<string, readonly string[]>();
  for (const change of changes) {
    if (change.kind !== 'change-type' || change.live === null || !rewriting.has(change.column.at)) continue;
    const { live, column } = change;
    if (isSmall(live, REWRITE_ROWS_PER_MS, settings) || isAllowed(settings, 'rewrite', column.at)) continue;
    const identity = JSON.stringify([column.at, typeOf(column), column.model.using, valueOfNulls(change)]);
    const shadowColumn = transientLabel('n', identity);
    const proof = transientLabel('ng', identity);
    const large = { ...change, live };
    const facts = await readColumnFacts(session, large, changes, { column: shadowColumn, proof }, mayQuiet);
    if (facts.inTheWay.length > 0) inTheWay.set(column.at, facts.inTheWay);
    else columns.set(column.at, { change: large, shadowColumn, proof, facts });
  }
  const wanted = new Set([...columns.values()].map((one) => one.shadowColumn));
  return {
    columns,
    inTheWay,
    deferred: deferredChanges(
      changes,
      new Set([...columns.values()].map(({ change }) => `${keyOf(change.table)}.${change.column.name}`)),
      swapped,
    ),
    swapped,
    leftovers: [...tables.values()].flatMap((live) =>
      [...live.columns.keys()]
        .filter((column) => isTransient(column) && !wanted.has(column))
        .map((column) => ({ live, column })),
    ),
  };
}

/** What rows without a value get when the same run makes the column required. */
function valueOfNulls({ column, liveColumn }: TypeChange): string | null {
  return column.notNull && !liveColumn.notNull ? column.model.backfill : null;
}

export function planOnlineTypeChanges(steps: StepList, online: OnlineTypeChanges): void {
  for (const { live, column } of online.leftovers) dropLeftover(steps, live, column);
  for (const group of groupBy(online.columns.values(), (one) => keyOf(one.change.table)).values()) {
    for (const one of group) {
      addShadowColumn(steps, one);
      backfillShadow(steps, one);
      cutover(steps, one);
    }
    moveKeys(steps, group, online.deferred);
  }
}

function dropLeftover(steps: StepList, live: LiveTable, column: string): void {
  steps.add({
    identity: `tables.${live.name}`,
    table: keyOf(live),
    sql: [
      `drop trigger if exists ${quoteIdent(copyTrigger(column))} on ${nameOf(live)}`,
      `drop function if exists ${functionName(column)}()`,
      `alter table ${nameOf(live)} drop column ${quoteIdent(column)}`,
    ].join('; '),
    stage: 'drop-dependants',
    sign: '-',
    summary: `column ${column} of a type change that is no longer wanted`,
  });
}

function functionName(shadowColumn: string): string {
  return `svc_meta.${quoteIdent(shadowColumn)}`;
}

function addShadowColumn(steps: StepList, one: OnlineTypeChange): void {
  if (one.facts.begun) return;
  const { change, shadowColumn } = one;
  const { table, column, liveColumn } = change;
  const name = nameOf(table);
  const row = `from (select new.*) as ${quoteIdent(table.name)}`;
  const target = `new.${quoteIdent(shadowColumn)}`;
  const using = usingOf(steps, column);
  const copy =
    using === null
      ? `${target} := new.${quoteIdent(column.name)};`
      : `${target} := (select (\n${using}\n) ${row});`;
  const nulls = valueOfNulls(change);
  const whenNull =
    nulls === null ? '' : ` if ${target} is null then ${target} := (select (\n${nulls}\n) ${row}); end if;`;
  const body = `#variable_conflict use_column\nbegin ${copy}${whenNull} return new; end`;
  const trigger = quoteIdent(copyTrigger(shadowColumn));
  steps.add({
    ...onColumn(table, column),
    sql: [
      `alter table ${name} add column ${quoteIdent(shadowColumn)} ${typeOf(column)}`,
      // A writer in another time zone must get the same cast as the backfill.
      `create or replace function ${functionName(shadowColumn)}() returns trigger language plpgsql security definer set search_path = ${steps.facts.searchPath} set timezone = 'UTC' as ${quoteLiteral(body)}`,
      `revoke all on function ${functionName(shadowColumn)}() from public`,
      `create trigger ${trigger} before insert or update on ${name} for each row execute function ${functionName(shadowColumn)}()`,
      // It must also fire for rows that replication or the backfill writes.
      `alter table ${name} enable always trigger ${trigger}`,
      `alter table ${name} add constraint ${quoteIdent(one.proof)} check (${proofOf(one)}) not valid`,
    ].join('; '),
    lane: 'shadow',
    stage: 'columns',
    sign: '~',
    summary: `column ${column.name} ${liveColumn.type} → ${column.type}: a new column beside, kept in step`,
    hazards: ['NON_TX'],
  });
}

function proofOf({ change, shadowColumn }: OnlineTypeChange): string {
  const filled = `${quoteIdent(shadowColumn)} is not null`;
  const { name, notNull, model } = change.column;
  return notNull ? filled : `${filled} or (\n${model.using ?? quoteIdent(name)}\n) is null`;
}

function backfillShadow(steps: StepList, one: OnlineTypeChange): void {
  if (one.facts.proven) return;
  const { change, shadowColumn } = one;
  const { table, live, column } = change;
  const name = quoteIdent(shadowColumn);
  const base = { ...onColumn(table, column), lane: 'shadow', sign: '~' } as const;
  const everyRow = column.model.using !== null || valueOfNulls(change) !== null;
  const where = everyRow ? undefined : `${quoteIdent(column.name)} is not null`;
  steps.add({
    ...base,
    // The trigger computes the value, so an update that changes nothing is enough.
    sql: `update ${nameOf(table)} set ${name} = ${name} where ${name} is null${where === undefined ? '' : ` and ${where}`}`,
    stage: 'backfill',
    summary: `column ${column.name}: fill the new column in batches`,
    lock: 'RowExclusive',
    scans: true,
    estimateMs: steps.estimate(live, REWRITE_ROWS_PER_MS),
    hazards: ['DATA_DEPENDENT', 'NON_TX'],
    action: {
      kind: 'backfill',
      schema: table.schema,
      table: table.name,
      column: shadowColumn,
      value: name,
      where,
      quiet: steps.facts.mayQuiet,
      isCopy: true,
    },
  });
  steps.add({
    ...base,
    sql: `alter table ${nameOf(table)} validate constraint ${quoteIdent(one.proof)}`,
    stage: 'not-null',
    summary: `column ${column.name}: prove that every row has its new value`,
    lock: 'ShareUpdateExclusive',
    scans: true,
    estimateMs: steps.estimate(live, SCAN_ROWS_PER_MS),
    hazards: ['DATA_DEPENDENT', 'NON_TX'],
  });
}

function cutover(steps: StepList, one: OnlineTypeChange): void {
  const { change, shadowColumn, facts } = one;
  const { table, column, liveColumn } = change;
  const name = nameOf(table);
  const former = quoteIdent(column.name);
  const temporary = quoteIdent(shadowColumn);
  const statements = [
    // Without the proof, the old column stays, whatever happened before.
    `do ${quoteLiteral(`begin if not exists (select from pg_constraint where conrelid = ${quoteLiteral(name)}::regclass and conname = ${quoteLiteral(one.proof)} and convalidated) then raise exception 'not every row has its new value yet'; end if; end`)}`,
    `drop trigger ${quoteIdent(copyTrigger(shadowColumn))} on ${name}`,
    `drop function ${functionName(shadowColumn)}()`,
    ...(column.notNull ? [`alter table ${name} alter column ${temporary} set not null`] : []),
    `alter table ${name} drop constraint ${quoteIdent(one.proof)}`,
    ...moveSequence(one),
    `alter table ${name} drop column ${former}`,
    `alter table ${name} rename column ${temporary} to ${former}`,
    ...facts.restore,
  ];
  steps.whileDeferred(() =>
    steps.add({
      ...onColumn(table, column),
      sql: statements.join('; '),
      stage: 'types',
      sign: '~',
      summary: `column ${column.name} ${liveColumn.type} → ${column.type}: put the new column in place`,
      hazards: ['DATA_DEPENDENT'],
    }),
  );
}

/** The sequence continues where it was. */
function moveSequence({ change, shadowColumn, facts }: OnlineTypeChange): string[] {
  const { table, column, liveColumn } = change;
  if (!column.serial || !liveColumn.serial) return [];
  const name = nameOf(table);
  const temporary = quoteIdent(shadowColumn);
  if (facts.identity) {
    const { identity } = facts;
    const former = `${quoteIdent(identity.schema)}.${quoteIdent(identity.sequence)}`;
    const aside = transientLabel('o', shadowColumn);
    return [
      `alter sequence ${former} rename to ${quoteIdent(aside)}`,
      `alter table ${name} alter column ${temporary} add generated ${identity.kind} as identity (${identity.options})`,
      `select setval(${quoteLiteral(former)}, last_value, is_called) from ${quoteIdent(identity.schema)}.${quoteIdent(aside)}`,
    ];
  }
  const sequence = liveColumn.sequence ?? '';
  return [
    `alter sequence ${sequence} owned by ${name}.${temporary}`,
    `alter sequence ${sequence} as ${column.typeSql}`,
    `alter table ${name} alter column ${temporary} set default nextval(${quoteLiteral(sequence)}::regclass)`,
  ];
}

/** Keys and plain indexes on the columns: built on the shadow columns, renamed in the cutover. */
function moveKeys(
  steps: StepList,
  group: readonly [OnlineTypeChange, ...OnlineTypeChange[]],
  deferred: ReadonlySet<Change>,
): void {
  const { table, live } = group[0].change;
  const shadows = new Map(group.map((one) => [one.change.column.name, one.shadowColumn]));
  const gone = new Set(
    [...deferred].flatMap((change) => {
      if (!('table' in change) || keyOf(change.table) !== keyOf(table)) return [];
      if (change.kind === 'drop-key') return [change.key.label];
      return change.kind === 'drop-index' ? [change.index.label] : [];
    }),
  );
  const kept = [
    ...live.keys.map((key) => ({ ...key, unique: true, key: key.kind as string | null })),
    ...live.indexes.filter(isPlain).map((index) => ({ ...index, key: null })),
  ].filter((one) => one.columns.some((column) => shadows.has(column)) && !gone.has(one.label));
  for (const one of kept) {
    const label = transientLabel('i', JSON.stringify([one.label, ...shadows.values()]));
    const columns = one.columns.map((column) => quoteIdent(shadows.get(column) ?? column));
    const what = one.key === null ? `index ${one.label}` : `${one.key} key (${one.columns.join(', ')})`;
    const base = { identity: table.at, table: keyOf(table), sign: '~' } as const;
    steps.add({
      ...base,
      sql: `create ${one.unique ? 'unique ' : ''}index concurrently ${quoteIdent(label)} on ${nameOf(table)} (${columns.join(', ')})`,
      lane: 'shadow',
      stage: 'indexes',
      summary: `${what}: build for the new type`,
      lock: 'ShareUpdateExclusive',
      scans: true,
      estimateMs: steps.estimate(live, BUILD_ROWS_PER_MS),
      hazards: ['INDEX_BUILD', 'NON_TX'],
      action: { kind: 'build-index', schema: table.schema, label },
    });
    const words = one.key === 'primary' ? 'primary key' : 'unique';
    const index = `${quoteIdent(table.schema)}.${quoteIdent(label)}`;
    // An index keeps the column names of the time when it was built.
    const renames = one.columns.flatMap((column) => {
      const built = shadows.get(column);
      if (built === undefined) return [];
      return [`alter table ${index} rename column ${quoteIdent(built)} to ${quoteIdent(column)}`];
    });
    steps.whileDeferred(() =>
      steps.add({
        ...base,
        sql: [
          ...renames,
          one.key === null
            ? `alter index ${index} rename to ${quoteIdent(one.label)}`
            : `alter table ${nameOf(table)} add constraint ${quoteIdent(one.label)} ${words} using index ${quoteIdent(label)}`,
        ].join('; '),
        stage: 'types',
        summary: `${what}: put in place`,
      }),
    );
  }
}

/** Whether this role may keep triggers quiet during a backfill. */
export async function readMayQuiet(session: Queryable): Promise<boolean> {
  const [row] = await session.query<{ may: boolean }>(
    raw(`select has_parameter_privilege('session_replication_role', 'set') as may`),
  );
  return row?.may ?? false;
}
