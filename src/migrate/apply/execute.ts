// Runs a plan. All that can be one transaction is one; the rest is a list of steps each of which leaves a valid
// state and can be found again in the catalog, so that after any crash a new plan continues where this one ended.
import { quoteIdent, quoteLiteral, raw, sql } from '../../postgres/sql.ts';
import { isDatabaseError, type DatabaseError } from '../../postgres/pg-error.ts';
import { inTransaction, type LocalSettings, type Queryable } from '../../postgres/owner-database.ts';
import { markSteps } from '../state/state.ts';
import { MigrationRefused, problem, type MigrationProblem } from '../problem.ts';
import { withLockRetries, type LockSettings } from '../locks.ts';
import { fold } from './batch.ts';
import type { NumberedStep, Step } from '../plan/step.ts';
import { unknownTypeHint } from '../normalise/unknown-type.ts';

export type ExecuteSettings = LockSettings & {
  readonly searchPath: string;
  readonly runId: string;
  /** Called between statements; tests stop the process here. */
  readonly onStatement?: ((step: Step) => void | Promise<void>) | undefined;
  readonly onProgress?: ((step: Step) => void) | undefined;
};

// A time without a zone is read as UTC, wherever the server stands: hence the zone beside each search_path.
const METADATA_STATEMENT_TIMEOUT_MS = 60_000;

/** Phases of one transaction; `record` writes the ledger inside it, so that both are there or neither. */
export async function executeMetadata(
  session: Queryable,
  steps: readonly NumberedStep[],
  settings: ExecuteSettings,
  record: () => Promise<void>,
): Promise<void> {
  const locked = await lockStatements(
    session,
    steps.map(({ step }) => step),
  );
  const local = {
    ...localSettings(settings),
    statement_timeout: METADATA_STATEMENT_TIMEOUT_MS,
    check_function_bodies: 'off',
    client_min_messages: 'error',
  };
  await withLockRetries(session, locked.tables, settings, () => {
    const started = Date.now();
    return inTransaction(session, local, async () => {
      for (const statement of locked.statements) await session.query(raw(statement));
      await runAll(session, steps, settings);
      await record();
      await markSteps(
        session,
        settings.runId,
        steps.map((one) => one.ordinal),
        'done',
        Date.now() - started,
      );
      await settings.onStatement?.(COMMIT);
    });
  });
}

/** Names mean the same in every step, and no statement waits long for a lock: others would queue behind it. */
function localSettings(settings: ExecuteSettings): LocalSettings {
  return {
    lock_timeout: settings.lockTimeoutMs,
    search_path: raw(settings.searchPath),
    timezone: 'UTC',
  };
}

const COMMIT: Step = {
  sql: 'commit',
  lane: 'metadata',
  stage: 'retire',
  identity: '',
  at: '',
  sign: '~',
  summary: 'commit',
  table: null,
  lock: 'none',
  rewrites: false,
  scans: false,
  estimateMs: 0,
  hazards: [],
  action: { kind: 'sql' },
  deferred: false,
};

const BATCH = 100;

// Many small statements cost more in round trips than in work; when a batch fails it is run again piece by piece
// to find the one that is to blame.
async function runAll(
  session: Queryable,
  steps: readonly NumberedStep[],
  settings: ExecuteSettings,
): Promise<void> {
  if (settings.onStatement) {
    for (const { step } of steps) {
      await settings.onStatement(step);
      await runOne(session, step);
    }
    return;
  }
  const folded = fold(steps);
  for (let start = 0; start < folded.length; start += BATCH) {
    const batch = folded.slice(start, start + BATCH);
    await session.query(raw('savepoint svc_batch'));
    try {
      await session.query(raw(batch.map((one) => one.sql).join(';\n')));
    } catch (error) {
      if (!isDatabaseError(error) || isRetryable(error)) throw error;
      await session.query(raw('rollback to savepoint svc_batch'));
      const singly = batch.flatMap((one) => one.steps).sort((a, b) => a.ordinal - b.ordinal);
      for (const { step } of singly) await runOne(session, step);
      // Fine one by one: whatever it was is gone.
    }
    await session.query(raw('release savepoint svc_batch'));
  }
}

function isRetryable(error: unknown): boolean {
  return isDatabaseError(error, 'lock_not_available', 'deadlock_detected');
}

