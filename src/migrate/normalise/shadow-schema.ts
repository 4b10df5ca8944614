// Lets the server read every declared expression and print it back, so that equality is the server's judgement
// and never a comparison of somebody's text. The declared tables are built, empty, under their true names in a
// transaction that cannot commit; the real schemas wait meanwhile under another name, invisible to nobody else.
import { randomBytes } from 'node:crypto';
import { quoteIdent, raw, sql } from '../../postgres/sql.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import {
  createFunctionSql,
  type Desired,
  type DesiredFunction,
  type DesiredIndex,
  type DesiredStoragePolicy,
  type DesiredTable,
  type Expression,
} from '../schema/desired.ts';
import type { Live, LiveFunction, LivePolicy, LiveTable } from '../schema/live-schema.ts';
import { readLiveInside } from '../schema/read-live.ts';
import { tableKey } from '../schema/model.ts';
import { MigrationRefused, problem, type MigrationProblem } from '../problem.ts';
import { scanSql, wordsOf } from '../schema/sql-text.ts';
import { unknownTypeHint } from './unknown-type.ts';

/** A piece of SQL text with its origin. */
export type Piece = { readonly sql: string; readonly written: string; readonly at: string };

export type ShadowTable = {
  readonly schema: string;
  readonly name: string;
  /** Columns; empty where there is none. */
  readonly primaryKey: readonly string[];
  readonly columns: ReadonlyArray<{
    readonly name: string;
    readonly type: string;
    readonly default: Piece | null;
    readonly at: string;
  }>;
  readonly checks: ReadonlyArray<{ readonly label: string; readonly expression: Piece }>;
  readonly indexes: ReadonlyArray<{
    readonly columns: readonly string[];
    readonly where: Piece;
    readonly at: string;
  }>;
  readonly policies: ReadonlyArray<{
    readonly command: string;
    readonly permissive: boolean;
    readonly using: Piece | null;
    readonly check: Piece | null;
    readonly at: string;
  }>;
  readonly at: string;
};

export type Shadow = {
  readonly tables: readonly ShadowTable[];
  readonly functions: readonly DesiredFunction[];
  readonly storagePolicies: readonly DesiredStoragePolicy[];
};

/** The shadow as the catalog shows it, with the waiting schemas' names put right again. */
export type ShadowResult = {
  readonly tables: ReadonlyMap<string, LiveTable>;
  readonly functions: ReadonlyMap<string, readonly LiveFunction[]>;
  readonly storagePolicies: readonly LivePolicy[];
};

type Statement = {
  readonly sql: string;
  readonly at: string;
  readonly piece: Piece | null;
  /** A function may need another one that comes later; everything else must work at once. */
  readonly retry: boolean;
};

const STATEMENT_TIMEOUT = '60s';

export async function readThroughShadow(
  session: Queryable,
  shadow: Shadow,
  schemas: readonly string[],
): Promise<ShadowResult> {
  const token = `svc_live_${randomBytes(8).toString('hex')}`;
  const statements = buildStatements(shadow, token);
  const names = shadow.functions.map((fn) => fn.name);
  const whole = await inShadow(session, schemas, token, names, async () => {
    try {
      await session.query(raw(statements.map((statement) => statement.sql).join(';\n')));
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      return null;
    }
    return readPrinted(session, schemas, token);
  });
  if (whole !== null) return whole;
  // Something does not work. Once more, one by one, to say everything that is wrong and where.
  return inShadow(session, schemas, token, names, async () => {
    const problems = await runOneByOne(session, statements);
    if (problems.length > 0) throw new MigrationRefused(problems);
    return readPrinted(session, schemas, token);
  });
}

async function inShadow<T>(
  session: Queryable,
  schemas: readonly string[],
  token: string,
  functions: readonly string[],
  work: () => Promise<T>,
): Promise<T> {
  await session.query(raw('begin'));
  try {
    // The pill: two equal values under a deferred key. Whatever happens below, COMMIT cannot succeed.
    await session.query(
      raw(`create temp table svc_pill (n int unique deferrable initially deferred);
        insert into svc_pill values (1), (1);
        set local statement_timeout = '${STATEMENT_TIMEOUT}';
        set local idle_in_transaction_session_timeout = '${STATEMENT_TIMEOUT}';
        set local check_function_bodies = off;
        set local client_min_messages = error`),
    );
    const existing = await session.query<{ name: string }>(
      sql`select nspname as name from pg_namespace where nspname = any (${[...schemas, 'extensions']})`,
    );
    const names = new Set(existing.map((row) => row.name));
    const moves = schemas.flatMap((schema, index) => [
      ...(names.has(schema)
        ? [`alter schema ${quoteIdent(schema)} rename to ${waitingName(token, index)}`]
        : []),
      `create schema ${quoteIdent(schema)}`,
    ]);
    const path = ['public', ...(names.has('public') ? [waitingName(token, schemas.indexOf('public'))] : [])];
    if (names.has('extensions')) path.push('extensions');
    await session.query(
      raw(
        `${moves.join(';\n')};\ncreate schema ${twinSchema(token)};\nset local search_path = ${path.map(quoteIdent).join(', ')}`,
      ),
    );
    await hideFunctions(session, token, functions);
    return await work();
  } finally {
    await session.query(raw('rollback'));
  }
}

