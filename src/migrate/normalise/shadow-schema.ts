// Has the server read every declared expression and print it back, so that equality is the server's judgement and
// never a comparison of the user's text. The declared tables are built, empty, under their true names in a transaction
// that cannot commit; the real schemas have another name meanwhile, which no other session sees.
import type { DesiredIndex } from '../schema/indexes.ts';
import { randomBytes } from 'node:crypto';
import { plainOrQuoted, quoteIdent, quoteLiteral, raw, sql } from '../../postgres/sql.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import type { Desired, DesiredFunction, DesiredTable, DesiredType, TypeForm } from '../schema/desired.ts';
import { createExtensionSql } from '../schema/sql/extension-sql.ts';
import { createCheckedSql, createFunctionSql } from '../schema/sql/function-sql.ts';
import { indexBodySql, optionsSql } from '../schema/sql/index-sql.ts';
import type { Live, LiveFunction, LiveTable, LiveType } from '../schema/live/live-schema.ts';
import { recordMade } from '../schema/live/live-statements.ts';
import { readLiveInside } from '../schema/live/read-live.ts';
import { BLOCKS, copyOf, HOSTS, perHost } from '../schema/rights/hosts.ts';
import { type IndexModel, keyOf, nameOf, tableKey } from '../schema/model.ts';
import { type Check, type Generated, type Key, type Policy, primaryKeyOf } from '../schema/relation.ts';
import { generatedSql, typeOf } from '../schema/sql/column-sql.ts';
import { MigrationRefused, type MigrationProblem } from '../problem.ts';
import { wordsOf } from '../../lib/sql/sql-text.ts';
import { createPartitionSql, partitionBySql } from '../schema/partitions.ts';
import { createSequenceSql } from '../schema/sequences.ts';
import {
  type DesiredStatement,
  inOrderOfKinds,
  namesOfRange,
  phaseOf,
  type StatementForm,
} from '../schema/statements.ts';
import { createTypeSql, domainChecks, inOrderOfUse, typesOf } from '../schema/types.ts';
import {
  readNormalForms,
  readPolicyNormalForms,
  readTriggerNormalForms,
  withNormalForms,
  withPolicyNormalForms,
  withTriggerNormalForms,
} from './normal-forms.ts';
import { NO_USER } from '../schema/row-triggers.ts';
import { createTriggerSql, type DesiredTrigger, USERS } from '../schema/triggers.ts';
import { createViewSql, type DesiredView, type LiveView, namedFirst } from '../schema/views.ts';
import { requalify } from './requalify.ts';
import { markOverloads, type OverloadMarks, refuseTwins } from './shadow-overloads.ts';
import { PRINT_STATEMENTS_AGAIN, readMade } from './shadow-statements.ts';
import { type Piece, type ShadowStatement, toProblem, withoutConsequences } from './shadow-errors.ts';

/** What the shadow needs of a table. */
export type ShadowTable = Pick<DesiredTable, 'schema' | 'name' | 'at'> & {
  readonly keys: readonly Key[];
  readonly columns: ReadonlyArray<{
    readonly name: string;
    readonly typeSql: string;
    readonly collateSql: string;
    readonly default: Piece | null;
    readonly generated: Generated | null;
    readonly callsOwn: boolean;
  }>;
  readonly checks: ReadonlyArray<Pick<Check<Piece>, 'label' | 'expression'>>;
  readonly indexes: ReadonlyArray<
    Pick<DesiredIndex, 'columns' | 'plain' | 'unique' | 'predicate' | 'model' | 'at'>
  >;
  readonly policies: ReadonlyArray<Policy<Piece> & { readonly at: string }>;
  readonly exclusions: DesiredTable['exclusions'];
  readonly onUpdate: DesiredTable['onUpdate'];
  readonly triggers: DesiredTable['triggers'];
  readonly partitioning: DesiredTable['partitioning'];
  /** Storage parameters, which only the server knows. */
  readonly options: DesiredTable['model']['with'];
};

export type Shadow = Omit<Desired, 'tables'> & { readonly tables: readonly ShadowTable[] };