async function runOne(session: Queryable, step: Step): Promise<void> {
  try {
    await session.query(raw(step.sql));
  } catch (error) {
    if (!isDatabaseError(error) || isRetryable(error)) throw error;
    throw refuseStep(step, error);
  }
}

const VIOLATIONS: Record<string, MigrationProblem['code']> = {
  '23502': 'MIG-201',
  '23505': 'MIG-202',
  '23503': 'MIG-203',
  '23514': 'MIG-204',
};

/** What the server says about rows or text is the user's to mend; anything else is a fault and stays one. */
function refuseStep(step: Step, error: DatabaseError): unknown {
  const detail = error.detail === undefined ? '' : ` (${error.detail})`;
  const hint = error.hint ?? null;
  const code = VIOLATIONS[error.code] ?? (isDatabaseError(error, 'data_exception') ? 'MIG-208' : null);
  if (code) return new MigrationRefused([problem(code, step.at, `${error.message}${detail}`, hint)]);
  if (isDatabaseError(error, 'dependent_objects_still_exist'))
    return new MigrationRefused([
      problem('MIG-304', step.at, `${error.message}${detail}`, 'Drop or change what depends on it first.'),
    ]);
  if (isDatabaseError(error, 'out_of_memory')) {
    return new MigrationRefused([
      problem('MIG-401', step.at, error.message, 'Raise max_locks_per_transaction on the server.'),
    ]);
  }
  if (isDatabaseError(error, 'syntax_error_or_access_rule_violation'))
    return new MigrationRefused([
      problem('MIG-101', step.at, `${error.message}${detail}`, hint ?? unknownTypeHint(error)),
    ]);
  return error;
}

async function lockStatements(
  session: Queryable,
  steps: readonly Step[],
): Promise<{ tables: string[]; statements: string[] }> {
  const modes = new Map<string, 'access exclusive' | 'share row exclusive'>();
  for (const step of steps) {
    if (step.table === null || step.lock === 'none') continue;
    const strong = step.lock === 'AccessExclusive';
    if (strong || !modes.has(step.table))
      modes.set(step.table, strong ? 'access exclusive' : 'share row exclusive');
  }
  // A table under the name it will only have after its rename is locked under the old one.
  const existing = await session.query<{ name: string }>(
    sql`select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname || '.' || c.relname = any (${[...modes.keys()]})`,
  );
  // One order for everybody, so that two sessions can wait for each other but never in a circle.
  const tables = existing.map((row) => row.name).sort();
  const statements = tables.map((table) => {
    const [schema = '', ...rest] = table.split('.');
    return `lock table ${quoteIdent(schema)}.${quoteIdent(rest.join('.'))} in ${modes.get(table) ?? 'access exclusive'} mode`;
  });
  return { tables, statements };
}

/** One step outside the big transaction. */
export async function executeOnline(
  session: Queryable,
  { ordinal, step }: NumberedStep,
  settings: ExecuteSettings,
): Promise<void> {
  const started = Date.now();
  await markSteps(session, settings.runId, [ordinal], 'running', null);
  await settings.onStatement?.(step);
  settings.onProgress?.(step);
  try {
    await act(session, step, settings);
  } catch (error) {
    await markSteps(
      session,
      settings.runId,
      [ordinal],
      'failed',
      Date.now() - started,
      error instanceof Error ? error.message : String(error),
    ).catch(() => {
      // What went wrong is worth more than that it could not be recorded.
    });
    throw error;
  }
  await markSteps(session, settings.runId, [ordinal], 'done', Date.now() - started);
}

async function act(session: Queryable, step: Step, settings: ExecuteSettings): Promise<void> {
  const { action } = step;
  switch (action.kind) {
    case 'build-index':
      return buildIndex(session, step, action.schema, action.label, settings);
    case 'drop-index':
      return outsideTransaction(session, step, settings);
    case 'backfill':
      return fillOrRefuse(session, step, action, settings);
    case 'sql':
      await withLockRetries(session, step.table ? [step.table] : [], settings, () =>
        inTransaction(session, localSettings(settings), () => runOne(session, step)),
      );
  }
}

