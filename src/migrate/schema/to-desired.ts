// Converts the model to the desired schema.
import type { DesiredIndex } from './indexes.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import { isSerial, type TypeResolver } from './column-types.ts';
import { defaultSql, isArray } from './sql/default-sql.ts';
import type {
  Desired,
  DesiredCheck,
  DesiredColumn,
  DesiredForeignKey,
  DesiredKey,
  FunctionNames,
  DesiredTable,
} from './desired.ts';
import { expression } from './expression.ts';
import { tableChecks, tableExclusions, tableForeignKeys, tableUniqueKeys } from './constraints.ts';
import { toDesiredFunction } from './sql/function-sql.ts';
import {
  checkLabel,
  foreignKeyLabel,
  indexLabel,
  primaryKeyLabel,
  uniqueLabel,
  type CheckRole,
} from './label.ts';
import { indexColumns, indexBodySql, isPlainIndex, qualifiedSql } from './sql/index-sql.ts';
import {
  objectKey,
  type ColumnModel,
  type IndexModel,
  type SchemaModel,
  type TableModel,
  declaredViews,
} from './model.ts';
import { REALTIME_MESSAGES, STORAGE_OBJECTS } from './rights/hosts.ts';
import { sqlWords } from '../../lib/sql/sql-text.ts';
import { toPartitioning } from './partitions.ts';
import { toNewUserTriggers, toOnUpdateTrigger } from './row-triggers.ts';
import { declaredSequences } from './sequences.ts';
import {
  sortByKind,
  isUsedWithoutName,
  declaredStatements,
  toDesiredStatement,
  statementWords,
} from './statements.ts';
import { toTriggers, toUserTriggers } from './triggers.ts';
import { toChannelPolicies, toPolicies, toStoragePolicies } from './sql/policy-sql.ts';
import { toDesiredType } from './types.ts';

/**
 * `inCycles`: tables whose policies stay as written. `only`: limits the result to these tables and views, as
 * `schema.name`. Functions and policies on tables of svc are always included.
 */
export function toDesired(
  model: SchemaModel,
  resolve: TypeResolver,
  inCycles: ReadonlySet<string>,
  only: ReadonlySet<string> | null = null,
): Desired {
  const views = new Set(declaredViews(model).map((view) => view.name));
  const tables = model.tables.filter((table) => only === null || only.has(objectKey(table)));
  const statements = sortByKind(declaredStatements(model));
  const functions: FunctionNames = statements.some(isUsedWithoutName)
    ? { has: () => true }
    : new Set(model.functions.map((fn) => fn.name));
  const ofRanges = statementWords(statements.filter(({ kind }) => kind === 'type'));
  return {
    types: (model.types ?? []).map((type) => toDesiredType(type, functions)),
    extensions: model.extensions ?? [],
    sequences: declaredSequences(model),
    statements: statements.map(toDesiredStatement),
    tables: tables.map((table) => toTable(table, resolve, inCycles.has(objectKey(table)), functions)),
    functions: model.functions.map((fn) => ({
      ...toDesiredFunction(fn, views),
      ...(ofRanges.has(fn.name) ? { isUsedByRange: true } : {}),
    })),
    hosted: {
      [STORAGE_OBJECTS]: model.buckets.flatMap((bucket) =>
        bucket.policies.flatMap((policy) =>
          toStoragePolicies(bucket.name, policy, inCycles.has(STORAGE_OBJECTS)),
        ),
      ),
      [REALTIME_MESSAGES]: (model.channels ?? []).flatMap(toChannelPolicies),
    },
    views: declaredViews(model)
      .filter((view) => only === null || only.has(objectKey(view)))
      .map((view) => ({
        schema: view.schema,
        name: view.name,
        model: view,
        indexes: (view.indexes ?? []).map((index) => toIndex({ name: view.name, columns: [] }, index)),
        triggers: toTriggers(view),
        at: view.at,
        normal: null,
      })),
    newUsers: toNewUserTriggers(model),
    userTriggers: toUserTriggers(model),
  };
}

function toTable(
  table: TableModel,
  resolve: TypeResolver,
  inCycle: boolean,
  functions: FunctionNames,
): DesiredTable {
  const columns = table.columns.map((column) => toColumn(column, resolve, functions));
  const typeOf = new Map(columns.map((column) => [column.name, column.typeSql]));
  return {
    schema: table.schema,
    name: table.name,
    model: table,
    columns,
    keys: [...toKeys(table), ...tableUniqueKeys(table)],
    foreignKeys: [
      ...table.columns.flatMap((column) => toForeignKey(table, column)),
      ...tableForeignKeys(table),
    ],
    checks: [
      ...table.columns.flatMap((column) => toChecks(table, column, typeOf.get(column.name) ?? '')),
      ...tableChecks(table),
    ],
    exclusions: tableExclusions(table),
    indexes: table.indexes.map((index) => toIndex(table, index)),
    policies: typeof table.rls === 'string' ? [] : table.rls.flatMap((policy) => toPolicies(policy, inCycle)),
    references: table.columns.flatMap((column) =>
      column.ref ? [{ column: column.name, ...column.ref }] : [],
    ),
    onUpdate: toOnUpdateTrigger(table),
    triggers: toTriggers(table),
    rowSecurity: typeof table.rls !== 'string',
    partitioning: toPartitioning(table),
    at: table.at,
  };
}