/** The shadow as the catalog shows it, with the names of the real schemas put right again. */
export type ShadowResult = Pick<
  Live,
  'types' | 'tables' | 'functions' | 'hosted' | 'userTriggers' | 'views'
> & {
  /** By their place among the declared ones. */
  readonly statements: ReadonlyMap<number, StatementForm>;
  /** Prints of the indexes of materialized views, by their labels here. */
  readonly viewIndexes: ReadonlyMap<string, string>;
  readonly marks: OverloadMarks;
};

const STATEMENT_TIMEOUT = '60s';

export async function readThroughShadow(
  session: Queryable,
  shadow: Shadow,
  schemas: readonly string[],
): Promise<ShadowResult> {
  const token = `svc_live_${randomBytes(8).toString('hex')}`;
  const statements = buildStatements(shadow, schemas, token, true);
  const whole = await inShadow(session, schemas, token, shadow, async () => {
    try {
      await session.query(raw(statements.map((statement) => statement.sql).join(';\n')));
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      return null;
    }
    return readResult(session, shadow, schemas, token);
  });
  if (whole !== null) return whole;
  // Something failed. Once more, one by one, to report everything that is wrong and where.
  return inShadow(session, schemas, token, shadow, async () => {
    const problems = await runOneByOne(
      session,
      buildStatements(shadow, schemas, token, false),
      shadow.types.map((type) => type.name),
    );
    const clean = cleaner(schemas, token);
    const cleaned = problems.map((one) => ({
      ...one,
      message: clean(one.message),
      hint: one.hint && clean(one.hint),
    }));
    if (problems.length > 0) throw new MigrationRefused(cleaned);
    return readResult(session, shadow, schemas, token);
  });
}

async function inShadow<T>(
  session: Queryable,
  schemas: readonly string[],
  token: string,
  { extensions, functions, statements }: Pick<Shadow, 'extensions' | 'functions' | 'statements'>,
  work: () => Promise<T>,
): Promise<T> {
  const settings = {
    statement_timeout: STATEMENT_TIMEOUT,
    idle_in_transaction_session_timeout: STATEMENT_TIMEOUT,
    check_function_bodies: 'off',
    client_min_messages: 'error',
  };
  return await inDiscardedTransaction(session, settings, async () => {
    // Two equal values under a deferred unique key: whatever happens below, COMMIT cannot succeed.
    await session.query(
      raw(`create temp table svc_abort_on_commit (n int unique deferrable initially deferred);
        insert into svc_abort_on_commit values (1), (1)`),
    );
    // Before the schemas change their names, so that each comes into the one that the file means.
    if (extensions.length > 0) await session.query(raw(extensions.map(createExtensionSql).join(';\n')));
    const existing = await session.query<{ name: string }>(
      sql`select nspname as name from pg_namespace where nspname = any (${[...schemas, 'extensions']})`,
    );
    const names = new Set(existing.map((row) => row.name));
    const moves = schemas.flatMap((schema, index) => [
      ...(names.has(schema)
        ? [`alter schema ${quoteIdent(schema)} rename to ${realSchema(token, index)}`]
        : []),
      `create schema ${quoteIdent(schema)}`,
    ]);
    const path = ['public', ...(names.has('public') ? [realSchema(token, schemas.indexOf('public'))] : [])];
    if (names.has('extensions')) path.push('extensions');
    await session.query(
      raw(
        `${moves.join(';\n')};\ncreate schema ${copySchema(token)};\nset local search_path = ${path.map(quoteIdent).join(', ')}`,
      ),
    );
    await hideFunctions(
      session,
      token,
      functions.map((fn) => fn.name),
    );
    await hideStatements(session, token, statements);
    return await work();
  });
}

// A function whose signature changes must not be found under its old one, which might even match a call better.
async function hideFunctions(session: Queryable, token: string, functions: readonly string[]): Promise<void> {
  if (functions.length === 0) return;
  const old = await session.query<{ hide: string }>(sql`
    select format('alter routine %s rename to %I', p.oid::regprocedure, 'svc_hidden_' || p.oid) as hide
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where starts_with(n.nspname, ${token}) and p.prokind in ('f', 'p') and p.proname = any (${[...functions]})`);
  if (old.length > 0) await session.query(raw(old.map((row) => row.hide).join(';\n')));
}