// A lock timeout in the middle of a concurrent build would leave an invalid index behind; waiting for old
// snapshots is its nature, so it is allowed to.
async function outsideTransaction(session: Queryable, step: Step, settings: ExecuteSettings): Promise<void> {
  await session.query(raw(`set search_path = ${settings.searchPath}`));
  await session.query(raw('set lock_timeout = 0'));
  try {
    await session.query(raw(step.sql));
  } finally {
    await session.query(raw('reset search_path'));
  }
}

async function buildIndex(
  session: Queryable,
  step: Step,
  schema: string,
  label: string,
  settings: ExecuteSettings,
): Promise<void> {
  const name = `${quoteIdent(schema)}.${quoteIdent(label)}`;
  const state = await indexState(session, schema, label);
  if (state === 'valid') return;
  // Never IF NOT EXISTS: it is content with an index that a crash left half built.
  if (state === 'invalid') await session.query(raw(`drop index concurrently if exists ${name}`));
  try {
    await outsideTransaction(session, step, settings);
  } catch (error) {
    // Cancelled at shutdown: dropping would wait for what the build waited for. The next start finds it.
    if (!isDatabaseError(error) || isDatabaseError(error, 'query_canceled')) throw error;
    // On a connection that is gone, the next start does it.
    await session.query(raw(`drop index concurrently if exists ${name}`)).catch(() => {});
    throw refuseStep(step, error);
  }
  if ((await indexState(session, schema, label)) !== 'valid') {
    throw new Error(`the index ${label} is not valid after its build`);
  }
}

async function indexState(
  session: Queryable,
  schema: string,
  label: string,
): Promise<'absent' | 'invalid' | 'valid'> {
  const [row] = await session.query<{ valid: boolean }>(sql`
    select i.indisvalid and i.indisready as valid from pg_index i join pg_class c on c.oid = i.indexrelid
    join pg_namespace n on n.oid = c.relnamespace where n.nspname = ${schema} and c.relname = ${label}`);
  if (!row) return 'absent';
  return row.valid ? 'valid' : 'invalid';
}

const FIRST_BATCH_PAGES = 64;
const BATCH_AIM_MS = 150;
const LARGEST_BATCH_PAGES = 8_192;

async function fillOrRefuse(
  session: Queryable,
  step: Step,
  action: Parameters<typeof fill>[1],
  settings: ExecuteSettings,
): Promise<void> {
  try {
    await fill(session, action, settings);
  } catch (error) {
    if (!isDatabaseError(error) || isDatabaseError(error, 'query_canceled')) throw error;
    throw refuseStep(step, error);
  }
}

// By page ranges: needs no key, reads every page once, and finds its place again by itself, because a row that
// has its value is not touched a second time.
async function fill(
  session: Queryable,
  action: {
    readonly schema: string;
    readonly table: string;
    readonly column: string;
    readonly value: string;
    readonly where?: string | undefined;
    readonly quiet: boolean;
  },
  settings: ExecuteSettings,
): Promise<void> {
  const table = `${quoteIdent(action.schema)}.${quoteIdent(action.table)}`;
  const column = quoteIdent(action.column);
  const [size] = await session.query<{ pages: string; parts: boolean }>(
    raw(`select (pg_relation_size(c.oid) / current_setting('block_size')::int)::text as pages, c.relkind = 'p' as parts
      from pg_class c where c.oid = ${quoteLiteral(table)}::regclass`),
  );
  const pages = Number(size?.pages ?? 0);
  const local = {
    ...localSettings(settings),
    lock_timeout: 1_000,
    ...(action.quiet ? { session_replication_role: 'replica' } : {}),
  };
  let step = FIRST_BATCH_PAGES;
  for (let from = 0; from <= pages;) {
    const range = size?.parts ? 'true' : `ctid >= '(${from},0)'::tid and ctid < '(${from + step},0)'::tid`;
    const started = Date.now();
    await withLockRetries(session, [`${action.schema}.${action.table}`], settings, () =>
      inTransaction(session, local, async () => {
        const needy =
          action.where === undefined ? `${column} is null` : `${column} is null and (${action.where})`;
        await session.query(
          raw(`update ${table} set ${column} = (\n${action.value}\n) where ${needy} and ${range}`),
        );
      }),
    );
    if (size?.parts) return;
    from += step;
    const took = Math.max(Date.now() - started, 1);
    step = Math.min(LARGEST_BATCH_PAGES, Math.max(1, Math.round((step * BATCH_AIM_MS) / took)));
  }
}
