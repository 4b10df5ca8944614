// The shadow schema: the server parses every declared expression and prints it, so that printed forms are compared and
// not the text of the user. The declared tables are created, empty, under their real names in a transaction that cannot
// commit. The real schemas have temporary names in this transaction, which no other session sees.
import { inDiscardedTransaction, type Queryable } from '../../../postgres/owner-database.ts';
import { isDatabaseError } from '../../../postgres/pg-error.ts';
import { quoteIdent, quoteLiteral, raw, sql } from '../../../postgres/sql.ts';
import { type MigrationProblem, MigrationRefused } from '../../problem.ts';
import { readLiveInside } from '../../schema/live/read-live.ts';
import { tableKey } from '../../schema/model.ts';
import { copyName, perHost } from '../../schema/rights/hosts.ts';
import { createExtensionSql } from '../../schema/sql/extension-sql.ts';
import { statementPhase } from '../../schema/statements.ts';
import { USERS } from '../../schema/triggers.ts';
import { buildStatements, createRequalifier } from './build-shadow.ts';
import { cleanNames, cleanViews, createCleaner, createMessageCleaner } from './clean-names.ts';
import { REPRINT_STATEMENTS, readCreatedObjects } from './created-objects.ts';
import { markOverloads } from './overloads.ts';
import { type ShadowStatement, toProblem, withoutConsequences } from './shadow-errors.ts';
import { createShadowNames, type ShadowNames } from './shadow-names.ts';
import type { Shadow, ShadowResult } from './shadow.ts';

const STATEMENT_TIMEOUT = '60s';

export async function readThroughShadow(
  session: Queryable,
  shadow: Shadow,
  schemas: readonly string[],
): Promise<ShadowResult> {
  const names = createShadowNames(schemas);
  const statements = buildStatements(shadow, names, true);
  const result = await inShadow(session, names, shadow, async () => {
    try {
      await session.query(raw(statements.map((statement) => statement.sql).join(';\n')));
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      return null;
    }
    return readResult(session, shadow, names);
  });
  if (result !== null) return result;
  // A statement failed. Run the statements one by one to report all errors with their positions.
  return inShadow(session, names, shadow, async () => {
    const problems = await runOneByOne(
      session,
      buildStatements(shadow, names, false),
      shadow.types.map((type) => type.name),
    );
    const clean = createMessageCleaner(shadow.views, names);
    const cleaned = problems.map((failure) => ({
      ...failure,
      message: clean(failure.message),
      hint: failure.hint && clean(failure.hint),
    }));
    if (problems.length > 0) throw new MigrationRefused(cleaned);
    return readResult(session, shadow, names);
  });
}

async function inShadow<T>(
  session: Queryable,
  { schemas, temporary, copies, prefix }: ShadowNames,
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
    // Two equal values under a deferred unique key make COMMIT fail in any case.
    await session.query(
      raw(`create temp table svc_abort_on_commit (n int unique deferrable initially deferred);
        insert into svc_abort_on_commit values (1), (1)`),
    );
    // Install extensions before the schemas are renamed, so that they are created in the declared schemas.
    if (extensions.length > 0) await session.query(raw(extensions.map(createExtensionSql).join(';\n')));
    const existing = await session.query<{ name: string }>(
      sql`select nspname as name from pg_namespace where nspname = any (${[...schemas, 'extensions']})`,
    );
    const existingNames = new Set(existing.map((row) => row.name));
    const moves = [...temporary].flatMap(([schema, temporaryName]) => [
      ...(existingNames.has(schema) ? [`alter schema ${quoteIdent(schema)} rename to ${temporaryName}`] : []),
      `create schema ${quoteIdent(schema)}`,
    ]);
    const realPublic = existingNames.has('public') ? temporary.get('public') : undefined;
    const path = ['public', ...(realPublic === undefined ? [] : [realPublic])];
    if (existingNames.has('extensions')) path.push('extensions');
    await session.query(
      raw(
        `${moves.join(';\n')};\ncreate schema ${copies};\nset local search_path =
          ${path.map(quoteIdent).join(', ')}`,
      ),
    );
    await hideFunctions(
      session,
      prefix,
      functions.map((fn) => fn.name),
    );
    await hideStatements(session, prefix, statements);
    return await work();
  });
}