/** What the shadow builds must not be found as it is. */
async function hideStatements(
  session: Queryable,
  token: string,
  statements: Shadow['statements'],
): Promise<void> {
  if (statements.length === 0) return;
  const names = statements.filter(({ kind }) => kind === 'aggregate').map(({ name }) => name);
  const old = await session.query<{ hide: string }>(sql`
    select format('alter routine %s rename to %I', p.oid::regprocedure, 'svc_hidden_' || p.oid) as hide
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where starts_with(n.nspname, ${token}) and p.prokind = 'a' and p.proname = any (${names})`);
  const made = `create temp table svc_made (n int, address text, identity text)`;
  await session.query(raw([...old.map((row) => row.hide), made].join(';\n')));
}

function realSchema(token: string, index: number): string {
  return `${token}_${index}`;
}

function copySchema(token: string): string {
  return `${token}_copy`;
}

/**
 * `atOnce`: generated columns are part of their tables, in their order, unless they call a function of the file.
 * Otherwise they replace plain ones later, so that a mistake in one is not taken for a mistake of the whole table.
 */
function buildStatements(
  shadow: Shadow,
  schemas: readonly string[],
  token: string,
  atOnce: boolean,
): ShadowStatement[] {
  const statements: ShadowStatement[] = [];
  const found = finder(shadow, schemas, token);
  const add: Add = (text, from, retry = false, after = ''): void => {
    const sql = found(text);
    // Positions in a text that was changed are not those of the file.
    const piece = typeof from === 'string' ? null : sql === text ? from : { ...from, sql: '' };
    statements.push({ sql: `${sql}${after}`, at: typeof from === 'string' ? from : from.at, piece, retry });
  };
  const createFunction = (fn: DesiredFunction): string => createFunctionSql({ ...fn, body: found(fn.body) });
  const types = inOrderOfUse(shadow.types);
  const addStatements = (isWanted: (one: DesiredStatement) => boolean): void =>
    inOrderOfKinds(shadow.statements)
      .filter(isWanted)
      .forEach((one) => addStatement(one, shadow.statements.indexOf(one), schemas, add));
  const addTypes = (some: readonly DesiredType[]): void => {
    for (const type of some) {
      add(createTypeSql(type), type.at);
      addDomainChecks(type, false, add);
    }
  };
  const ranges = shadow.statements.filter(({ kind }) => kind === 'type');
  const ofRanges = typesOf(new Set(ranges.flatMap(namesOfRange)), types);
  addStatements((one) => phaseOf(one) === 'base' && one.kind !== 'type');
  addTypes(types.filter((type) => !ofRanges.has(type)));
  for (const fn of shadow.functions) if (fn.isOfRange) add(createFunction(fn), fn.at, true);
  addStatements((one) => one.kind === 'type');
  addTypes([...ofRanges]);
  for (const sequence of shadow.sequences) add(createSequenceSql(sequence), sequence.at);
  for (const table of shadow.tables) {
    const columns = table.columns.map(
      (column) =>
        `${quoteIdent(column.name)} ${typeOf(column)}${atOnce && !column.callsOwn ? generatedSql(column) : ''}`,
    );
    const { partitioning, options } = table;
    add(
      `create table ${nameOf(table)} (${columns.join(', ')})${partitionBySql(partitioning)}`,
      partitioning?.at ?? table.at,
    );
    if (options !== undefined)
      add(`alter table ${nameOf(table)} set (${optionsSql(options)})`, `${table.at}.with`);
    for (const one of partitioning?.partitions ?? []) add(createPartitionSql(table, one), one.values);
  }
  addKeys(shadow, add);
  for (const fn of shadow.functions) if (!fn.isOfView && !fn.isOfRange) add(createFunction(fn), fn.at, true);
  addStatements((one) => phaseOf(one) === 'calls');
  for (const type of types) addDomainChecks(type, true, add);
  for (const table of shadow.tables) addGenerated(table, atOnce, add);
  for (const view of namedFirst(shadow.views)) addView(view, add);
  for (const fn of shadow.functions) if (fn.isOfView) add(createFunction(fn), fn.at, true);
  addStatements((one) => phaseOf(one) === 'last');
  shadow.tables.forEach((table, number) => addExpressions(table, number, add));
  shadow.views.forEach((view, number) => addViewIndexes(view, number, copySchema(token), add));
  for (const host of HOSTS) {
    const policies = shadow.hosted[host];
    if (policies.length === 0) continue;
    const copy = copyOf(host, copySchema(token));
    add(`create table ${copy} (like ${host})`, BLOCKS[host]);
    policies.forEach((policy, index) => addPolicy(copy, policy, index, add));
  }
  if (shadow.functions.length > 0) {
    // With every table in place the bodies of SQL functions can be read too.
    add('set local check_function_bodies = on', '');
    for (const fn of shadow.functions)
      add(createCheckedSql({ ...fn, body: found(fn.body) }), `${fn.at}.body`);
  }
  addRowTriggers(shadow, add);
  addTriggers(shadow, `${copySchema(token)}.users`, add);
  return statements;
}

