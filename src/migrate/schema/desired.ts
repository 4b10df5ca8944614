// The model as facts: every declaration becomes the SQL it means, with the text as written and its place in the
// file beside it. The `canonical` prints are still empty here; elaboration fills them in.
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { Command } from './live-schema.ts';
import {
  checkLabel,
  foreignKeyLabel,
  indexLabel,
  primaryKeyLabel,
  uniqueLabel,
  type CheckRole,
} from './label.ts';
import {
  keyOf,
  tableKey,
  type ColumnModel,
  type DefaultModel,
  type FunctionModel,
  type OnDelete,
  type PolicyModel,
  type SchemaModel,
  type TableModel,
} from './model.ts';
import { STORAGE_OBJECTS } from './policy-rings.ts';
import { holdsSubSelect, wrapCallerHelpers } from './sql-text.ts';

export type Expression = {
  readonly sql: string;
  readonly written: string;
  readonly at: string;
  /** The server's print; empty until elaborated. */
  readonly normal: string;
};

export type Desired = {
  readonly tables: readonly DesiredTable[];
  readonly functions: readonly DesiredFunction[];
  readonly storagePolicies: readonly DesiredStoragePolicy[];
};

export type DesiredTable = {
  readonly schema: string;
  readonly name: string;
  readonly model: TableModel;
  readonly columns: readonly DesiredColumn[];
  readonly keys: readonly DesiredKey[];
  readonly foreignKeys: readonly DesiredForeignKey[];
  readonly checks: readonly DesiredCheck[];
  readonly indexes: readonly DesiredIndex[];
  readonly policies: readonly DesiredPolicy[];
  readonly references: readonly DesiredReference[];
  readonly rowSecurity: boolean;
  readonly at: string;
};

export type DesiredColumn = {
  readonly name: string;
  /** As sent to the server; for a serial column the integer type behind it. */
  readonly typeSql: string;
  readonly type: string;
  readonly serial: boolean;
  readonly notNull: boolean;
  readonly default: Expression | null;
  readonly model: ColumnModel;
  readonly at: string;
};

export type DesiredKey = {
  readonly kind: 'primary' | 'unique';
  readonly columns: readonly string[];
  readonly label: string;
  readonly at: string;
};

export type DesiredForeignKey = {
  readonly column: string;
  readonly targetSchema: string;
  readonly targetTable: string;
  readonly targetColumn: string;
  readonly onDelete: OnDelete;
  readonly label: string;
  readonly at: string;
};

export type DesiredCheck = {
  readonly role: CheckRole;
  readonly column: string;
  readonly label: string;
  readonly expression: Expression;
};

export type DesiredIndex = {
  readonly columns: readonly string[];
  readonly unique: boolean;
  readonly predicate: Expression | null;
  readonly label: string;
  readonly named: boolean;
  readonly at: string;
};

export type DesiredPolicy = {
  readonly command: Command;
  readonly permissive: boolean;
  readonly using: Expression | null;
  readonly check: Expression | null;
  readonly name: string | null;
  readonly at: string;
};

export type DesiredStoragePolicy = DesiredPolicy & { readonly bucket: string };

export type DesiredReference = {
  readonly column: string;
  readonly bucket: string;
  readonly cascade: boolean;
};

export type DesiredFunction = {
  readonly schema: string;
  readonly name: string;
  readonly model: FunctionModel;
  /** `("a" integer, "b" text default 'x') returns …` up to and without the body. */
  readonly head: string;
  readonly body: string;
  readonly at: string;
  readonly normal: FunctionNormalForm | null;
};

export type FunctionNormalForm = {
  readonly arguments: string;
  readonly argumentTypes: readonly string[];
  readonly argumentNames: readonly string[];
  readonly defaults: number;
  readonly result: string;
};

/** Types of referenced columns outside the file, by `schema.table.column`. */
export type OutsideTypes = ReadonlyMap<string, string>;

export function columnKey(schema: string, table: string, column: string): string {
  return `${tableKey(schema, table)}.${column}`;
}