// Renames the live functions that the shadow creates. Otherwise a call could resolve to the old signature.
async function hideFunctions(
  session: Queryable,
  prefix: string,
  functions: readonly string[],
): Promise<void> {
  if (functions.length === 0) return;
  const old = await session.query<{ hide: string }>(sql`
    select format('alter routine %s rename to %I', p.oid::regprocedure, 'svc_hidden_' || p.oid) as hide
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where starts_with(n.nspname, ${prefix}) and p.prokind in ('f', 'p') and p.proname = any (${[...functions]})`);
  if (old.length > 0) await session.query(raw(old.map((row) => row.hide).join(';\n')));
}

/** Renames the live aggregates that the shadow creates, and creates the table that records the created objects. */
async function hideStatements(
  session: Queryable,
  prefix: string,
  statements: Shadow['statements'],
): Promise<void> {
  if (statements.length === 0) return;
  const names = statements.filter(({ kind }) => kind === 'aggregate').map(({ name }) => name);
  const old = await session.query<{ hide: string }>(sql`
    select format('alter routine %s rename to %I', p.oid::regprocedure, 'svc_hidden_' || p.oid) as hide
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where starts_with(n.nspname, ${prefix}) and p.prokind = 'a' and p.proname = any (${names})`);
  const made = `create temp table svc_made (n int, address text, identity text)`;
  await session.query(raw([...old.map((row) => row.hide), made].join(';\n')));
}

async function runOneByOne(
  session: Queryable,
  statements: readonly ShadowStatement[],
  types: readonly string[],
): Promise<MigrationProblem[]> {
  // A function whose default calls a later function succeeds in a second pass.
  for (let pending = statements; ;) {
    let again = false;
    const failed: { statement: ShadowStatement; error: Error }[] = [];
    for (const statement of pending) {
      await session.query(raw('savepoint svc_one'));
      try {
        await session.query(raw(statement.sql));
        again ||= failed.some((failure) => failure.statement.retry);
      } catch (error) {
        if (!isDatabaseError(error)) throw error;
        await session.query(raw('rollback to savepoint svc_one'));
        failed.push({ statement, error });
      }
      await session.query(raw('release savepoint svc_one'));
    }
    if (!again)
      return withoutConsequences(failed.map((failure) => toProblem(failure.statement, failure.error, types)));
    pending = failed.map((failure) => failure.statement);
  }
}

// Recreates views and atomic functions from their printed form, because a second print may differ from the first.
function reprintSql(schemas: readonly string[]): string {
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

async function readResult(session: Queryable, shadow: Shadow, names: ShadowNames): Promise<ShadowResult> {
  const marks = await markOverloads(session, shadow.functions, createRequalifier(shadow, names));
  const isAtomic = shadow.functions.some(({ model }) => model.atomic);
  if (shadow.views.length > 0 || isAtomic) await session.query(raw(reprintSql(names.schemas)));
  if (shadow.statements.some((statement) => statementPhase(statement) === 'last'))
    await session.query(raw(REPRINT_STATEMENTS));
  const { copies } = names;
  const live = await readLiveInside(session, [...names.schemas, copies]);
  const cleaned = { ...cleanNames(live, names), views: cleanViews(live, names) };
  const users = cleaned.tables.get(tableKey(copies, 'users'));
  return {
    ...cleaned,
    statements:
      shadow.statements.length === 0
        ? new Map()
        : await readCreatedObjects(session, shadow.statements, live, createCleaner(names)),
    marks,
    viewIndexes: new Map(
      [...cleaned.tables.values()]
        .filter(({ schema }) => schema === copies)
        .flatMap(({ indexes }) => indexes.map(({ label, definition }) => [label, definition] as const)),
    ),
    hosted: perHost((host) => cleaned.tables.get(copyName(host, copies))?.policies ?? []),
    userTriggers: (users?.triggers ?? []).map((trigger) => ({
      ...trigger,
      definition: trigger.definition.replace(` ON ${copies}.users `, ` ON ${USERS} `),
    })),
  };
}