/** With the note of what it has made. */
function addStatement(
  { kind, model, at }: DesiredStatement,
  number: number,
  schemas: readonly string[],
  add: Add,
): void {
  const piece = { sql: model.create, written: model.create, at };
  const record = recordMade(kind, number, schemas);
  add([model.create, ...model.alter].join(';\n'), piece, true, `;\n${record}`);
}

function addTriggers(shadow: Shadow, users: string, add: Add): void {
  const addTo = (relation: string, trigger: DesiredTrigger): void =>
    add(createTriggerSql(trigger, relation), trigger.when ?? trigger.at);
  for (const table of shadow.tables) for (const trigger of table.triggers) addTo(nameOf(table), trigger);
  for (const view of shadow.views) for (const trigger of view.triggers) addTo(nameOf(view), trigger);
  if (shadow.userTriggers.length === 0) return;
  add(`create table ${users} (like ${USERS} including generated)`, 'auth.triggers');
  for (const trigger of shadow.userTriggers) addTo(users, trigger);
}

/** GROUP BY the primary key makes the other columns functionally dependent, which the server knows only with the key. */
function addKeys({ tables, functions, views }: Shadow, add: Add): void {
  const groups = (text: string): boolean => wordsOf(text).has('group');
  if (!functions.some((fn) => groups(fn.body)) && !views.some((view) => groups(view.model.query))) return;
  for (const table of tables) {
    const key = primaryKeyOf(table).map(quoteIdent);
    if (key.length > 0) add(`alter table ${nameOf(table)} add primary key (${key.join(', ')})`, table.at);
  }
}

function addView(view: DesiredView, add: Add): void {
  const { query } = view.model;
  add(createViewSql(view, query), { sql: query, written: query, at: `${view.at}.query` }, true);
}

/** Columns of arrays of the domain, which keep PostgreSQL from adding a check, come between the two calls. */
function addDomainChecks(type: DesiredType, callsOwn: boolean, add: Add): void {
  domainChecks(type).forEach((check, n) => {
    const { expression } = check;
    const alter = `alter domain ${nameOf(type)} add constraint ${domainCheckName(n)}`;
    if (check.callsOwn === callsOwn) add(`${alter} check (\n${expression.sql}\n)`, expression);
  });
}

/** Their expressions, as the triggers' functions will read them: never run, for there is no row. */
function addRowTriggers(shadow: Shadow, add: Add): void {
  for (const table of shadow.tables) {
    const name = nameOf(table);
    for (const { column, expression } of table.onUpdate?.values ?? []) {
      const type = table.columns.find((one) => one.name === column)?.typeSql ?? '';
      add(
        `select (
${expression.sql}
)::${type} from ${name} as old, ${name} as new limit 0`,
        expression,
      );
    }
  }
  if (shadow.newUsers.length === 0) return;
  const path = "select set_config('search_path', current_setting('svc.path'), true)";
  add(
    "select set_config('svc.path', current_setting('search_path'), true), set_config('search_path', '', true)",
    '',
  );
  for (const { table, values, when } of shadow.newUsers) {
    for (const { column, expression } of values)
      add(
        `insert into ${nameOf(table)} (${quoteIdent(column)}) select (
${expression.sql}
) from ${NO_USER} where false`,
        expression,
      );
    if (when !== null)
      add(
        `select from ${NO_USER} where false and (
${when.sql}
)`,
        when,
      );
  }
  add(path, '');
}