// A function whose signature changes must not be found under its old one, which may even fit a call better.
async function hideFunctions(session: Queryable, token: string, functions: readonly string[]): Promise<void> {
  if (functions.length === 0) return;
  const old = await session.query<{ hide: string }>(sql`
    select format('alter function %s rename to %I', p.oid::regprocedure, 'svc_hidden_' || p.oid) as hide
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where starts_with(n.nspname, ${token}) and p.prokind = 'f' and p.proname = any (${[...functions]})`);
  if (old.length > 0) await session.query(raw(old.map((row) => row.hide).join(';\n')));
}

function waitingName(token: string, index: number): string {
  return `${token}_${index}`;
}

function twinSchema(token: string): string {
  return `${token}_twin`;
}

function buildStatements(shadow: Shadow, token: string): Statement[] {
  const statements: Statement[] = [];
  const add = (text: string, at: string, piece: Piece | null = null, retry = false): void => {
    statements.push({ sql: text, at, piece, retry });
  };
  for (const table of shadow.tables) {
    const columns = table.columns.map((column) => `${quoteIdent(column.name)} ${column.type}`);
    add(`create table ${nameOf(table)} (${columns.join(', ')})`, table.at);
  }
  for (const fn of shadow.functions) add(createFunctionSql(fn), fn.at, null, true);
  shadow.tables.forEach((table, index) => addExpressions(table, index, add));
  if (shadow.storagePolicies.length > 0) {
    const twin = `${twinSchema(token)}.objects`;
    add(`create table ${twin} (like storage.objects)`, 'storage');
    shadow.storagePolicies.forEach((policy, index) => addPolicy(twin, policy, index, add));
  }
  // Only with the key can the server know that a group has one value of every other column.
  if (shadow.functions.some((fn) => wordsOf(fn.body).has('group')))
    for (const table of shadow.tables) {
      if (table.primaryKey.length > 0)
        add(
          `alter table ${nameOf(table)} add primary key (${table.primaryKey.map(quoteIdent).join(', ')})`,
          table.at,
        );
    }
  if (shadow.functions.length > 0) {
    // With every table in place the bodies of SQL functions can be read too.
    add('set local check_function_bodies = on', '');
    for (const fn of shadow.functions) add(createFunctionSql(fn), `${fn.at}.body`);
  }
  return statements;
}

type Add = (text: string, at: string, piece?: Piece | null) => void;

function addExpressions(table: ShadowTable, tableIndex: number, add: Add): void {
  const name = nameOf(table);
  for (const column of table.columns) {
    if (column.default === null) continue;
    add(
      `alter table ${name} alter column ${quoteIdent(column.name)} set default ${column.default.sql}`,
      column.at,
      column.default,
    );
  }
  for (const { label, expression } of table.checks) {
    add(
      `alter table ${name} add constraint ${quoteIdent(label)} check (\n${expression.sql}\n)`,
      expression.at,
      expression,
    );
  }
  table.indexes.forEach((index, position) => {
    const columns = index.columns.map(quoteIdent).join(', ');
    add(
      `create index ${shadowIndex(tableIndex, position)} on ${name} (${columns}) where (\n${index.where.sql}\n)`,
      index.at,
      index.where,
    );
  });
  table.policies.forEach((policy, index) => addPolicy(name, policy, index, add));
}

function addPolicy(table: string, policy: ShadowTable['policies'][number], index: number, add: Add): void {
  const kind = policy.permissive ? 'permissive' : 'restrictive';
  const using = policy.using ? ` using (\n${policy.using.sql}\n)` : '';
  const check = policy.check ? ` with check (\n${policy.check.sql}\n)` : '';
  add(
    `create policy ${shadowPolicy(index)} on ${table} as ${kind} for ${policy.command}${using}${check}`,
    (policy.using ?? policy.check)?.at ?? policy.at,
    policy.using ?? policy.check,
  );
}

