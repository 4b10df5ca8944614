// Changes into ordered statements. Small tables take the direct form; on large ones whatever would scan, build or
// rewrite under a strong lock takes the form that does not, and moves out of the blocking transaction.
import { quoteIdent, quoteLiteral } from '../postgres/sql.ts';
import type { Change, RetypeChange } from './change.ts';
import { createFunctionSql, type DesiredColumn, type DesiredTable, type DesiredFunction } from './desired.ts';
import { trackCall } from './diff.ts';
import type { LiveTable } from './facts.ts';
import { grantTablesSql } from './fold.ts';
import { referenceTriggerLabels, sequenceLabel, transientLabel } from './label.ts';
import { tableKey } from './model.ts';
import { PHASE, type Hazard, type Lane, type Lock, type Step } from './step.ts';

export type PlanSettings = {
  /** How long writers may be held, in milliseconds; what would take longer goes online. */
  readonly maxWriteBlockMs: number;
  /** Take the direct form whatever the size: `dev`, and `--direct`. */
  readonly direct: boolean;
};

/** What only the server knows about a change; asked before planning. */
export type Foresight = {
  /** Changes that would rewrite their table: keys of `columnIdentity`. */
  readonly rewriting: ReadonlySet<string>;
  readonly nonEmpty: ReadonlySet<string>;
  /** Columns that must be NOT NULL and hold nulls now, with a backfill to fill them. */
  readonly toFill: ReadonlySet<string>;
  /** Fills that an earlier run began: the value by column. */
  readonly begunFills: ReadonlyMap<string, string>;
};

// Rows a millisecond on two plain vCPUs; deliberately low, so that "small" is small everywhere.
const SCAN_ROWS_PER_MS = 5_000;
const BUILD_ROWS_PER_MS = 1_000;
const REWRITE_ROWS_PER_MS = 200;
const BYTES_PER_ROW = 100;

export function planSteps(changes: readonly Change[], foresight: Foresight, settings: PlanSettings): Step[] {
  const planner = new Planner(foresight, settings);
  for (const change of changes) planner.take(change);
  return planner.ordered();
}

export function estimateRows(live: LiveTable): number {
  // -1 is "never analysed"; the file size then bounds what can be in it.
  return live.estimatedRows >= 0
    ? Math.max(live.estimatedRows, live.bytes / 1_000)
    : live.bytes / BYTES_PER_ROW;
}

type Draft = {
  readonly sql: string;
  readonly phase: number;
  readonly identity: string;
  readonly at?: string | undefined;
  readonly sign?: Step['sign'] | undefined;
  readonly summary: string;
  readonly table?: string | null | undefined;
  readonly lane?: Lane | undefined;
  readonly lock?: Lock | undefined;
  readonly rewrites?: boolean | undefined;
  readonly scans?: boolean | undefined;
  readonly estimateMs?: number | undefined;
  readonly hazards?: readonly Hazard[] | undefined;
  readonly action?: Step['action'] | undefined;
  readonly part?: Step['part'];
};

const LANES: readonly Lane[] = ['metadata', 'online', 'concurrent', 'background'];

class Planner {
  readonly #steps: Step[] = [];
  readonly #foresight: Foresight;
  readonly #settings: PlanSettings;

  constructor(foresight: Foresight, settings: PlanSettings) {
    this.#foresight = foresight;
    this.#settings = settings;
  }

  ordered(): Step[] {
    return this.#steps
      .map((step, index) => ({ step, index }))
      .sort(
        (a, b) =>
          LANES.indexOf(a.step.lane) - LANES.indexOf(b.step.lane) ||
          a.step.phase - b.step.phase ||
          a.index - b.index,
      )
      .map(({ step }) => step);
  }