/** Referenced columns whose type only the database knows. */
export function outsideReferences(model: SchemaModel): { schema: string; table: string; column: string }[] {
  const known = new Set(model.tables.map((table) => tableKey(table.schema, table.name)));
  return model.tables.flatMap((table) =>
    table.columns.flatMap((column) => {
      const target = column.foreignKey;
      return target && !known.has(tableKey(target.schema, target.table)) ? [target] : [];
    }),
  );
}

/**
 * `inRings`: tables whose policies stay as they were written. `only`: the tables wanted, by `schema.table`; functions
 * and storage policies are few and always there.
 */
export function toDesired(
  model: SchemaModel,
  resolve: TypeResolver,
  inRings: ReadonlySet<string>,
  only: ReadonlySet<string> | null = null,
): Desired {
  const tables = model.tables.filter(
    (table) => only === null || only.has(tableKey(table.schema, table.name)),
  );
  return {
    tables: tables.map((table) => toTable(table, resolve, inRings.has(keyOf(table)))),
    functions: model.functions.map(toFunction),
    storagePolicies: model.buckets.flatMap((bucket) =>
      bucket.policies.flatMap((policy) =>
        toStoragePolicies(bucket.name, policy, inRings.has(STORAGE_OBJECTS)),
      ),
    ),
  };
}

const SERIALS: Record<string, string> = {
  bigserial: 'bigint',
  serial8: 'bigint',
  serial: 'integer',
  serial4: 'integer',
  smallserial: 'smallint',
  serial2: 'smallint',
};

/** A column's type as sent to the server, taken over from the referenced column where it has none of its own. */
export type TypeResolver = (column: ColumnModel) => string;

// Follows references column by column. A cycle without any declared type has no answer; the file check names it,
// here it must only not loop.
export function typeResolver(model: SchemaModel, outside: OutsideTypes): TypeResolver {
  const tables = new Map(model.tables.map((table) => [tableKey(table.schema, table.name), table]));
  const longest = model.tables.reduce((sum, table) => sum + table.columns.length, 0);
  const follow = (column: ColumnModel, seen: number): string => {
    if (column.type !== null) return SERIALS[column.type.trim().toLowerCase()] ?? column.type;
    const target = column.foreignKey;
    if (!target || seen > longest) return '';
    const columns = tables.get(tableKey(target.schema, target.table))?.columns;
    const next = columns?.find((one) => one.name === target.column);
    return next
      ? follow(next, seen + 1)
      : (outside.get(columnKey(target.schema, target.table, target.column)) ?? '');
  };
  return (column) => follow(column, 0);
}

function toTable(table: TableModel, resolve: TypeResolver, inRing: boolean): DesiredTable {
  const columns = table.columns.map((column) => toColumn(table, column, resolve));
  const typeOf = new Map(columns.map((column) => [column.name, column.typeSql]));
  return {
    schema: table.schema,
    name: table.name,
    model: table,
    columns,
    keys: toKeys(table),
    foreignKeys: table.columns.flatMap((column) => toForeignKey(table, column)),
    checks: table.columns.flatMap((column) => toChecks(table, column, typeOf.get(column.name) ?? '')),
    indexes: table.indexes.map((index) => ({
      columns: index.columns,
      unique: index.unique,
      predicate: index.where === null ? null : expression(index.where, `${index.at}.where`),
      label: index.name ?? indexLabel(table.name, index.columns, index.unique, index.where),
      named: index.name !== null,
      at: index.at,
    })),
    policies: typeof table.rls === 'string' ? [] : table.rls.flatMap((policy) => toPolicies(policy, inRing)),
    references: table.columns.flatMap((column) =>
      column.ref ? [{ column: column.name, ...column.ref }] : [],
    ),
    rowSecurity: typeof table.rls !== 'string',
    at: table.at,
  };
}

function toColumn(table: TableModel, column: ColumnModel, resolve: TypeResolver): DesiredColumn {
  const typeSql = resolve(column);
  const serial = column.type !== null && column.type.trim().toLowerCase() in SERIALS;
  const text = column.default === null ? null : defaultSql(column.default, typeSql);
  return {
    name: column.name,
    typeSql,
    type: '',
    serial,
    notNull: column.required || column.primaryKey || serial,
    default:
      text === null || serial ? null : { sql: text, written: text, at: `${column.at}.default`, normal: '' },
    model: column,
    at: column.at,
  };
}