export function shadowIndex(tableIndex: number, position: number): string {
  return `svc_i_${tableIndex}_${position}`;
}

export function shadowPolicy(index: number): string {
  return `p${index}`;
}

async function runOneByOne(
  session: Queryable,
  statements: readonly Statement[],
): Promise<MigrationProblem[]> {
  let waiting = [...statements];
  const problems: MigrationProblem[] = [];
  // A function with a default that calls a later function works in the second pass.
  for (let again = true; again;) {
    again = false;
    const failed: { statement: Statement; error: Error }[] = [];
    for (const statement of waiting) {
      await session.query(raw('savepoint svc_one'));
      try {
        await session.query(raw(statement.sql));
        again ||= failed.some((one) => one.statement.retry);
      } catch (error) {
        if (!isDatabaseError(error)) throw error;
        await session.query(raw('rollback to savepoint svc_one'));
        failed.push({ statement, error });
      }
      await session.query(raw('release savepoint svc_one'));
    }
    const stuck = failed.length === waiting.length || !failed.some((one) => one.statement.retry);
    if (stuck || !again) {
      problems.push(...failed.map((one) => toProblem(one.statement, one.error)));
      return withoutConsequences(problems);
    }
    waiting = failed.map((one) => one.statement);
  }
  return problems;
}

// A table that could not be built makes each of its own declarations fail: only the first is news.
function withoutConsequences(problems: readonly MigrationProblem[]): MigrationProblem[] {
  const broken = problems.filter((one) => /^tables\.[^.]+$/.test(one.at)).map((one) => one.at);
  return problems.filter((one) => !broken.some((at) => one.at.startsWith(`${at}.`)));
}

function toProblem(statement: Statement, error: Error): MigrationProblem {
  const position = 'position' in error ? Number(error.position) : Number.NaN;
  const caret = statement.piece ? caretLines(statement, statement.piece, position, error.message) : '';
  const hint = 'hint' in error && typeof error.hint === 'string' ? error.hint : unknownTypeHint(error);
  return problem('MIG-101', statement.at, `${error.message}${caret}`, hint);
}

function caretLines(statement: Statement, piece: Piece, position: number, message: string): string {
  const offset = offsetOf(statement, piece, position) ?? offsetOfName(piece.written, message);
  if (offset === null || offset < 0 || offset > piece.written.length) return '';
  const start = piece.written.lastIndexOf('\n', offset - 1) + 1;
  const line = piece.written.slice(start).split('\n')[0] ?? '';
  return `\n    ${line}\n    ${' '.repeat(offset - start)}^`;
}

// The server counts characters of the whole statement; the user wrote only the expression inside it.
function offsetOf(statement: Statement, piece: Piece, position: number): number | null {
  if (Number.isNaN(position) || piece.sql !== piece.written) return null;
  return position - 1 - statement.sql.indexOf(piece.sql);
}

// For policies the server gives no position, but it names what it did not find.
function offsetOfName(written: string, message: string): number | null {
  const name = /"([^"]+)"|column ([\w.]+) does not|function ([\w.]+)\(/.exec(message);
  const last = (name?.[1] ?? name?.[2] ?? name?.[3])?.split('.').at(-1);
  if (last === undefined) return null;
  const token = scanSql(written).tokens.find(
    (one) => one.text.toLowerCase() === last.toLowerCase() || one.text === `"${last}"`,
  );
  return token?.start ?? null;
}

async function readPrinted(
  session: Queryable,
  schemas: readonly string[],
  token: string,
): Promise<ShadowResult> {
  const twin = twinSchema(token);
  const live = await readLiveInside(session, [...schemas, twin]);
  const cleaned = cleanNames(live, schemas, token);
  const storage = cleaned.tables.get(tableKey(twin, 'objects'));
  return { tables: cleaned.tables, functions: cleaned.functions, storagePolicies: storage?.policies ?? [] };
}

