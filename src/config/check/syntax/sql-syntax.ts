// Parses the SQL texts of the file with the grammar of PostgreSQL, and looks up the columns in conditions of tables.
// Reports only what the server would certainly reject.
import type { Node } from '@pgsql/types';
import { closest } from '../../../lib/text/closest-word.ts';
import { expressionFault } from '../../../lib/sql/sql-text.ts';
import type { KeyPath } from '../../mistakes/mistake.ts';
import type { Place } from '../../read/node-table.ts';

import { childSchema, canBeSql, rootSchema, type SchemaNode } from '../../schema/known-keys.ts';
import { parseSql } from '../../sql/parser.ts';
import type { CheckContext } from '../context.ts';

/** Requires a finished `loadSqlParser`. */
export function checkSqlSyntax(context: CheckContext): void {
  const parse = parseOnce();
  visitSql(context.root, { path: [], schema: rootSchema() }, (path, text) => {
    if (!context.isFull) checkText(context, { path, text, parse });
  });
}

/** Parses each text once: large files repeat their policies, and the parser keeps about 40 kB per text. */
function parseOnce(): typeof parseSql {
  const results = new Map<string, ReturnType<typeof parseSql>>();
  return (text) => {
    const result = results.get(text) ?? parseSql(text);
    results.set(text, result);
    return result;
  };
}

type At = { readonly path: KeyPath; readonly schema: SchemaNode };

function visitSql(place: Place, { path, schema }: At, visit: (path: KeyPath, text: string) => void): void {
  const { scalar } = place;
  // A variable can replace any part of the text, and may be unset here.
  if (scalar && canBeSql(schema) && scalar.kind !== 'null' && !scalar.substituted) visit(path, scalar.text);
  for (const [key, child] of place.children) {
    const step = place.isList ? Number(key) : key;
    visitSql(child, { path: [...path, step], schema: childSchema(schema, step) }, visit);
  }
}

type Form = 'expression' | 'statements' | 'other';

type SqlText = { readonly path: KeyPath; readonly text: string; readonly parse: typeof parseSql };

function checkText(context: CheckContext, { path, text, parse }: SqlText): void {
  const form = toForm(context, path);
  if (form === 'other') return;
  const fault = form === 'expression' ? expressionFault(text) : null;
  if (fault !== null) return refuse(context, path, fault);
  const parsed = parse(form === 'expression' ? `select (\n${text}\n)` : text);
  if (!parsed.ok) return refuse(context, path, parsed.message);
  const nodes = parsed.statements.map(({ node }) => node);
  const operator = foreignOperator(nodes);
  if (operator !== undefined)
    context.badValue(
      path,
      `PostgreSQL has no operator ${operator}`,
      'Write = for equal and <> for not equal.',
    );
  if (form === 'expression') checkColumns(context, path, nodes);
}

function refuse(context: CheckContext, path: KeyPath, message: string): void {
  context.report({
    code: 'sql',
    path,
    message: `PostgreSQL cannot parse this SQL: ${message}`,
    hint: 'Correct the SQL. Within { }, quote a text that contains commas, quotes, braces or #.',
  });
}

function toForm({ file }: CheckContext, path: KeyPath): Form {
  const [top, name] = path;
  const key = path.at(-1);
  if (top === 'views' && key === 'query') return 'statements';
  if (top === 'statements') return 'statements';
  if (top === 'migrations') return 'statements';
  if (top === 'rpc' && key === 'body') {
    const fn = file.rpc[String(name)];
    return fn?.language === 'sql' && fn.atomic !== true ? 'statements' : 'other';
  }
  // Bounds of partitions are a list with its own syntax.
  return key === 'values' ? 'other' : 'expression';
}

/** Operators of other languages, which the parser of PostgreSQL accepts as names of operators. */
const FOREIGN_OPERATORS: ReadonlySet<string> = new Set(['==', '===', '!==']);

function foreignOperator(nodes: readonly unknown[]): string | undefined {
  let found: string | undefined;
  walk(nodes, (kind, node) => {
    if (kind !== 'A_Expr') return;
    const { name = [] } = node as { name?: readonly Node[] };
    const last = nodeText(name.at(-1));
    if (last !== undefined && FOREIGN_OPERATORS.has(last)) found ??= last;
  });
  return found;
}

/** Keys whose expressions can only use the declared columns. */
const OVER_COLUMNS: ReadonlySet<unknown> = new Set([
  'using',
  'with_check',
  'check',
  'where',
  'expression',
  'generated',
]);

function checkColumns(context: CheckContext, path: KeyPath, nodes: readonly unknown[]): void {
  const [top, name, part, , key] = path;
  // `using` of a field refers to the current columns of the database.
  if (top !== 'tables' || !OVER_COLUMNS.has(path.at(-1)) || (part === 'fields' && key === 'using')) return;
  const table = context.file.tables[String(name)];
  if (!table || context.broken.touches(['tables', String(name)])) return;
  const columns = new Set(table.fields.map((field) => field.name));
  walk(nodes, (kind, node) => {
    // A sub-select has its own columns.
    if (kind === 'SubLink') return 'skip';
    if (kind !== 'ColumnRef') return;
    const { fields = [] } = node as { fields?: readonly Node[] };
    const names = fields.map(nodeText);
    const column =
      names.length === 2 && names[0] === name ? names[1] : names.length === 1 ? names[0] : undefined;
    if (column === undefined || columns.has(column) || column === name || SYSTEM_COLUMNS.has(column)) return;
    const near = closest(column, [...columns]);
    context.report({
      code: 'unknown-reference',
      path,
      message: `the table ${String(name)} has no column ${column}`,
      hint:
        near === undefined
          ? `Columns: ${[...columns].slice(0, 20).join(', ')}. Write a text in single quotes: '${column}'.`
          : `Did you mean ${near}?`,
    });
    return;
  });
}

const SYSTEM_COLUMNS: ReadonlySet<string> = new Set(['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid']);

function nodeText(node: Node | undefined): string | undefined {
  if (node === undefined || !('String' in node)) return undefined;
  return node.String.sval;
}

/** Calls `visit` with the kind and the fields of each node. `skip` excludes the nodes below. */
function walk(value: unknown, visit: (kind: string, node: object) => 'skip' | void): void {
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    for (const item of value) walk(item, visit);
    return;
  }
  for (const [kind, child] of Object.entries(value)) {
    const isNode = typeof child === 'object' && child !== null && !Array.isArray(child);
    if (isNode && visit(kind, child) === 'skip') continue;
    walk(child, visit);
  }
}