/** What the shadow does not build is in the schema that waits for it. */
function finder(shadow: Shadow, schemas: readonly string[], token: string): (text: string) => string {
  const waiting = new Map(schemas.map((schema, index) => [schema, realSchema(token, index)]));
  const built = new Set(
    [
      ...shadow.types,
      ...shadow.sequences,
      ...shadow.statements,
      ...shadow.statements.flatMap(({ schema, model }) =>
        model.multirange === undefined ? [] : [{ schema, name: model.multirange }],
      ),
      ...shadow.tables,
      ...shadow.tables.flatMap(({ partitioning }) => partitioning?.partitions ?? []),
      ...shadow.functions,
      ...shadow.views,
    ].map(keyOf),
  );
  return (text) => requalify(text, waiting, (schema, name) => built.has(tableKey(schema, name)));
}

/**
 * `from`: the user's text in the statement, or the place of a statement without any. `after`: what is run with it and names
 * nothing of the file.
 */
type Add = (text: string, from: string | Piece, retry?: boolean, after?: string) => void;

function addGenerated(table: ShadowTable, atOnce: boolean, add: Add): void {
  for (const column of table.columns) {
    if (column.generated === null || column.default === null || (atOnce && !column.callsOwn)) continue;
    const name = quoteIdent(column.name);
    add(
      `alter table ${nameOf(table)} drop column ${name}, add column ${name} ${typeOf(column)}${generatedSql(column)}`,
      column.default,
    );
  }
}

function addExpressions(table: ShadowTable, number: number, add: Add): void {
  const name = nameOf(table);
  for (const column of table.columns) {
    const text = `alter table ${name} alter column ${quoteIdent(column.name)} set default`;
    if (column.default !== null && column.generated === null)
      add(`${text} ${column.default.sql}`, column.default);
  }
  for (const { label, expression } of table.checks) {
    const constraint = `constraint ${quoteIdent(label)} check (
${expression.sql}
)`;
    add(`alter table ${name} add ${constraint}`, expression);
  }
  table.indexes.forEach((index, position) => {
    const { columns, plain, predicate } = index;
    const label = indexLabel(number, position);
    if (!plain) return addIndex(index, label, name, add);
    if (predicate === null) return;
    const on = `${name} (${columns.map(quoteIdent).join(', ')})`;
    add(
      `create index ${label} on ${on} where (
${predicate.sql}
)`,
      predicate,
    );
  });
  table.exclusions.forEach(({ sql, at }, position) =>
    add(`alter table ${name} add constraint ${exclusionLabel(number, position)} ${sql}`, at),
  );
  table.policies.forEach((policy, index) => addPolicy(name, policy, index, add));
}

function addIndex(
  { unique, predicate, model, at }: ShadowTable['indexes'][number],
  label: string,
  name: string,
  add: Add,
): void {
  const where = predicate === null ? '' : ` where (\n${predicate.sql}\n)`;
  const create = `create ${unique ? 'unique ' : ''}index ${label} on ${name} ${indexBodySql(model)}${where}`;
  add(create, pieceOf(model) ?? predicate ?? at);
}

/** A materialized view is a plain one here, which has the same print; a table of its columns has the indexes. */
function addViewIndexes(view: DesiredView, number: number, schema: string, add: Add): void {
  if (view.indexes.length === 0) return;
  const copy = `${schema}.${rowsOfView(number)}`;
  add(`create table ${copy} as select * from ${nameOf(view)} with no data`, view.at);
  view.indexes.forEach((index, position) => addIndex(index, viewIndexLabel(number, position), copy, add));
}