// What the declarations do not bring themselves was found in the waiting schemas and prints with their names.
function cleanNames(
  live: Live,
  schemas: readonly string[],
  token: string,
): Pick<Live, 'tables' | 'functions'> {
  const names = schemas.map(
    (schema, index) => [`${waitingName(token, index)}.`, `${plainOrQuoted(schema)}.`] as const,
  );
  const clean = (text: string): string =>
    names.reduce((result, [from, to]) => result.replaceAll(from, to), text);
  const maybe = (text: string | null): string | null => (text === null ? null : clean(text));
  const tables = [...live.tables].map(([key, table]): [string, LiveTable] => [
    key,
    {
      ...table,
      columns: new Map(
        [...table.columns].map(([name, column]) => [
          name,
          { ...column, type: clean(column.type), default: maybe(column.default) },
        ]),
      ),
      checks: table.checks.map((check) => ({ ...check, expression: clean(check.expression) })),
      indexes: table.indexes.map((index) => ({ ...index, predicate: maybe(index.predicate) })),
      policies: table.policies.map((policy) => ({
        ...policy,
        using: maybe(policy.using),
        check: maybe(policy.check),
      })),
    },
  ]);
  const functions = [...live.functions].map(([key, group]): [string, LiveFunction[]] => [
    key,
    group.map((fn) => ({
      ...fn,
      arguments: clean(fn.arguments),
      argumentTypes: fn.argumentTypes.map(clean),
      result: clean(fn.result),
    })),
  ]);
  return { tables: new Map(tables), functions: new Map(functions) };
}

function plainOrQuoted(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : quoteIdent(name);
}

function nameOf(table: { readonly schema: string; readonly name: string }): string {
  return `${quoteIdent(table.schema)}.${quoteIdent(table.name)}`;
}

export function shadowOfDesired(table: DesiredTable): ShadowTable {
  return {
    schema: table.schema,
    name: table.name,
    primaryKey: table.keys.find((key) => key.kind === 'primary')?.columns ?? [],
    at: table.at,
    columns: table.columns.map((column) => ({
      name: column.name,
      type: column.typeSql,
      default: column.default,
      at: column.default?.at ?? column.at,
    })),
    checks: table.checks,
    indexes: table.indexes.flatMap((index) =>
      index.predicate === null
        ? []
        : [{ columns: index.columns, where: index.predicate, at: index.predicate.at }],
    ),
    policies: table.policies,
  };
}

/** Under which labels the prints of a table's indexes and policies are found. */
export type PrintLabels = {
  /** `position`: among the table's partial indexes. */
  readonly index: (table: number, index: DesiredIndex, position: number) => string;
  readonly policies: (table: DesiredTable) => readonly string[];
};

const SHADOW_LABELS: PrintLabels = {
  index: (table, _index, position) => shadowIndex(table, position),
  policies: (table) => table.policies.map((_policy, index) => shadowPolicy(index)),
};

/** The declarations with the server's prints filled in. */
export function withNormalForms(
  desired: Desired,
  printed: ShadowResult,
  labels: PrintLabels = SHADOW_LABELS,
): Desired {
  const fill = (expression: Expression | null, text: string | null | undefined): Expression | null =>
    expression === null ? null : { ...expression, normal: text ?? '' };
  return {
    tables: desired.tables.map((table, tableIndex) => {
      const print = printed.tables.get(tableKey(table.schema, table.name));
      if (!print) return table;
      const policies = new Map(print.policies.map((policy) => [policy.label, policy]));
      const indexes = new Map(print.indexes.map((index) => [index.label, index]));
      const checks = new Map(print.checks.map((check) => [check.label, check]));
      const policyLabels = labels.policies(table);
      let partial = 0;
      return {
        ...table,
        columns: table.columns.map((column) => {
          const found = print.columns.get(column.name);
          return { ...column, type: found?.type ?? '', default: fill(column.default, found?.default) };
        }),
        checks: table.checks.map((check) => ({
          ...check,
          expression: { ...check.expression, canonical: checks.get(check.label)?.expression ?? '' },
        })),
        indexes: table.indexes.map((index) => {
          if (index.predicate === null) return index;
          const found = indexes.get(labels.index(tableIndex, index, partial++));
          return { ...index, predicate: fill(index.predicate, found?.predicate) };
        }),
        policies: table.policies.map((policy, index) => {
          const found = policies.get(policyLabels[index] ?? '');
          return {
            ...policy,
            using: fill(policy.using, found?.using),
            check: fill(policy.check, found?.check),
          };
        }),
      };
    }),
    functions: desired.functions.map((fn) => {
      const found = printed.functions.get(tableKey(fn.schema, fn.name))?.[0];
      if (!found) return fn;
      const { argumentTypes, argumentNames, defaults, result } = found;
      return {
        ...fn,
        normal: { arguments: found.arguments, argumentTypes, argumentNames, defaults, result },
      };
    }),
    storagePolicies: desired.storagePolicies.map((policy, index) => {
      const found = printed.storagePolicies.find((one) => one.label === shadowPolicy(index));
      return { ...policy, using: fill(policy.using, found?.using), check: fill(policy.check, found?.check) };
    }),
  };
}
