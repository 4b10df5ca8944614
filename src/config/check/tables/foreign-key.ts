// Foreign keys: the target must exist and be unique. Chains of columns that take their type from the target must end.
import type { KeyPath } from '../../mistakes/mistake.ts';
import { toForeignKey } from '../../schema/tables/reference.ts';
import type { RawField, RawTable } from '../../schema/tables/tables.ts';
import { type CheckContext, didYouMean } from '../context.ts';

/** Tables by `schema.name`. Each foreign key looks up its target here. */
export type Tables = ReadonlyMap<string, TableEntry>;

export function collectTables(context: CheckContext): Tables {
  return new Map(
    Object.entries(context.file.tables).map(([name, table]) => [
      `${table.schema}.${name}`,
      new TableEntry(name, table),
    ]),
  );
}

class TableEntry {
  readonly name: string;
  readonly table: RawTable;
  #columns: ReadonlyMap<string, RawField> | undefined;

  constructor(name: string, table: RawTable) {
    this.name = name;
    this.table = table;
  }

  /** Computed on demand, because most tables are never a target. */
  get columns(): ReadonlyMap<string, RawField> {
    return (this.#columns ??= new Map(this.table.fields.map((field) => [field.name, field])));
  }
}

export function checkForeignKey(context: CheckContext, tables: Tables, field: RawField, at: KeyPath): void {
  if (!field.foreignKey) return;
  const path = [...at, 'references'];
  const { references } = field.foreignKey;
  const parts = references.split('.');
  if (parts.length < 2 || parts.length > 3 || parts.includes(''))
    return context.badValue(
      path,
      `${context.quote(path, references)} does not name a column`,
      tableConstraintHint(field.name, parts),
    );
  for (const [key, action] of [
    ['on_delete', field.foreignKey.onDelete],
    ['on_update', field.foreignKey.onUpdate],
  ] as const) {
    if (action !== 'set_null' || !(field.required || field.primaryKey)) continue;
    const reason = field.primaryKey ? 'part of the primary key' : 'required';
    context.report({
      code: 'conflict',
      path: [...at, key],
      message:
        `set_null cannot empty ${field.name}, which is ${reason}: deleting or changing the referenced row ` +
        'would fail',
      severity: 'warning',
      hint: 'Use cascade or restrict, or remove required.',
    });
  }
  const target = toForeignKey(field.foreignKey);
  // The tables of svc exist without a declaration.
  if (target.schema === 'auth' || target.schema === 'storage') {
    if (target.schema === 'auth' && target.table === 'users' && target.column === 'id') return;
    context.report({
      code: 'unknown-reference',
      path,
      message: `${context.show(path, references)} cannot be referenced`,
      hint: 'The only built-in column that can be referenced is auth.users.id.',
    });
    return;
  }
  const found = tables.get(`${target.schema}.${target.table}`);
  if (!found) {
    if (context.broken.covers(['tables', target.table])) return;
    const written = parts.slice(0, -1).join('.');
    context.report({
      code: 'unknown-reference',
      path,
      message: `there is no table ${context.show(path, written)}`,
      hint: () =>
        findInOtherSchema(tables, target.table, target.column) ??
        didYouMean(written, tableNames(tables)) ??
        'Declare it under tables:.',
    });
    return;
  }
  checkTarget(context, found, target.column, { path, references });
}

function tableConstraintHint(column: string, parts: readonly string[]): string {
  const hasSchema = parts.length > 2;
  const target = `${parts[hasSchema ? 1 : 0]}("${parts.slice(hasSchema ? 2 : 1).join('.')}")`;
  return (
    'Write table.column or schema.table.column. ' +
    `For a name with a dot write constraints: [{ foreign_key: [${column}], references: '${target}' }].`
  );
}

function checkTarget(
  context: CheckContext,
  { name, table, columns }: TableEntry,
  column: string,
  { path, references }: { readonly path: KeyPath; readonly references: string },
): void {
  const fields = ['tables', name, 'fields'];
  if (!columns.has(column)) {
    // The target may be a column with mistakes.
    if (context.broken.touches(fields)) return;
    context.report({
      code: 'unknown-reference',
      path,
      message: `the table ${name} has no column ${context.show(path, column)}`,
      hint: () =>
        didYouMean(column, columns.keys()) ?? `Columns: ${[...columns.keys()].slice(0, 20).join(', ')}.`,
    });
    return;
  }
  const index = table.fields.findIndex((field) => field.name === column);
  if (isUnique(table, [column]) || context.broken.covers([...fields, index])) return;
  if (isOnlyDeferrable(table, [column])) return refuseDeferrable(context, path, references);
  context.conflict(
    path,
    `${context.show(path, references)} is not unique and cannot be referenced`,
    `Give ${column} unique: true, or refer to the primary key.`,
  );
}

export function refuseDeferrable(context: CheckContext, path: KeyPath, references: string): void {
  context.conflict(
    path,
    `the key of ${context.show(path, references)} is deferrable and cannot be referenced`,
    'Remove deferrable from that key, or refer to another key.',
  );
}

/** Suggests a table with the same name in another schema. */
function findInOtherSchema(tables: Tables, table: string, column: string): string | undefined {
  if (table === 'users' && column === 'id' && !tables.has('public.users'))
    return 'Did you mean auth.users.id? Users are in the schema auth.';
  for (const [whole, { name }] of tables) if (name === table) return `Write ${whole}.${column}.`;
  return undefined;
}

export function tableNames(tables: Tables): string[] {
  return [...tables.keys()].map((whole) => whole.replace(/^public\./, ''));
}

/** Returns true if a foreign key can refer to these columns, in any order. */
export function isUnique(table: RawTable, columns: readonly string[]): boolean {
  const isSame = (names: readonly unknown[]): boolean =>
    names.length === columns.length && names.every((name) => columns.some((column) => column === name));
  if (isSame(table.fields.filter((field) => field.primaryKey).map((field) => field.name))) return true;
  if (table.fields.some((field) => field.unique && isSame([field.name]))) return true;
  return (
    table.constraints.some(
      ({ unique, deferrable }) => unique !== undefined && deferrable === undefined && isSame(unique),
    ) ||
    table.indexes.some(
      (index) => index.unique && !index.where && !index.nullsNotDistinct && isSame(index.columns),
    )
  );
}

/** PostgreSQL does not allow references to a deferrable key. */
export function isOnlyDeferrable({ constraints }: RawTable, columns: readonly string[]): boolean {
  return constraints.some(
    ({ unique, deferrable }) =>
      deferrable !== undefined &&
      unique?.length === columns.length &&
      unique.every((column) => columns.includes(column)),
  );
}

/** Reports columns without a type whose foreign keys form a cycle. */
export function checkTypeCycles(context: CheckContext, tables: Tables): void {
  // Columns of visited chains. They are not visited again from the other columns of the chain.
  const settled = new Set<string>();
  for (const [whole, { name, table }] of tables) {
    table.fields.forEach((field, index) => {
      if (field.type !== undefined) return;
      const walked = new Set<string>();
      let key = `${whole}.${field.name}`;
      let current: RawField | undefined = field;
      while (current?.type === undefined && current?.foreignKey && !settled.has(key)) {
        if (walked.has(key)) {
          const ring = [...walked, key].map((member) => member.replace(/^public\./, ''));
          context.conflict(
            ['tables', name, 'fields', index],
            `the type of ${field.name} depends on itself: ${ring.slice(0, 8).join(' → ')}`,
            'Add a type to one of these columns.',
          );
          break;
        }
        walked.add(key);
        const target = toForeignKey(current.foreignKey);
        const next = `${target.schema}.${target.table}`;
        key = `${next}.${target.column}`;
        current = tables.get(next)?.columns.get(target.column);
      }
      // Report a cycle once, at its first column.
      for (const member of walked) settled.add(member);
    });
  }
}