  #add(draft: Draft): void {
    this.#steps.push({
      sql: draft.sql,
      lane: draft.lane ?? 'metadata',
      phase: draft.phase,
      identity: draft.identity,
      at: draft.at ?? draft.identity,
      sign: draft.sign ?? '+',
      summary: draft.summary,
      table: draft.table ?? null,
      lock: draft.lock ?? (draft.table ? 'AccessExclusive' : 'none'),
      rewrites: draft.rewrites ?? false,
      scans: draft.scans ?? false,
      estimateMs: Math.max(1, Math.round(draft.estimateMs ?? 1)),
      hazards: draft.hazards ?? [],
      action: draft.action ?? { kind: 'sql' },
      part: draft.part,
    });
  }

  #estimate(live: LiveTable | null, rate: number): number {
    return live ? estimateRows(live) / rate : 0;
  }

  #isSmall(live: LiveTable | null, rate: number): boolean {
    return (
      live === null || this.#settings.direct || this.#estimate(live, rate) <= this.#settings.maxWriteBlockMs
    );
  }

  take(change: Change): void {
    switch (change.kind) {
      case 'create-schema':
        return this.#add({
          sql: `create schema if not exists ${quoteIdent(change.schema)}`,
          phase: PHASE.schema,
          identity: `schemas.${change.schema}`,
          summary: `schema ${change.schema}`,
        });
      case 'grant-schema':
        return this.#add({
          sql: `grant usage on schema ${quoteIdent(change.schema)} to anon, authenticated, service_role`,
          phase: PHASE.schema,
          identity: `schemas.${change.schema}`,
          sign: '~',
          summary: `usage of schema ${change.schema} for the API roles`,
        });
      case 'create-table':
        return this.#createTable(change.table);
      case 'retire-table':
        return this.#retireTable(change.live);
      case 'grant-table':
        return this.#grantTable(change.table, change.live);
      case 'add-column':
        return this.#addColumn(change.table, change.live, change.column);
      case 'retype':
        return this.#retype(change);
      case 'set-default':
        return this.#add({
          ...onColumn(change.table, change.column),
          sql: `${alterColumn(change.table, change.column)} set default ${change.column.default?.sql ?? 'null'}`,
          phase: PHASE.defaults,
          sign: '~',
          summary: `column ${change.column.name} default ${change.column.default?.written ?? ''}`,
        });
      case 'drop-default':
        return this.#add({
          ...onColumn(change.table, change.column),
          sql: `${alterColumn(change.table, change.column)} drop default`,
          phase: PHASE.clear,
          sign: '-',
          summary: `column ${change.column.name} default ${change.liveColumn.default ?? ''}`,
        });
      case 'make-serial':
        return this.#makeSerial(change.table, change.column);
      case 'drop-serial':
        return this.#add({
          ...onColumn(change.table, change.column),
          sql: change.liveColumn.identity
            ? `${alterColumn(change.table, change.column)} drop identity`
            : `${alterColumn(change.table, change.column)} drop default; drop sequence if exists ${change.liveColumn.sequence ?? ''}`,
          phase: PHASE.clear,
          sign: '-',
          summary: `column ${change.column.name} no longer serial`,
        });
      case 'grant-sequence':
        return this.#grantSequence(change.table, change.column);
      case 'set-not-null':
        return this.#setNotNull(change.table, change.live, change.column);
      case 'drop-not-null':
        return this.#add({
          ...onColumn(change.table, change.column),
          sql: `${alterColumn(change.table, change.column)} drop not null`,
          // After the old primary key is gone, which would hold on to it.
          phase: PHASE.columns,
          sign: '~',
          summary: `column ${change.column.name} no longer required`,
        });
      case 'retire-column':
        return this.#add({
          sql:
            change.liveColumn.notNull && change.liveColumn.default === null && !change.liveColumn.serial
              ? `alter table ${nameOf(change.table)} alter column ${quoteIdent(change.liveColumn.name)} drop not null`
              : 'select',
          phase: PHASE.retire,
          identity: `${change.table.at}.fields.${change.liveColumn.name}`,
          at: change.table.at,
          table: keyOf(change.table),
          sign: '-',
          summary: `column ${change.liveColumn.name} retired, data kept`,
          hazards: ['BREAKS_OLD_CODE'],
        });
      case 'resume-fill':
        return this.#fill(change.table, change.live, change.column, change.value);
      case 'add-key':
        return this.#addKey(change);
      case 'drop-key':
        return this.#dropConstraint(
          change.table,
          change.key.label,
          `${change.key.kind} key (${change.key.columns.join(', ')})`,
          ['BREAKS_OLD_CODE'],
        );
      case 'add-check':
        return this.#addCheck(change);
      case 'drop-check':
        return this.#dropConstraint(change.table, change.check.label, `check ${change.check.label}`, []);
      case 'validate-check':
        return this.#validate(change.table, change.live, change.check.label, 'check');
      case 'add-foreign-key':
        return this.#addForeignKey(change);
      case 'drop-foreign-key':
        return this.#dropConstraint(
          change.table,
          change.foreignKey.label,
          `foreign key ${change.foreignKey.label}`,
          [],
        );
      case 'validate-foreign-key':
        return this.#validate(change.table, change.live, change.foreignKey.label, 'foreign key');
      case 'add-index':
        return this.#addIndex(change);
      case 'drop-index':
        return this.#dropIndex(change.table, change.live, change.index.label, change.index.valid);
      case 'enable-rls':
        return this.#add({
          ...onTable(change.table),
          sql: `alter table ${nameOf(change.table)} enable row level security`,
          phase: PHASE.rowSecurity,
          sign: '~',
          summary: 'row-level security on',
          hazards: change.live ? ['AUTHZ_NARROW'] : [],
        });
      case 'disable-rls':
        return this.#add({
          ...onTable(change.table),
          sql: `alter table ${nameOf(change.table)} disable row level security`,
          phase: PHASE.rowSecurity,
          sign: '~',
          summary: 'row-level security OFF: open to every key holder',
          hazards: ['AUTHZ_OPEN'],
        });
      case 'create-policy':
        return this.#createPolicy(nameOf(change.table), keyOf(change.table), change, change.table.at);
      case 'drop-policy':
        return this.#add({
          ...onTable(change.table),
          identity: `${change.table.at}.rls`,
          sql: `drop policy ${quoteIdent(change.policy.label)} on ${nameOf(change.table)}`,
          phase: PHASE.clear,
          sign: '-',
          summary: `policy ${change.policy.label} (${change.policy.command})`,
          hazards: ['AUTHZ_CHANGE'],
        });
      case 'create-storage-policy':
        return this.#createPolicy(
          'storage.objects',
          'storage.objects',
          { ...change, replaces: null },
          `storage.${change.bucket}`,
        );
      case 'drop-storage-policy':
        return this.#add({
          identity: 'storage.rls',
          sql: `drop policy ${quoteIdent(change.policy.label)} on storage.objects`,
          phase: PHASE.clear,
          table: 'storage.objects',
          sign: '-',
          summary: `storage policy ${change.policy.label}`,
          hazards: ['AUTHZ_CHANGE'],
        });
      case 'add-reference': {
        this.#addReference(
          change.table,
          change.reference.column,
          trackCall(change.table, change.reference),
          change,
        );
        return;
      }
      case 'drop-reference':
        return this.#dropReference(
          change.table,
          change.live,
          change.trigger.label,
          change.trigger.definition,
        );
      case 'create-function':
      case 'replace-function':
      case 'recreate-function':
        return this.#function(change);
      case 'grant-function':
        return this.#grantFunction(change.fn);
      case 'drop-function':
      case 'retire-function':
        return this.#dropFunction(change.live);
    }
  }

  #createTable(table: DesiredTable): void {
    const columns = table.columns.map((column) => {
      const type = column.serial ? (column.model.type ?? column.typeSql) : column.typeSql;
      return { name: column.name, sql: `${quoteIdent(column.name)} ${type}`, notNull: column.notNull };
    });
    const clauses = columns.map((column) => `${column.sql}${column.notNull ? ' not null' : ''}`);
    this.#add({
      sql: `create table ${nameOf(table)} (${clauses.join(', ')})`,
      part: { kind: 'table', table: nameOf(table), columns },
      phase: PHASE.columns,
      identity: table.at,
      summary: `table ${table.name} (${table.columns.length} columns)`,
    });
    for (const column of table.columns) {
      if (column.serial) this.#grantSequence(table, column);
      if (column.default === null) continue;
      this.#add({
        ...onColumn(table, column),
        table: null,
        sql: `${alterColumn(table, column)} set default ${column.default.sql}`,
        part: { kind: 'default', table: nameOf(table), column: column.name, sql: column.default.sql },
        phase: PHASE.defaults,
        summary: `column ${column.name} default ${column.default.written}`,
      });
    }
  }

  #retireTable(live: LiveTable): void {
    const name = nameOf(live);
    const drops = live.foreignKeys.map(
      (one) => `; alter table ${name} drop constraint ${quoteIdent(one.label)}`,
    );
    this.#add({
      // Its foreign keys must go: rows nobody sees any more would block deletes elsewhere.
      sql: `revoke all on ${name} from anon, authenticated, service_role, public${drops.join('')}`,
      phase: PHASE.retire,
      identity: `tables.${live.name}`,
      table: keyOf(live),
      sign: '-',
      summary: `table ${live.name} retired, data kept`,
      hazards: ['BREAKS_OLD_CODE'],
    });
  }

  #grantTable(table: DesiredTable, live: LiveTable | null): void {
    const name = nameOf(table);
    const sequences = live
      ? table.columns.filter(
          (column) =>
            column.serial &&
            live.columns.get(column.name)?.serial &&
            live.columns.get(column.name)?.sequenceGranted === false,
        )
      : [];
    this.#add({
      ...onTable(table),
      table: null,
      sql: grantTablesSql([name]),
      part: live ? undefined : { kind: 'grant', table: name },
      phase: PHASE.grants,
      sign: live ? '~' : '+',
      summary: 'grants of the API roles',
      hazards: live ? ['AUTHZ_CHANGE'] : [],
    });
    for (const column of sequences) this.#grantSequence(table, column);
  }

  #grantSequence(table: DesiredTable, column: DesiredColumn): void {
    this.#add({
      ...onColumn(table, column),
      table: null,
      sql: `do ${quoteLiteral(
        `begin execute 'grant usage, select on sequence ' || pg_get_serial_sequence(${quoteLiteral(nameOf(table))}, ${quoteLiteral(column.name)}) || ' to anon, authenticated, service_role'; end`,
      )}`,
      phase: PHASE.grants,
      summary: `sequence of ${column.name} for the API roles`,
    });
  }

  #addColumn(table: DesiredTable, live: LiveTable | null, column: DesiredColumn): void {
    const identity = column.at;
    const type = column.serial ? (column.model.type ?? column.typeSql) : column.typeSql;
    const filled = this.#foresight.nonEmpty.has(keyOf(table));
    const rewrites = filled && this.#foresight.rewriting.has(identity);
    const add = `alter table ${nameOf(table)} add column ${quoteIdent(column.name)}`;
    const describe = `column ${column.name} ${column.typeSql}`;
    const backfill = filled ? column.model.backfill : null;
    const value =
      backfill ??
      (rewrites && !this.#isSmall(live, REWRITE_ROWS_PER_MS) ? volatileValue(table, column) : null);
    if (column.serial && value !== null) {
      this.#add({
        ...onColumn(table, column),
        sql: `${add} ${column.typeSql}`,
        phase: PHASE.columns,
        summary: describe,
      });
      this.#makeSerial(table, column);
      this.#fill(table, live, column, value);
      this.#setNotNull(table, live, column, value);
      return;
    }
    if (value !== null) {
      this.#add({
        ...onColumn(table, column),
        sql: `${add} ${column.typeSql}`,
        phase: PHASE.columns,
        summary: describe,
      });
      if (column.default) {
        this.#add({
          ...onColumn(table, column),
          sql: `${alterColumn(table, column)} set default ${column.default.sql}`,
          phase: PHASE.defaults,
          summary: `column ${column.name} default ${column.default.written}`,
        });
      }
      this.#fill(table, live, column, value);
      if (column.notNull) this.#setNotNull(table, live, column, value);
      return;
    }
    const hazards: Hazard[] = [];
    if (rewrites) hazards.push('REWRITE');
    else if (filled && column.default !== null && isStable(column.default.sql)) hazards.push('SEMANTIC');
    const withDefault = column.default === null ? '' : ` default ${column.default.sql}`;
    this.#add({
      ...onColumn(table, column),
      sql: `${add} ${type}${withDefault}${column.notNull ? ' not null' : ''}`,
      // Behind the functions: adding the default later would leave the rows that are there without it.
      phase: column.default === null ? PHASE.columns : PHASE.defaultedColumns,
      summary: `${describe}${column.notNull ? ' required' : ''}${column.default ? ` default ${column.default.written}` : ''}`,
      rewrites,
      estimateMs: rewrites ? this.#estimate(live, REWRITE_ROWS_PER_MS) : 1,
      hazards,
    });
    if (column.serial) this.#grantSequence(table, column);
  }

  #fill(
    table: DesiredTable,
    live: LiveTable | null,
    column: DesiredColumn,
    value: string,
    phase: number = PHASE.fill,
  ): void {
    const small = this.#isSmall(live, REWRITE_ROWS_PER_MS);
    const name = quoteIdent(column.name);
    this.#add({
      ...onColumn(table, column),
      sql: `update ${nameOf(table)} set ${name} = (\n${value}\n) where ${name} is null`,
      phase,
      sign: '~',
      summary: `fill ${column.name}`,
      lane: small ? 'metadata' : 'online',
      lock: small ? 'AccessExclusive' : 'none',
      estimateMs: this.#estimate(live, REWRITE_ROWS_PER_MS),
      hazards: small ? [] : ['NON_TX'],
      action: small
        ? { kind: 'sql' }
        : { kind: 'fill', schema: table.schema, table: table.name, column: column.name, value },
    });
  }

  #makeSerial(table: DesiredTable, column: DesiredColumn): void {
    const sequence = `${quoteIdent(table.schema)}.${quoteIdent(sequenceLabel(table.name, column.name))}`;
    const name = quoteIdent(column.name);
    this.#add({
      ...onColumn(table, column),
      sql: [
        `create sequence ${sequence} as ${column.typeSql} owned by ${nameOf(table)}.${name}`,
        `select setval(${quoteLiteral(sequence)}, coalesce((select max(${name}) from ${nameOf(table)}), 0) + 1, false)`,
        `${alterColumn(table, column)} set default nextval(${quoteLiteral(sequence)}::regclass)`,
      ].join('; '),
      phase: PHASE.defaults,
      sign: '~',
      summary: `column ${column.name} serial`,
    });
    this.#grantSequence(table, column);
  }

  #retype(change: RetypeChange): void {
    const { table, live, column, liveColumn } = change;
    const rewrites = this.#foresight.rewriting.has(column.at);
    const using = column.model.using;
    const hazards: Hazard[] = ['DATA_DEPENDENT'];
    if (rewrites && !this.#isSmall(live, REWRITE_ROWS_PER_MS)) hazards.push('REWRITE');
    if (using !== null || column.type.startsWith('timestamp') !== liveColumn.type.startsWith('timestamp'))
      hazards.push('SEMANTIC');
    this.#add({
      ...onColumn(table, column),
      sql: `${alterColumn(table, column)} type ${column.typeSql}${using === null ? '' : ` using (\n${using}\n)`}`,
      phase: PHASE.types,
      sign: '~',
      summary: `column ${column.name} ${liveColumn.type} → ${column.type}`,
      rewrites,
      scans: rewrites,
      estimateMs: rewrites ? this.#estimate(live, REWRITE_ROWS_PER_MS) : 1,
      hazards,
    });
  }

  #setNotNull(table: DesiredTable, live: LiveTable | null, column: DesiredColumn, filling?: string): void {
    const set = `${alterColumn(table, column)} set not null`;
    const summary = `column ${column.name} required`;
    const waits = live?.columns.has(column.name) && this.#foresight.toFill.has(column.at);
    const begun = this.#foresight.begunFills.get(column.at);
    const value = filling ?? begun ?? (waits ? column.model.backfill : null) ?? null;
    if (value !== null && filling === undefined) this.#fill(table, live, column, value);
    if (this.#isSmall(live, value === null ? SCAN_ROWS_PER_MS : REWRITE_ROWS_PER_MS)) {
      this.#add({
        ...onColumn(table, column),
        sql: set,
        phase: PHASE.notNull,
        sign: '~',
        summary,
        scans: true,
        estimateMs: this.#estimate(live, SCAN_ROWS_PER_MS),
        hazards: ['DATA_DEPENDENT'],
      });
      return;
    }
    // A valid CHECK lets SET NOT NULL skip its scan, so writers are never held while rows are read.
    const guard = quoteIdent(transientLabel('nn', column.at));
    const online = { ...onColumn(table, column), lane: 'online', sign: '~' } as const;
    this.#add({
      ...online,
      // While rows are still being filled, the guard would refuse an update of any row not reached yet.
      lane: value === null ? 'metadata' : 'online',
      sql: `alter table ${nameOf(table)} drop constraint if exists ${guard}, add constraint ${guard} check (${quoteIdent(column.name)} is not null) not valid`,
      phase: PHASE.notNull,
      summary: `${summary}: guard for new rows`,
      hazards: ['DATA_DEPENDENT'],
    });
    // What was written between the fill and the guard.
    if (value !== null) this.#fill(table, live, column, value, PHASE.notNull + 1);
    this.#add({
      ...online,
      sql: `alter table ${nameOf(table)} validate constraint ${guard}`,
      phase: PHASE.notNull + 2,
      summary: `${summary}: check rows`,
      lock: 'ShareUpdateExclusive',
      scans: true,
      estimateMs: this.#estimate(live, SCAN_ROWS_PER_MS),
      hazards: ['DATA_DEPENDENT', 'NON_TX'],
    });
    this.#add({
      ...online,
      sql: `${set}; alter table ${nameOf(table)} drop constraint ${guard}`,
      phase: PHASE.notNull + 3,
      summary,
      hazards: ['NON_TX'],
    });
  }

  #addKey({ table, live, key }: Extract<Change, { kind: 'add-key' }>): void {
    const words = key.kind === 'primary' ? 'primary key' : 'unique';
    const columns = key.columns.map(quoteIdent).join(', ');
    const summary = `${words} (${key.columns.join(', ')})`;
    const label = quoteIdent(key.label);
    const base = { identity: key.at, at: key.at, table: live ? keyOf(table) : null, summary };
    if (this.#isSmall(live, BUILD_ROWS_PER_MS)) {
      const constraint = `constraint ${label} ${words} (${columns})`;
      this.#add({
        ...base,
        sql: `alter table ${nameOf(table)} add ${constraint}`,
        part: live ? undefined : { kind: 'key', table: nameOf(table), sql: constraint },
        phase: PHASE.keys,
        scans: live !== null,
        estimateMs: this.#estimate(live, BUILD_ROWS_PER_MS),
        hazards: live ? ['DATA_DEPENDENT'] : [],
      });
      return;
    }
    this.#add({
      ...base,
      sql: `create unique index concurrently ${label} on ${nameOf(table)} (${columns})`,
      lane: 'concurrent',
      phase: PHASE.keys,
      summary: `${summary}: build index`,
      lock: 'ShareUpdateExclusive',
      estimateMs: this.#estimate(live, BUILD_ROWS_PER_MS),
      hazards: ['DATA_DEPENDENT', 'INDEX_BUILD', 'NON_TX'],
      action: { kind: 'build-index', schema: table.schema, label: key.label },
    });
    this.#add({
      ...base,
      sql: `alter table ${nameOf(table)} add constraint ${label} ${words} using index ${label}`,
      lane: 'concurrent',
      phase: PHASE.keys + 1,
      hazards: ['NON_TX'],
    });
  }

  #addCheck({ table, live, check, replaces }: Extract<Change, { kind: 'add-check' }>): void {
    if (replaces) {
      this.#add({
        ...onTable(table),
        identity: check.expression.at,
        sql: `alter table ${nameOf(table)} drop constraint ${quoteIdent(replaces.label)}`,
        phase: PHASE.clear,
        sign: '-',
        summary: `${check.role} of ${check.column} (replaced)`,
      });
    }
    const small = this.#isSmall(live, SCAN_ROWS_PER_MS);
    const constraint = `constraint ${quoteIdent(check.label)} check (\n${check.expression.sql}\n)`;
    this.#add({
      identity: check.expression.at,
      table: live ? keyOf(table) : null,
      sql: `alter table ${nameOf(table)} add ${constraint}${small ? '' : ' not valid'}`,
      part: live ? undefined : { kind: 'check', table: nameOf(table), sql: constraint },
      phase: PHASE.checks,
      sign: replaces ? '~' : '+',
      summary: `${check.role} of ${check.column}: ${check.expression.written}`,
      scans: small && live !== null,
      estimateMs: small ? this.#estimate(live, SCAN_ROWS_PER_MS) : 1,
      hazards: live ? ['DATA_DEPENDENT'] : [],
    });
    if (!small)
      this.#validate(table, live, check.label, `${check.role} of ${check.column}`, check.expression.at);
  }

  #addForeignKey({ table, live, foreignKey }: Extract<Change, { kind: 'add-foreign-key' }>): void {
    const small = this.#isSmall(live, SCAN_ROWS_PER_MS);
    const action = foreignKey.onDelete === 'set_null' ? 'set null' : foreignKey.onDelete;
    const target = nameOf({ schema: foreignKey.targetSchema, name: foreignKey.targetTable });
    const constraint = `constraint ${quoteIdent(foreignKey.label)} foreign key (${quoteIdent(foreignKey.column)}) references ${target} (${quoteIdent(foreignKey.targetColumn)}) on delete ${action}`;
    this.#add({
      identity: foreignKey.at,
      table: live ? keyOf(table) : null,
      sql: `alter table ${nameOf(table)} add ${constraint}${small ? '' : ' not valid'}`,
      part: live ? undefined : { kind: 'reference', table: nameOf(table), target, sql: constraint },
      phase: PHASE.foreignKeys,
      summary: `foreign key ${foreignKey.column} → ${foreignKey.targetTable}.${foreignKey.targetColumn} on delete ${action}`,
      lock: 'ShareRowExclusive',
      scans: small && live !== null,
      estimateMs: small ? this.#estimate(live, SCAN_ROWS_PER_MS) : 1,
      hazards: live ? ['DATA_DEPENDENT'] : [],
    });
    if (!small)
      this.#validate(table, live, foreignKey.label, `foreign key ${foreignKey.column}`, foreignKey.at);
  }

  #validate(
    table: DesiredTable,
    live: LiveTable | null,
    label: string,
    what: string,
    at: string = table.at,
  ): void {
    this.#add({
      identity: at,
      table: keyOf(table),
      sql: `alter table ${nameOf(table)} validate constraint ${quoteIdent(label)}`,
      lane: 'online',
      phase: PHASE.foreignKeys,
      sign: '~',
      summary: `${what}: check rows`,
      lock: 'ShareUpdateExclusive',
      scans: true,
      estimateMs: this.#estimate(live, SCAN_ROWS_PER_MS),
      hazards: ['DATA_DEPENDENT', 'NON_TX'],
    });
  }

  #dropConstraint(table: DesiredTable, label: string, what: string, hazards: readonly Hazard[]): void {
    this.#add({
      ...onTable(table),
      sql: `alter table ${nameOf(table)} drop constraint ${quoteIdent(label)}`,
      // Foreign keys before the keys they stand on.
      phase: what.startsWith('foreign') ? PHASE.clear : PHASE.clear + 1,
      sign: '-',
      summary: what,
      hazards,
    });
  }

  #addIndex({ table, live, index }: Extract<Change, { kind: 'add-index' }>): void {
    const small = this.#isSmall(live, BUILD_ROWS_PER_MS);
    const columns = index.columns.map(quoteIdent).join(', ');
    const where = index.where === null ? '' : ` where (\n${index.where.sql}\n)`;
    const shape = `${quoteIdent(index.label)} on ${nameOf(table)} (${columns})${where}`;
    const unique = index.unique ? 'unique ' : '';
    const hazards: Hazard[] = live && index.unique ? ['DATA_DEPENDENT'] : [];
    this.#add({
      identity: index.at,
      table: live ? keyOf(table) : null,
      sql: `create ${unique}index ${small ? '' : 'concurrently '}${shape}`,
      lane: small ? 'metadata' : index.unique ? 'concurrent' : 'background',
      phase: PHASE.indexes,
      summary: `${unique}index (${index.columns.join(', ')})${index.where ? ` where ${index.where.written}` : ''}`,
      lock: small ? 'Share' : 'ShareUpdateExclusive',
      scans: live !== null,
      estimateMs: this.#estimate(live, BUILD_ROWS_PER_MS),
      hazards: small ? hazards : [...hazards, 'INDEX_BUILD', 'NON_TX'],
      action: small ? { kind: 'sql' } : { kind: 'build-index', schema: table.schema, label: index.label },
    });
  }

  #dropIndex(table: DesiredTable, live: LiveTable | null, label: string, valid: boolean): void {
    const small = this.#isSmall(live, BUILD_ROWS_PER_MS);
    const name = `${quoteIdent(table.schema)}.${quoteIdent(label)}`;
    this.#add({
      identity: `${table.at}.indexes`,
      table: keyOf(table),
      sql: small ? `drop index ${name}` : `drop index concurrently if exists ${name}`,
      lane: small ? 'metadata' : 'concurrent',
      phase: PHASE.clear,
      sign: '-',
      summary: `index ${label}${valid ? '' : ' (half built)'}`,
      lock: small ? 'AccessExclusive' : 'ShareUpdateExclusive',
      hazards: ['INDEX_DROPPED', ...(small ? [] : (['NON_TX'] as const))],
      action: small ? { kind: 'sql' } : { kind: 'drop-index', schema: table.schema, label },
    });
  }

  #createPolicy(
    relation: string,
    table: string,
    change: Pick<Extract<Change, { kind: 'create-policy' }>, 'policy' | 'label' | 'replaces'>,
    identity: string,
  ): void {
    const { policy, label, replaces } = change;
    const using = policy.using ? ` using (\n${policy.using.sql}\n)` : '';
    const check = policy.check ? ` with check (\n${policy.check.sql}\n)` : '';
    const written = [policy.using?.written, policy.check && `check ${policy.check.written}`]
      .filter(Boolean)
      .join(' ');
    this.#add({
      identity: `${identity}.rls`,
      at: policy.at,
      table: table === 'storage.objects' || 'live' in change ? table : null,
      sql: `create policy ${quoteIdent(label)} on ${relation} as ${policy.permissive ? 'permissive' : 'restrictive'} for ${policy.command} to anon, authenticated${using}${check}`,
      phase: PHASE.policies,
      sign: replaces ? '~' : '+',
      summary: `policy ${policy.command} ${written}`,
      hazards: ['AUTHZ_CHANGE'],
    });
  }

  #addReference(
    table: DesiredTable,
    column: string,
    call: string,
    change: Extract<Change, { kind: 'add-reference' }>,
  ): void {
    const { reference } = change;
    const labels = referenceTriggerLabels(column);
    const name = nameOf(table);
    const key = table.keys.find((one) => one.kind === 'primary')?.columns ?? [];
    const watched = [...new Set([column, ...key])].map(quoteIdent).join(', ');
    const keyArray = `array[${key.map((one) => quoteLiteral(one)).join(', ')}]::text[]`;
    this.#add({
      identity: `${table.at}.fields.${column}.ref`,
      table: change.live ? keyOf(table) : null,
      sql: [
        `drop trigger if exists ${quoteIdent(labels.row)} on ${name}`,
        `drop trigger if exists ${quoteIdent(labels.truncate)} on ${name}`,
        `create trigger ${quoteIdent(labels.row)} after insert or delete or update of ${watched} on ${name} for each row execute function ${call}`,
        `create trigger ${quoteIdent(labels.truncate)} before truncate on ${name} for each statement execute function storage.truncate_refs(${quoteLiteral(column)})`,
        `select storage.adopt_refs(${quoteLiteral(name)}::regclass, ${quoteLiteral(column)}, ${quoteLiteral(reference.bucket)}, ${quoteLiteral(reference.cascade ? 'cascade' : 'keep')}, ${keyArray})`,
      ].join('; '),
      phase: PHASE.references,
      summary: `reference ${column} → storage.${reference.bucket}${reference.cascade ? ' cascade' : ''}`,
      lock: 'ShareRowExclusive',
    });
  }

  #dropReference(table: DesiredTable, live: LiveTable | null, label: string, definition: string): void {
    const column = /track_ref\('((?:[^']|'')*)'/.exec(definition)?.[1]?.replaceAll("''", "'");
    const forget =
      column === undefined || !live
        ? ''
        : `; select storage.forget_refs(${live.oid}::oid, ${quoteLiteral(column)})`;
    this.#add({
      ...onTable(table),
      sql: `drop trigger ${quoteIdent(label)} on ${nameOf(table)}${forget}`,
      phase: PHASE.clear,
      sign: '-',
      summary: `reference trigger ${label}`,
    });
  }

  #function(change: Extract<Change, { fn: DesiredFunction }>): void {
    const { fn, kind } = change;
    const create = createFunctionSql(fn);
    const words = {
      'create-function': '+',
      'replace-function': '~',
      'recreate-function': '~',
      'grant-function': '~',
    } as const;
    if (kind === 'recreate-function' && change.live) {
      this.#add({
        ...onFunction(fn),
        sql: `drop function ${quoteIdent(fn.schema)}.${quoteIdent(fn.name)}(${change.live.argumentTypes.join(', ')})`,
        phase: PHASE.clearFunction,
        sign: '-',
        summary: `function ${fn.name}(${change.live.identityArguments})`,
        hazards: ['BREAKS_OLD_CODE'],
      });
    }
    this.#add({
      ...onFunction(fn),
      sql: create,
      part: { kind: 'function', name: fn.name },
      phase: PHASE.functions,
      sign: words[kind],
      summary: `function ${fn.name}${fn.head.slice(0, fn.head.indexOf(' language '))}`,
    });
    if (kind !== 'replace-function') this.#grantFunction(fn);
    this.#add({
      ...onFunction(fn),
      at: `${fn.at}.body`,
      sql: `set local check_function_bodies = on; ${create}`,
      phase: PHASE.bodies,
      sign: '~',
      summary: `function ${fn.name}: body checked`,
    });
  }

  #grantFunction(fn: DesiredFunction): void {
    // A new one has no namesake; its name is enough.
    const args = fn.canonical === null ? '' : `(${fn.canonical.argumentTypes.join(', ')})`;
    const name = `${nameOf(fn)}${args}`;
    this.#add({
      ...onFunction(fn),
      sql: `revoke all on function ${name} from public; grant execute on function ${name} to anon, authenticated, service_role`,
      phase: PHASE.grants,
      summary: `function ${fn.name}: grants`,
    });
  }

  #dropFunction(live: {
    schema: string;
    name: string;
    argumentTypes: readonly string[];
    identityArguments: string;
  }): void {
    const name = `${quoteIdent(live.schema)}.${quoteIdent(live.name)}(${live.argumentTypes.join(', ')})`;
    // Something that is not ours may depend on it: then it is only taken from the API.
    const body = `begin drop function ${name}; exception when dependent_objects_still_exist then revoke all on function ${name} from public, anon, authenticated, service_role; end`;
    this.#add({
      identity: `rpc.${live.name}`,
      sql: `do ${quoteLiteral(body)}`,
      phase: PHASE.dropFunctions,
      sign: '-',
      summary: `function ${live.name}(${live.identityArguments})`,
      hazards: ['BREAKS_OLD_CODE'],
    });
  }
}

function volatileValue(table: DesiredTable, column: DesiredColumn): string | null {
  if (column.serial) {
    const sequence = `${quoteIdent(table.schema)}.${quoteIdent(sequenceLabel(table.name, column.name))}`;
    return `nextval(${quoteLiteral(sequence)}::regclass)`;
  }
  return column.default?.sql ?? null;
}

function isStable(text: string): boolean {
  return !/^\s*E?'(?:[^']|'')*'$/.test(text);
}

type Named = { readonly schema: string; readonly name: string };

export function nameOf(table: Named): string {
  return `${quoteIdent(table.schema)}.${quoteIdent(table.name)}`;
}

function keyOf(table: Named): string {
  return tableKey(table.schema, table.name);
}

function alterColumn(table: Named, column: { readonly name: string }): string {
  return `alter table ${nameOf(table)} alter column ${quoteIdent(column.name)}`;
}

function onTable(table: DesiredTable): { identity: string; table: string } {
  return { identity: table.at, table: keyOf(table) };
}

function onColumn(table: DesiredTable, column: DesiredColumn): { identity: string; table: string } {
  return { identity: column.at, table: keyOf(table) };
}

function onFunction(fn: DesiredFunction): { identity: string } {
  return { identity: fn.at };
}
