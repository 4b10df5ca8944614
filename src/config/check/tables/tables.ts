// Tables: names, columns, indexes, and protection by row-level security.
import type { KeyPath } from '../../mistakes/mistake.ts';
import { compareDecimals, type Decimal } from '../../schema/decimal.ts';
import { toDecimal } from '../../schema/scalar.ts';
import { CALLERS } from '../../schema/tables/policies.ts';
import type { RawField, RawTable } from '../../schema/tables/tables.ts';
import { type CheckContext, didYouMean } from '../context.ts';
import { checkDefault, isCall } from './default.ts';
import { checkFieldKeys } from './field-keys.ts';
import { checkConstraints } from './constraints.ts';
import { checkIndexes, checkIndexNames } from './indexes.ts';
import { checkForeignKey, checkTypeCycles, collectTables, type Tables } from './foreign-key.ts';
import { checkName, checkObjectName, checkRenames, checkSchema } from '../name.ts';
import { checkPartitionNames, checkPartitions, checkUnlogged } from './partitions.ts';
import { checkPolicies } from './policies.ts';
import { checkPolicyRings } from './policy-rings.ts';
import { checkGrants } from './grants.ts';
import { checkPublished } from '../realtime.ts';
import { checkOnNewUser, checkOnUpdate } from './row-triggers.ts';
import { checkTableTriggers } from './triggers.ts';
import { typeFamily, foreignType } from './type-family.ts';
import { checkTypedDefault } from '../types.ts';
import { isOfFile } from './unknown-type.ts';

/** System columns of every table. */
const SYSTEM_COLUMNS: ReadonlySet<string> = new Set(['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid']);
/** Temporary columns of migrations that change a type or backfill. */
const TRANSIENT_COLUMN = /^svc_(n|o|nn|x)_/;
/** Limits of PostgreSQL. */
const MAX_COLUMNS = 1600;

export function checkTables(context: CheckContext): void {
  const entries = Object.entries(context.file.tables);
  const tables = collectTables(context);
  for (const [name, table] of entries) {
    if (context.isFull) return;
    const path = ['tables', name];
    checkObjectName(context, path, name);
    checkSchema(context, [...path, 'schema'], table.schema);
    checkFields(context, tables, path, table);
    checkIndexes(context, path, table);
    checkConstraints(context, tables, path, table);
    checkOnNewUser(context, path, table);
    checkGrants(context, path, table);
    checkTableTriggers(context, path, table);
    checkPublished(context, path, table);
    checkPartitions(context, path, table);
    if (table.rls === undefined) {
      if (!isUnreachable(table)) reportOpen(context, name);
    } else if (Array.isArray(table.rls)) {
      const columns = new Map(
        table.fields.map(({ name: column, type }, index) => [
          column,
          // The placeholder of a field with mistakes has an arbitrary type.
          context.broken.touches([...path, 'fields', index]) ? undefined : type,
        ]),
      );
      checkPolicies(context, [...path, 'rls'], table.rls, columns);
    }
  }
  checkRenames(
    context,
    entries.map(([name, table]) => ({ path: ['tables', name], name, from: table.renamedFrom })),
  );
  checkIndexNames(context);
  checkPartitionNames(context);
  checkUnlogged(context);
  checkTypeCycles(context, tables);
  checkPolicyRings(context, tables);
}

/** True if neither API role has a privilege. */
function isUnreachable({ grants = {} }: RawTable): boolean {
  return CALLERS.every((role) => grants[role]?.length === 0);
}

function reportOpen(context: CheckContext, name: string): void {
  if (context.broken.covers(['tables', name, 'rls'])) return;
  context.report({
    code: 'open-table',
    path: ['tables', name],
    message: `the table ${name} has no rls key: every client with a key can read and change all rows`,
    severity: context.options.strict ? 'error' : 'warning',
    hint: 'Add policies under rls:, write rls: [] to close it, or rls: false to leave it open on purpose.',
    part: 'key',
  });
}

