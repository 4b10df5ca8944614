// Changes the type of a column of a large table without a long lock. A trigger updates a shadow column of the new
// type, a backfill fills it in batches, indexes are built concurrently, and a short transaction, the cutover,
// replaces the old column. The catalog shows all work before the cutover, so a new start continues it.
import { groupBy } from '../../../lib/group-by.ts';
import type { Queryable } from '../../../postgres/owner-database.ts';
import { quoteIdent, quoteLiteral, raw } from '../../../postgres/sql.ts';
import { waitingChanges } from '../../change/graph.ts';
import { removes } from '../../change/traits.ts';
import type { Change, TypeChange } from '../../diff/change.ts';
import { ofKind } from '../../diff/change-kinds.ts';
import type { LiveTable } from '../../schema/live/live-schema.ts';
import { columnTypeSql } from '../../schema/sql/column-sql.ts';
import { describeTypeChange, isTransient, transientLabel } from '../../schema/label.ts';
import { objectKey, quoteName } from '../../schema/model.ts';
import { copyTrigger, isPlain, readColumnFacts, type ColumnFacts } from './type-change.ts';
import {
  BUILD_ROWS_PER_MS,
  isSmall,
  onColumn,
  FILL_ROWS_PER_MS,
  REWRITE_ROWS_PER_MS,
  SCAN_ROWS_PER_MS,
  type PlanSettings,
  type StepList,
  usingOf,
} from '../step-list.ts';
import { type HazardPolicy, isAllowed } from '../hazard-policy.ts';

export type OnlineTypeChange = {
  readonly change: TypeChange & { readonly live: LiveTable };
  /** Name of the new column until the cutover. */
  readonly shadowColumn: string;
  /** Label of the check that proves that each row has its new value. */
  readonly proof: string;
  readonly facts: ColumnFacts;
};

export type OnlineTypeChanges = {
  /** Online type changes by place in the file, such as `tables.todos.fields.title`. */
  readonly columns: ReadonlyMap<string, OnlineTypeChange>;
  /** Reasons why a type change cannot run online, by place in the file. */
  readonly inTheWay: ReadonlyMap<string, readonly string[]>;
  readonly deferred: ReadonlySet<Change>;
  /** Materialized views that the cutover replaces by shadow views. */
  readonly swapped: ReadonlySet<Change>;
  /** Shadow columns of type changes that the file no longer contains. */
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
  for (const change of ofKind(changes, 'change-type')) {
    const { live, column } = change;
    if (live === null || !rewriting.has(column.at)) continue;
    if (isSmall(live, REWRITE_ROWS_PER_MS, settings) || isAllowed(settings, 'rewrite', column.at)) continue;
    const identity = JSON.stringify([
      column.at,
      columnTypeSql(column),
      column.model.using,
      valueOfNulls(change),
    ]);
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
    deferred: waitingChanges(changes, [
      ...swapped,
      ...ofKind(changes, 'change-type').filter(({ column }) => columns.has(column.at)),
    ]),
    swapped,
    leftovers: [...tables.values()].flatMap((live) =>
      [...live.columns.keys()]
        .filter((column) => isTransient(column) && !wanted.has(column))
        .map((column) => ({ live, column })),
    ),
  };
}

/** Returns the value for rows without one if the same run makes the column required. */
function valueOfNulls({ column, liveColumn }: TypeChange): string | null {
  return column.notNull && !liveColumn.notNull ? column.model.backfill : null;
}

