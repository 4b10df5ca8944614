// A plan without rows must not evaluate expressions of a draft: an expression can read any table with the privileges of
// svc_owner, and the plan shows whether it fails. PostgreSQL evaluates partition bounds and constant defaults when it
// runs the statement, and calls immutable functions when it prepares an index.
import { typeFamily, isOfPostgres } from '../../../config/check/tables/type-family.ts';
import { scanSql } from '../../../lib/sql/sql-text.ts';
import { type MigrationProblem, problem } from '../../problem.ts';
import type { DesiredFunction, DesiredTable } from '../../schema/desired.ts';
import type { FunctionModel } from '../../schema/model.ts';
import { listedPartitions } from '../../schema/partitions.ts';

/** Keywords of bounds and constants. */
const CONSTANT_WORDS: ReadonlySet<string> = new Set(
  (
    'default in from to with modulus remainder minvalue maxvalue null true false array precision double varying zone ' +
    'without'
  ).split(' '),
);
/** Keywords before parentheses that do not form a function call. */
const BEFORE_PARENTHESES: ReadonlySet<string> = new Set(['in', 'from', 'to', 'with']);

/** Returns whether the text consists of literals of built-in types. */
export function isConstant(sql: string): boolean {
  const tokens = scanSql(sql).tokens.filter(({ kind }) => kind !== 'space' && kind !== 'comment');
  return tokens.every(({ kind, text }, index) => {
    if (kind === 'string' || kind === 'number') return true;
    if (kind === 'symbol') return '(),:[]-+.'.includes(text);
    if (kind === 'quoted') return false;
    const word = text.toLowerCase();
    if (tokens[index + 1]?.text === '(') return BEFORE_PARENTHESES.has(word);
    return CONSTANT_WORDS.has(word) || isOfPostgres(word);
  });
}

/** Returns a problem for each partition bound of a changed table that PostgreSQL would have to evaluate. */
export function computedBounds(
  tables: readonly DesiredTable[],
  isChanged: (table: DesiredTable) => boolean,
): MigrationProblem[] {
  return tables
    .filter(isChanged)
    .flatMap((table) =>
      (table.partitioning?.partitions ?? [])
        .filter(({ values }) => !isConstant(values.sql) || !hasPlainKey(table))
        .map(({ at }) =>
          problem(
            'MIG-101',
            `${at}.values`,
            'PostgreSQL would evaluate an expression or a domain here, and a plan without rows evaluates none',
            'Write literals, and partition by columns of plain types. Or plan with rows: svc migrate plan.',
          ),
        ),
    );
}

/** Returns whether the table is partitioned by columns of built-in types, which have no checks. */
function hasPlainKey({ model, columns }: DesiredTable): boolean {
  const keys = [
    ...(model.partitioning?.key.keys ?? []),
    ...listedPartitions(model).flatMap(({ by }) => by?.keys ?? []),
  ];
  return keys.every((key) => {
    const type = columns.find(({ name }) => name === key)?.typeSql;
    return type !== undefined && isBuiltIn(type);
  });
}

/** Returns whether a type belongs to PostgreSQL. */
export function isBuiltIn(type: string): boolean {
  const name = type
    .toLowerCase()
    .replaceAll(/\([^)]*\)|\[\d*\]/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
  return isOfPostgres(name) || typeFamily(name) !== undefined;
}

/** Adds stub bodies, which read no tables, to the functions that indexes and casts may call. */
export function withStubs(functions: readonly DesiredFunction[]): DesiredFunction[] {
  return functions.map((fn) =>
    // Before rows are read, PostgreSQL calls only immutable functions.
    fn.model.volatility === 'immutable' ? { ...fn, stub: stubBody(fn.model) } : fn,
  );
}

function stubBody({ language, returns, args }: FunctionModel): string {
  const outputs = args.filter(({ mode }) => mode === 'out' || mode === 'inout');
  const isSet = /^(setof|table)\b|^void$/i.test(returns.trim());
  if (language === 'plpgsql')
    return isSet || outputs.length > 0 ? 'begin return; end' : 'begin return null; end';
  const types = outputs.length > 0 ? outputs.map(({ type }) => type) : [returns.replace(/^setof\s/i, '')];
  return `select ${types.map((type) => `null::${type}`).join(', ')}`;
}