function toKeys(table: TableModel): DesiredKey[] {
  const primary = table.columns.filter((column) => column.primaryKey).map((column) => column.name);
  const keys: DesiredKey[] = [];
  if (primary.length > 0) {
    keys.push({ kind: 'primary', columns: primary, label: primaryKeyLabel(table.name), at: table.at });
  }
  for (const column of table.columns) {
    if (!column.unique) continue;
    keys.push({
      kind: 'unique',
      columns: [column.name],
      label: uniqueLabel(table.name, [column.name]),
      at: `${column.at}.unique`,
    });
  }
  return keys;
}

function toForeignKey(table: TableModel, column: ColumnModel): DesiredForeignKey[] {
  const target = column.foreignKey;
  if (!target) return [];
  return [
    {
      column: column.name,
      targetSchema: target.schema,
      targetTable: target.table,
      targetColumn: target.column,
      onDelete: target.onDelete,
      label: foreignKeyLabel(table.name, column.name),
      at: `${column.at}.foreign_key`,
    },
  ];
}

function toChecks(table: TableModel, column: ColumnModel, type: string): DesiredCheck[] {
  const name = quoteIdent(column.name);
  const checks: DesiredCheck[] = [];
  const add = (role: CheckRole, sql: string, written: string, key: string): void => {
    const label = checkLabel(table.name, column.name, role);
    checks.push({
      role,
      column: column.name,
      label,
      expression: { sql, written, at: `${column.at}.${key}`, normal: '' },
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

// A bound is digits in the file; anything else is quoted and left to the server to refuse.
function number(text: string): string {
  return /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text) ? text : quoteLiteral(text);
}

const ALL_OPERATIONS = 4;

function toPolicies(policy: PolicyModel, inRing: boolean): DesiredPolicy[] {
  const commands: readonly Command[] =
    new Set(policy.operations).size === ALL_OPERATIONS ? ['all'] : [...new Set(policy.operations)];
  return commands.map((command) => {
    const clauses = clausesOf(policy, command);
    const { using, check } = inRing && mayCloseRing(command, clauses) ? clauses : withCallerOnce(clauses);
    return { command, permissive: policy.permissive, using, check, name: policy.name, at: policy.at };
  });
}

type Clauses = { readonly using: Expression | null; readonly check: Expression | null };

// A table that is met again is read there, so what is said of inserts and deletes has no part in it. And where
// PostgreSQL looks into the policy anyway, one more sub-select that reads nothing makes no difference.
function mayCloseRing(command: Command, { using, check }: Clauses): boolean {
  if (command === 'insert' || command === 'delete') return false;
  return ![using, check].some((one) => one !== null && holdsSubSelect(one.sql));
}

function withCallerOnce({ using, check }: Clauses): Clauses {
  return {
    using: using && { ...using, sql: wrapCallerHelpers(using.sql) },
    check: check && { ...check, sql: wrapCallerHelpers(check.sql) },
  };
}

function clausesOf(policy: PolicyModel, command: Command): Clauses {
  const clause = (key: 'using' | 'withCheck' | 'check'): Expression | null => {
    const text = policy[key];
    return text === null
      ? null
      : expression(text, `${policy.at}.${key === 'withCheck' ? 'with_check' : key}`);
  };
  const visible = clause('using') ?? clause('check');
  switch (command) {
    case 'select':
    case 'delete':
      return { using: visible, check: null };
    case 'insert':
      return { using: null, check: clause('withCheck') ?? clause('check') ?? clause('using') };
    case 'update':
    case 'all': {
      const written = clause('withCheck') ?? clause('check');
      // Without WITH CHECK the server applies USING to new rows too, so repeating it would only be noise.
      return { using: visible, check: written && written.sql === visible?.sql ? null : written };
    }
  }
}

function toStoragePolicies(bucket: string, policy: PolicyModel, inRing: boolean): DesiredStoragePolicy[] {
  return toPolicies(policy, inRing).flatMap((one) => {
    if (one.using === null && one.check === null) return [];
    const using = one.using && inBucket(bucket, policy.permissive, one.using);
    const check = one.check && inBucket(bucket, policy.permissive, one.check);
    return [{ ...one, using, check, bucket }];
  });
}

// A restrictive policy is written the other way round: with AND it would hide every other bucket.
function inBucket(bucket: string, permissive: boolean, expression: Expression): Expression {
  const condition = permissive
    ? `bucket_id = ${quoteLiteral(bucket)} and`
    : `bucket_id <> ${quoteLiteral(bucket)} or`;
  return { ...expression, sql: `${condition} (\n${expression.sql}\n)` };
}

function expression(text: string, at: string): Expression {
  return { sql: text, written: text, at, normal: '' };
}

function toFunction(model: FunctionModel): DesiredFunction {
  let defaulted = false;
  const args = model.args.map((arg) => {
    const text = arg.default === null ? (arg.required ? null : 'null') : defaultSql(arg.default, arg.type);
    // The server wants a default on everything behind the first one; whether a value is required, the API checks.
    const value = text ?? (defaulted ? 'null' : null);
    defaulted ||= value !== null;
    return `${quoteIdent(arg.name)} ${arg.type}${value === null ? '' : ` default ${value}`}`;
  });
  const security = model.definer ? 'security definer set search_path = public, pg_temp' : 'security invoker';
  return {
    schema: model.schema,
    name: model.name,
    model,
    head: `(${args.join(', ')}) returns ${model.returns} language ${model.language} ${model.volatility} ${security}`,
    body: model.body.trimEnd(),
    at: model.at,
    normal: null,
  };
}

/** Body quoting that no body can break out of: the tag is made longer until the body does not contain it. */
export function bodyLiteral(body: string): string {
  let tag = '$svc$';
  // A body may also end in what begins the tag.
  for (let n = 1; `${body}${tag}`.indexOf(tag) < body.length; n += 1) tag = `$svc${n}$`;
  return `${tag}${body}${tag}`;
}

export function createFunctionSql(fn: DesiredFunction): string {
  return `create or replace function ${quoteIdent(fn.schema)}.${quoteIdent(fn.name)}${fn.head} as ${bodyLiteral(fn.body)}`;
}

const MOMENTS = new Set([
  'timestamp',
  'timestamptz',
  'timestamp with time zone',
  'timestamp without time zone',
  'date',
]);
const TIMES = new Set(['time', 'timetz', 'time with time zone', 'time without time zone']);

export function defaultSql(value: DefaultModel, type: string): string {
  switch (value.kind) {
    case 'sql':
      return `(\n${value.text}\n)`;
    case 'json':
      return quoteLiteral(value.text);
    case 'list':
      // On json and jsonb a list is a JSON array; on anything else the server says what is wrong with it.
      if (!isArray(type)) return quoteLiteral(value.json);
      return value.items.length === 0
        ? `'{}'`
        : `array[${value.items.map((item) => quoteLiteral(item)).join(', ')}]::${type}`;
    case 'literal':
      return literalDefault(value.text, type);
  }
}

// Literals are sent quoted and coerced by the server to the column's type: `'5'` on an integer column is 5, and no
// digit passes through a JavaScript number.
function literalDefault(text: string, type: string): string {
  const base = type
    .toLowerCase()
    .replace(/\([^)]*\)/g, '')
    .replace(/\s+/g, ' ')
    .trim();
  const word = text.trim().toLowerCase();
  if (word === 'now()' && (MOMENTS.has(base) || TIMES.has(base))) return 'now()';
  if (word === 'current_timestamp' && (MOMENTS.has(base) || TIMES.has(base))) return 'current_timestamp';
  if (word === 'current_date' && MOMENTS.has(base)) return 'current_date';
  if (word === 'current_time' && TIMES.has(base)) return 'current_time';
  if (base === 'uuid') {
    if (word === 'uuid_v4()' || word === 'uuid_v7()' || word === 'gen_random_uuid()')
      return 'gen_random_uuid()';
    if (word === 'auth.uid()') return 'auth.uid()';
  }
  if ((base === 'json' || base === 'jsonb') && !isJson(text)) return quoteLiteral(JSON.stringify(text));
  return quoteLiteral(text);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function isArray(type: string): boolean {
  return /\]\s*$|\barray\b/i.test(type);
}