export function planOnlineTypeChanges(steps: StepList, online: OnlineTypeChanges): void {
  for (const { live, column } of online.leftovers) dropLeftover(steps, live, column);
  for (const group of groupBy(online.columns.values(), (one) => objectKey(one.change.table)).values()) {
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
    table: objectKey(live),
    sql: [
      `drop trigger if exists ${quoteIdent(copyTrigger(column))} on ${quoteName(live)}`,
      `drop function if exists ${functionName(column)}()`,
      `alter table ${quoteName(live)} drop column ${quoteIdent(column)}`,
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
  const name = quoteName(table);
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
      `alter table ${name} add column ${quoteIdent(shadowColumn)} ${columnTypeSql(column)}`,
      // The cast must not depend on the time zone of the writer.
      `create or replace function ${functionName(shadowColumn)}() returns trigger language plpgsql security definer set search_path = ${steps.facts.searchPath} set timezone = 'UTC' as ${quoteLiteral(body)}`,
      `revoke all on function ${functionName(shadowColumn)}() from public`,
      `create trigger ${trigger} before insert or update on ${name} for each row execute function ${functionName(shadowColumn)}()`,
      // The trigger must also fire for rows that replication or the backfill writes.
      `alter table ${name} enable always trigger ${trigger}`,
      `alter table ${name} add constraint ${quoteIdent(one.proof)} check (${proofOf(one)}) not valid`,
    ].join('; '),
    lane: 'shadow',
    stage: 'columns',
    sign: '~',
    summary: `column ${column.name} ${describeTypeChange(liveColumn.type, column.type)}: add a new column and keep it up to date`,
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
    // The trigger computes the value, so the update need not change a value.
    sql: `update ${quoteName(table)} set ${name} = ${name} where ${name} is null${where === undefined ? '' : ` and ${where}`}`,
    stage: 'backfill',
    summary: `column ${column.name}: fill the new column in batches`,
    lock: 'RowExclusive',
    scans: true,
    estimateMs: steps.estimate(live, FILL_ROWS_PER_MS),
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
    sql: `alter table ${quoteName(table)} validate constraint ${quoteIdent(one.proof)}`,
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
  const name = quoteName(table);
  const former = quoteIdent(column.name);
  const temporary = quoteIdent(shadowColumn);
  const statements = [
    // Without the proof, the old column stays.
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
      summary: `column ${column.name} ${describeTypeChange(liveColumn.type, column.type)}: put the new column in place`,
      hazards: ['DATA_DEPENDENT'],
    }),
  );
}

/** Moves the sequence to the new column with its current value. */
function moveSequence({ change, shadowColumn, facts }: OnlineTypeChange): string[] {
  const { table, column, liveColumn } = change;
  if (!column.serial || !liveColumn.serial) return [];
  const name = quoteName(table);
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

/** Builds the keys and plain indexes of the columns on the shadow columns. The cutover renames them. */
function moveKeys(
  steps: StepList,
  group: readonly [OnlineTypeChange, ...OnlineTypeChange[]],
  deferred: ReadonlySet<Change>,
): void {
  const { table, live } = group[0].change;
  const shadows = new Map(group.map((one) => [one.change.column.name, one.shadowColumn]));
  const gone = new Set(
    [...deferred]
      .flatMap(removes)
      .filter((object) => object.table === objectKey(table) && ['key', 'index'].includes(object.kind))
      .map(({ label }) => label),
  );
  const kept = [
    ...live.keys.map((key) => ({ ...key, unique: true, key: key.kind as string | null })),
    ...live.indexes.filter(isPlain).map((index) => ({ ...index, key: null })),
  ].filter((one) => one.columns.some((column) => shadows.has(column)) && !gone.has(one.label));
  for (const one of kept) {
    const label = transientLabel('i', JSON.stringify([one.label, ...shadows.values()]));
    const columns = one.columns.map((column) => quoteIdent(shadows.get(column) ?? column));
    const what = one.key === null ? `index ${one.label}` : `${one.key} key (${one.columns.join(', ')})`;
    const base = { identity: table.at, table: objectKey(table), sign: '~' } as const;
    steps.add({
      ...base,
      sql: `create ${one.unique ? 'unique ' : ''}index concurrently ${quoteIdent(label)} on ${quoteName(table)} (${columns.join(', ')})`,
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
    // The columns of an index keep their names when a table column is renamed.
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
            : `alter table ${quoteName(table)} add constraint ${quoteIdent(one.label)} ${words} using index ${quoteIdent(label)}`,
        ].join('; '),
        stage: 'types',
        summary: `${what}: put in place`,
      }),
    );
  }
}

/** Returns whether this role can suppress triggers during a backfill. */
export async function readMayQuiet(session: Queryable): Promise<boolean> {
  const [row] = await session.query<{ may: boolean }>(
    raw(`select has_parameter_privilege('session_replication_role', 'set') as may`),
  );
  return row?.may ?? false;
}