function checkFields(context: CheckContext, tables: Tables, path: KeyPath, table: RawTable): void {
  if (table.fields.length > MAX_COLUMNS)
    return context.badValue(
      [...path, 'fields', MAX_COLUMNS],
      `PostgreSQL allows ${MAX_COLUMNS} columns; this table has ${table.fields.length}`,
      'Split the table.',
    );
  if (!table.fields.some((field) => field.primaryKey) && !context.broken.touches([...path, 'fields'])) {
    context.report({
      code: 'no-primary-key',
      path,
      message: `the table ${path[1]} has no primary key, which updates of single rows and upserts need`,
      severity: 'warning',
      hint:
        'Add primary_key: true to a column, for example ' +
        '{ name: id, type: uuid, primary_key: true, default: uuid_v7() }.',
      part: 'key',
    });
  }
  const seen = new Set<string>();
  const keys = table.fields.filter((field) => field.primaryKey).length;
  table.fields.forEach((field, index) => {
    const at: KeyPath = [...path, 'fields', index];
    const nameAt = [...at, 'name'];
    checkName(context, nameAt, field.name);
    if (seen.has(field.name)) {
      context.reportTwice(nameAt, `the column ${field.name} is declared twice in ${path[1]}`);
    }
    seen.add(field.name);
    if (SYSTEM_COLUMNS.has(field.name) || TRANSIENT_COLUMN.test(field.name)) {
      const user = SYSTEM_COLUMNS.has(field.name) ? 'PostgreSQL uses' : 'migrations use';
      context.report({
        code: 'reserved-name',
        path: nameAt,
        message: `a column cannot be called ${field.name}: ${user} this name`,
        hint: 'Choose another name.',
      });
    }
    checkField(context, tables, field, at);
    if (field.primaryKey && field.unique && keys === 1) {
      context.report({
        code: 'conflict',
        path: [...at, 'unique'],
        message: 'a primary key is already unique',
        severity: 'warning',
        hint: 'Remove unique.',
        part: 'key',
      });
    }
  });
  checkRenames(
    context,
    table.fields.map((field, index) => ({
      path: [...path, 'fields', index],
      name: field.name,
      from: field.renamedFrom,
    })),
  );
}

function checkField(context: CheckContext, tables: Tables, field: RawField, at: KeyPath): void {
  if (field.type === undefined && field.foreignKey === undefined) {
    context.report({
      code: 'missing-key',
      path: at,
      message: `the column ${field.name} has no type`,
      hint: 'Add a type. Only a column with foreign_key can omit it.',
    });
  }
  if (field.foreignKey) checkForeignKey(context, tables, field, [...at, 'foreign_key']);
  checkRef(context, field, at);
  checkType(context, field, [...at, 'type']);
  const type = field.type ?? (field.foreignKey?.references === 'auth.users.id' ? 'uuid' : undefined);
  checkBounds(context, field, type, at);
  checkEnum(context, field, type, at);
  checkOnUpdate(context, field, at);
  checkFieldKeys(context, field, at);
  if (
    type !== undefined &&
    field.default !== undefined &&
    field.default !== null &&
    /serial\d?$/i.test(type)
  ) {
    context.conflict(
      [...at, 'default'],
      `${context.show([...at, 'type'], type)} already has a default`,
      'Remove default, or use integer or bigint.',
    );
  } else checkDefault(context, [...at, 'default'], type, field.default);
  checkTypedDefault(context, field, at);
}

function checkType(context: CheckContext, { type }: RawField, path: KeyPath): void {
  const meant = type === undefined ? undefined : foreignType(type);
  if (type === undefined || meant === undefined || isOfFile(context, type)) return;
  context.badValue(path, `${context.quote(path, type)} is not a PostgreSQL type`, `Did you mean ${meant}?`);
}