/** The first expression: the one that the server most likely complains about. */
function pieceOf({ columns, at }: IndexModel): Piece | null {
  const position = columns.findIndex((part) => typeof part !== 'string' && part.expression !== undefined);
  const part = columns[position];
  if (part === undefined || typeof part === 'string' || part.expression === undefined) return null;
  return { sql: part.expression, written: part.expression, at: `${at}.columns[${position}].expression` };
}

function addPolicy(table: string, policy: ShadowTable['policies'][number], index: number, add: Add): void {
  const kind = policy.permissive ? 'permissive' : 'restrictive';
  const using = policy.using ? ` using (\n${policy.using.sql}\n)` : '';
  const check = policy.check ? ` with check (\n${policy.check.sql}\n)` : '';
  add(
    `create policy ${policyLabel(index)} on ${table} as ${kind} for ${policy.command}${using}${check}`,
    policy.using ?? policy.check ?? policy.at,
  );
}

async function runOneByOne(
  session: Queryable,
  statements: readonly ShadowStatement[],
  types: readonly string[],
): Promise<MigrationProblem[]> {
  // A function whose default calls a later function succeeds in the second pass.
  for (let pending = statements; ;) {
    let again = false;
    const failed: { statement: ShadowStatement; error: Error }[] = [];
    for (const statement of pending) {
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
    if (!again) return withoutConsequences(failed.map((one) => toProblem(one.statement, one.error, types)));
    pending = failed.map((one) => one.statement);
  }
}

// A print may change once more when it is read again, and views and atomic bodies are made from their print.
function printAgain(schemas: readonly string[]): string {
  const within = `n.nspname in (${schemas.map((schema) => quoteLiteral(schema)).join(', ')})`;
  return `do $$ declare v record; begin
    perform set_config('search_path', 'pg_catalog', true);
    for v in select c.oid, n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind = 'v' and ${within} loop
      execute format('create or replace view %I.%I as %s', v.nspname, v.relname, pg_get_viewdef(v.oid));
    end loop;
    for v in select p.oid from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where p.prosqlbody is not null and ${within} loop
      execute pg_get_functiondef(v.oid);
    end loop; end $$`;
}

async function readResult(
  session: Queryable,
  shadow: Shadow,
  schemas: readonly string[],
  token: string,
): Promise<ShadowResult> {
  const marks = await markOverloads(session, shadow.functions, finder(shadow, schemas, token));
  const isAtomic = shadow.functions.some(({ model }) => model.atomic);
  if (shadow.views.length > 0 || isAtomic) await session.query(raw(printAgain(schemas)));
  if (shadow.statements.some((one) => phaseOf(one) === 'last'))
    await session.query(raw(PRINT_STATEMENTS_AGAIN));
  const copy = copySchema(token);
  const live = await readLiveInside(session, [...schemas, copy]);
  const cleaned = { ...cleanNames(live, schemas, token), views: cleanViews(live, schemas, token) };
  const users = cleaned.tables.get(tableKey(copy, 'users'));
  return {
    ...cleaned,
    statements:
      shadow.statements.length === 0
        ? new Map()
        : await readMade(session, shadow.statements, live, cleaner(schemas, token)),
    marks,
    viewIndexes: new Map(
      [...cleaned.tables.values()]
        .filter(({ schema }) => schema === copy)
        .flatMap(({ indexes }) => indexes.map(({ label, definition }) => [label, definition] as const)),
    ),
    hosted: perHost((host) => cleaned.tables.get(copyOf(host, copy))?.policies ?? []),
    userTriggers: (users?.triggers ?? []).map((trigger) => ({
      ...trigger,
      definition: trigger.definition.replace(` ON ${copy}.users `, ` ON ${USERS} `),
    })),
  };
}

function cleaner(schemas: readonly string[], token: string): (text: string) => string {
  const names = schemas.map(
    (schema, index) => [`${realSchema(token, index)}.`, `${plainOrQuoted(schema)}.`] as const,
  );
  return (text) => names.reduce((result, [from, to]) => result.replaceAll(from, to), text);
}

// What the shadow did not build was found in the real schemas and prints with their temporary names.
function cleanNames(
  live: Live,
  schemas: readonly string[],
  token: string,
): Pick<Live, 'types' | 'tables' | 'functions'> {
  const clean = cleaner(schemas, token);
  const maybe = (text: string | null): string | null => (text === null ? null : clean(text));
  const tables = [...live.tables].map(([key, table]): [string, LiveTable] => [
    key,
    {
      ...table,
      columns: new Map(
        [...table.columns].map(([name, column]) => [
          name,
          {
            ...column,
            type: clean(column.type),
            default: maybe(column.default),
            collation: maybe(column.collation),
          },
        ]),
      ),
      checks: table.checks.map((check) => ({ ...check, expression: clean(check.expression) })),
      indexes: table.indexes.map((index) => ({
        ...index,
        predicate: maybe(index.predicate),
        definition: clean(index.definition),
      })),
      exclusions: table.exclusions.map((one) => ({ ...one, definition: clean(one.definition) })),
      policies: table.policies.map((policy) => ({
        ...policy,
        using: maybe(policy.using),
        check: maybe(policy.check),
      })),
      triggers: table.triggers.map((trigger) => ({ ...trigger, definition: clean(trigger.definition) })),
      partitioning: table.partitioning && {
        ...table.partitioning,
        key: clean(table.partitioning.key),
        partitions: table.partitioning.partitions.map((one) => ({
          ...one,
          bound: clean(one.bound),
          by: one.by && { ...one.by, key: clean(one.by.key) },
        })),
      },
    },
  ]);
  const functions = [...live.functions].map(([key, group]): [string, LiveFunction[]] => [
    key,
    group.map((fn) => ({
      ...fn,
      body: fn.atomic ? clean(fn.body) : fn.body,
      arguments: clean(fn.arguments),
      argumentTypes: fn.argumentTypes.map(clean),
      result: clean(fn.result),
      outputs: fn.outputs?.map(clean),
    })),
  ]);
  const types = [...live.types].map(([key, type]): [string, LiveType] => [
    key,
    {
      ...type,
      domain: type.domain && {
        ...type.domain,
        base: clean(type.domain.base),
        default: maybe(type.domain.default),
        collation: maybe(type.domain.collation),
        checks: type.domain.checks.map((check) => ({ ...check, expression: clean(check.expression) })),
      },
      attributes: type.attributes.map((one) => ({ ...one, type: clean(one.type) })),
    },
  ]);
  return { types: new Map(types), tables: new Map(tables), functions: new Map(functions) };
}

function cleanViews(live: Live, schemas: readonly string[], token: string): Live['views'] {
  const clean = cleaner(schemas, token);
  const real = new Map(schemas.map((schema, index) => [`${realSchema(token, index)}.`, `${schema}.`]));
  const cleanKey = (key: string): string => {
    const schema = key.slice(0, key.indexOf('.') + 1);
    return `${real.get(schema) ?? schema}${key.slice(schema.length)}`;
  };
  return new Map(
    [...live.views].map(([key, view]): [string, LiveView] => [
      key,
      {
        ...view,
        definition: clean(view.definition),
        columns: view.columns.map((column) => ({ ...column, type: clean(column.type) })),
        reads: view.reads.map(cleanKey),
        triggers: view.triggers.map((one) => ({ ...one, definition: clean(one.definition) })),
      },
    ]),
  );
}

/** `number` keeps the names of indexes apart, which are unique in their schema. */
function indexLabel(table: number, position: number): string {
  return `svc_i_${table}_${position}`;
}

function rowsOfView(number: number): string {
  return `view_${number}`;
}

function viewIndexLabel(view: number, position: number): string {
  return `svc_v_${view}_${position}`;
}

function exclusionLabel(table: number, position: number): string {
  return `svc_x_${table}_${position}`;
}

function domainCheckName(number: number): string {
  return `svc_d_${number}`;
}

function policyLabel(index: number): string {
  return `p${index}`;
}

/** The declarations with the normal forms the server gives them in a shadow schema. */
export async function normaliseInShadow(
  session: Queryable,
  desired: Desired,
  schemas: readonly string[],
  live: ReadonlyMap<string, LiveTable>,
): Promise<Desired> {
  const tables = desired.tables.map((table) => ({
    ...inLiveOrder(table, live.get(keyOf(table))),
    options: table.model.with,
  }));
  const result = await readThroughShadow(session, { ...desired, tables }, schemas);
  refuseTwins(desired.functions, result.marks);
  return {
    types: desired.types.map((type) => {
      const built = result.types.get(keyOf(type));
      return built ? { ...type, normal: formOf(type, built) } : type;
    }),
    tables: desired.tables.map((table, number) => {
      const built = result.tables.get(keyOf(table));
      if (!built) return table;
      const labels = {
        index: (_index: unknown, position: number) => indexLabel(number, position),
        exclusions: table.exclusions.map((_one, position) => exclusionLabel(number, position)),
        policies: table.policies.map((_policy, index) => policyLabel(index)),
      };
      return withNormalForms(table, readNormalForms(table, built, labels));
    }),
    extensions: desired.extensions,
    sequences: desired.sequences,
    statements: desired.statements.map((one, n) => ({ ...one, normal: result.statements.get(n) ?? null })),
    functions: desired.functions.map((fn) => withSignature(fn, result)),
    views: desired.views.map((view, number) => withForm(view, number, result)),
    newUsers: desired.newUsers,
    userTriggers: withTriggerNormalForms(
      desired.userTriggers,
      readTriggerNormalForms(desired.userTriggers, result.userTriggers),
    ),
    hosted: perHost((host) => {
      const labels = desired.hosted[host].map((_policy, index) => policyLabel(index));
      return withPolicyNormalForms(desired.hosted[host], readPolicyNormalForms(result.hosted[host], labels));
    }),
  };
}

/** Columns as they are in the database and as the plan will add them, which is what `select *` yields. */
function inLiveOrder(table: DesiredTable, live: LiveTable | undefined): DesiredTable {
  if (!live) return table;
  const rank = ({ name, default: value }: DesiredTable['columns'][number]): number =>
    live.columns.get(name)?.number ?? (value === null ? 10_000 : 10_001);
  return { ...table, columns: table.columns.toSorted((a, b) => rank(a) - rank(b)) };
}

function withForm(view: DesiredView, number: number, { views, viewIndexes }: ShadowResult): DesiredView {
  const built = views.get(keyOf(view));
  if (!built) return view;
  const { definition, columns, reads } = built;
  const indexes = view.indexes.map(
    (_index, position) => viewIndexes.get(viewIndexLabel(number, position)) ?? '',
  );
  const triggers = readTriggerNormalForms(view.triggers, built.triggers);
  return {
    ...view,
    normal: {
      definition,
      columns,
      reads,
      ...(indexes.length === 0 ? {} : { indexes }),
      ...(triggers.length === 0 ? {} : { triggers }),
    },
  };
}

function formOf({ model }: DesiredType, { domain, attributes }: LiveType): TypeForm {
  if (model.kind === 'composite') return { kind: 'composite', attributes };
  if (model.kind === 'enum' || domain === null) return { kind: 'enum' };
  const checks = (model.checks ?? []).map(
    (_text, n) => domain.checks.find(({ label }) => label === domainCheckName(n))?.expression ?? '',
  );
  return { kind: 'domain', base: domain.base, default: domain.default, collation: domain.collation, checks };
}

function withSignature(fn: DesiredFunction, { functions, marks }: ShadowResult): DesiredFunction {
  const overloads = functions.get(keyOf(fn)) ?? [];
  const found = overloads.find(({ oid }) => marks.get(oid) === fn.at) ?? overloads[0];
  if (!found) return fn;
  const { argumentTypes, argumentNames, defaults, result, outputs } = found;
  const settings = fn.model.settings ? { settings: found.settings } : {};
  return {
    ...fn,
    normal: {
      arguments: found.arguments,
      argumentTypes,
      argumentNames,
      defaults,
      result,
      ...(outputs ? { outputs } : {}),
      ...settings,
      ...(fn.model.atomic ? { atomicBody: found.body } : {}),
    },
  };
}