function toColumn(column: ColumnModel, resolve: TypeResolver, functions: FunctionNames): DesiredColumn {
  const typeSql = resolve(column);
  const serial = isSerial(column) || column.identity !== undefined;
  const { generated, collate } = column;
  const text = column.default === null ? null : defaultSql(column.default, typeSql);
  const value = generated
    ? expression(generated.sql, `${column.at}.generated`)
    : text === null || serial
      ? null
      : expression(text, `${column.at}.default`);
  return {
    name: column.name,
    typeSql,
    type: '',
    collation: collate === undefined ? null : '',
    collateSql: collate === undefined ? '' : ` collate ${qualifiedSql(collate)}`,
    serial,
    notNull: column.required || column.primaryKey || serial,
    default: value,
    generated: generated ? (generated.virtual ? 'virtual' : 'stored') : null,
    callsDeclaredFunction:
      generated !== undefined && [...sqlWords(generated.sql)].some((word) => functions.has(word)),
    model: column,
    at: column.at,
  };
}

const PLAIN = { deferrable: null, nullsNotDistinct: false } as const;

function toKeys(table: TableModel): DesiredKey[] {
  const primary = table.columns.filter((column) => column.primaryKey).map((column) => column.name);
  const unique = table.columns
    .filter((column) => column.unique)
    .map(({ name, at }): DesiredKey => {
      const label = uniqueLabel(table.name, [name]);
      return { kind: 'unique', columns: [name], label, ...PLAIN, at: `${at}.unique` };
    });
  if (primary.length === 0) return unique;
  const label = primaryKeyLabel(table.name);
  return [{ kind: 'primary', columns: primary, label, ...PLAIN, at: table.at }, ...unique];
}

function toIndex(table: Pick<TableModel, 'name' | 'columns'>, index: IndexModel): DesiredIndex {
  const plain = isPlainIndex(index);
  const columns = indexColumns(
    index,
    table.columns.map((column) => column.name),
  );
  return {
    columns,
    plain,
    unique: index.unique,
    predicate: index.where === null ? null : expression(index.where, `${index.at}.where`),
    definition: null,
    label:
      index.name ??
      indexLabel(table.name, columns, index.unique, index.where, plain ? null : indexBodySql(index)),
    model: index,
    at: index.at,
  };
}

function toForeignKey(table: TableModel, column: ColumnModel): DesiredForeignKey[] {
  const target = column.foreignKey;
  if (!target) return [];
  return [
    {
      columns: [column.name],
      targetSchema: target.schema,
      targetTable: target.table,
      targetColumns: [target.column],
      onDelete: target.onDelete,
      onUpdate: target.onUpdate ?? 'restrict',
      onDeleteColumns: null,
      deferrable: target.deferrable ?? null,
      matchFull: false,
      notValid: false,
      label: foreignKeyLabel(table.name, [column.name]),
      at: `${column.at}.foreign_key`,
    },
  ];
}

function toChecks(table: TableModel, column: ColumnModel, type: string): DesiredCheck[] {
  const name = quoteIdent(column.name);
  const checks: DesiredCheck[] = [];
  const add = (role: CheckRole, sql: string, written: string, key: string): void => {
    checks.push({
      role,
      column: column.name,
      columns: [column.name],
      label: checkLabel(table.name, column.name, role),
      expression: { sql, written, at: `${column.at}.${key}`, normal: '' },
      notValid: false,
    });
  };
  if (column.enum !== null) {
    const values = column.enum.map((value) => quoteLiteral(value)).join(', ');
    const sql = isArray(type) ? `${name} <@ array[${values}]::${type}` : `${name} in (${values})`;
    add('enum', sql, `[${column.enum.join(', ')}]`, 'enum');
  }
  if (column.pattern !== null)
    add('pattern', `${name} ~ ${quoteLiteral(column.pattern)}`, column.pattern, 'pattern');
  const bounds: string[] = [];
  if (column.min !== null) bounds.push(`${name} >= (${number(column.min)})`);
  if (column.max !== null) bounds.push(`${name} <= (${number(column.max)})`);
  if (bounds.length > 0) {
    add(
      'range',
      bounds.join(' and '),
      `${column.min ?? ''}..${column.max ?? ''}`,
      column.min === null ? 'max' : 'min',
    );
  }
  if (column.check !== null) add('check', column.check, column.check, 'check');
  return checks;
}

// A bound should be a number. Other text is quoted, and the server rejects it.
function number(text: string): string {
  return /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text) ? text : quoteLiteral(text);
}