function checkRef(context: CheckContext, field: RawField, at: KeyPath): void {
  if (field.ref === undefined) {
    if (!context.isWritten([...at, 'on_delete']) || context.broken.covers([...at, 'ref'])) return;
    context.conflict(
      [...at, 'on_delete'],
      'on_delete at this level requires ref',
      field.foreignKey
        ? 'For the foreign key write foreign_key: { references: …, on_delete: … }.'
        : 'For a foreign key write foreign_key: { references: <table>.<column>, on_delete: … }; ' +
            'for a stored object add ref: storage.<bucket>.',
      'key',
    );
    return;
  }
  const path = [...at, 'ref'];
  const bucket = /^storage\.(.+)$/.exec(field.ref)?.[1];
  const buckets = Object.keys(context.file.storage);
  if (bucket === undefined) {
    context.badValue(
      path,
      `${context.quote(path, field.ref)} is not a storage reference`,
      'Write ref: storage.<bucket>.',
    );
  } else if (!buckets.includes(bucket) && !context.broken.covers(['storage', bucket])) {
    context.report({
      code: 'unknown-reference',
      path,
      message: `there is no bucket ${context.show(path, bucket)}`,
      hint: () => didYouMean(bucket, buckets) ?? 'Declare it under storage:.',
    });
  }
}

function checkBounds(context: CheckContext, field: RawField, type: string | undefined, at: KeyPath): void {
  const family = type === undefined ? undefined : typeFamily(type);
  for (const key of ['min', 'max'] as const) {
    if (field[key] === undefined || family === undefined || family === 'number') continue;
    context.conflict(
      [...at, key],
      `${key} is only valid for numbers, and ${field.name} has the type ${type}`,
      family === 'text' ? 'For a length write check: length(…) <= ….' : 'Write a condition: check: ….',
      'key',
    );
  }
  if (field.pattern !== undefined && family !== undefined && family !== 'text') {
    context.conflict(
      [...at, 'pattern'],
      `pattern is only valid for text, and ${field.name} has the type ${type}`,
      'Write a condition: check: ….',
      'key',
    );
  }
  const min = decimal(field.min);
  const max = decimal(field.max);
  if (min && max && compareDecimals(min, max) > 0) {
    const least = context.show([...at, 'min'], field.min ?? '');
    const most = context.show([...at, 'max'], field.max ?? '');
    context.conflict(
      [...at, 'max'],
      `max (${most}) is less than min (${least}), so no value is valid`,
      'Swap the two.',
    );
    return;
  }
  const path = [...at, 'default'];
  const value = typeof field.default === 'number' ? decimal(context.scalar(path)?.text) : undefined;
  const bound =
    value &&
    (min && compareDecimals(value, min) < 0
      ? 'min'
      : max && compareDecimals(value, max) > 0
        ? 'max'
        : undefined);
  if (bound) {
    context.conflict(
      path,
      `the default ${context.quote(path, field.default)} is ${bound === 'min' ? 'less' : 'greater'} than ${bound}`,
      `Change the default, or ${bound}.`,
    );
  }
}

function decimal(text: string | undefined): Decimal | undefined {
  return text === undefined ? undefined : toDecimal(text);
}

function checkEnum(context: CheckContext, field: RawField, type: string | undefined, at: KeyPath): void {
  if (!field.enum) return;
  const values = new Set<string>();
  for (const [index, value] of field.enum.entries()) {
    const path = [...at, 'enum', index];
    if (values.has(value)) return context.reportTwice(path, `${context.quote(path, value)} is listed twice`);
    values.add(value);
  }
  const path = [...at, 'default'];
  const scalar = context.scalar(path);
  if (scalar === undefined || scalar.kind === 'null' || isCall(field.default, type)) return;
  const text = scalar.substituted ? scalar.text : scalar.written;
  if (values.has(text) || values.has(scalar.text)) return;
  context.conflict(
    path,
    `the default ${context.quote(path, field.default)} is not a value of enum`,
    () => didYouMean(text, values) ?? 'Add it to enum, or choose another default.',
  );
}
