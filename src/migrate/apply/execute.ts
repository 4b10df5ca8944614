// Runs the steps of a plan. One transaction contains as many steps as possible. Each step outside it leaves a valid
// state that the catalog shows, so a new plan can continue after a crash.
import { quoteIdent, raw, sql } from '../../postgres/sql.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { inTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { markSteps } from '../state/runs.ts';
import { withLockRetries } from '../locks.ts';
import { backfill } from './backfill.ts';
import { buildIndex, outsideTransaction } from './concurrent-index.ts';
import { refuseStep } from './refuse-step.ts';
import { type ExecuteSettings, localSettings } from './settings.ts';
import { lockedTables, type NumberedStep, type Step } from '../plan/step.ts';

const METADATA_STATEMENT_TIMEOUT_MS = 60_000;

/** Runs the steps in one transaction. `record` writes the migration state in the same transaction. */
export async function executeMetadata(
  session: Queryable,
  steps: readonly NumberedStep[],
  settings: ExecuteSettings,
  record: () => Promise<void>,
): Promise<void> {
  const locked = await lockStatements(session, steps);
  const ordinals = steps.map((step) => step.ordinal);
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
      await markSteps(session, settings.runId, ordinals, 'done', Date.now() - started);
      await settings.onStatement?.({ lane: 'metadata', summary: 'commit', action: { kind: 'sql' } });
    });
  });
}

const MAX_BATCH_STEPS = 100;

// Sends the steps in batches, because round trips take longer than the statements. If a batch fails, its steps run one
// by one to find the failing step.
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
  for (let start = 0; start < steps.length; start += MAX_BATCH_STEPS) {
    const batch = steps.slice(start, start + MAX_BATCH_STEPS);
    await session.query(raw('savepoint svc_batch'));
    try {
      await session.query(raw(batch.map(({ step }) => step.sql).join(';\n')));
    } catch (error) {
      if (!isDatabaseError(error) || isRetryable(error)) throw error;
      await session.query(raw('rollback to savepoint svc_batch'));
      for (const { step } of batch) await runOne(session, step);
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

async function lockStatements(
  session: Queryable,
  steps: readonly NumberedStep[],
): Promise<{ tables: string[]; statements: string[] }> {
  const modes = new Map<string, 'access exclusive' | 'share row exclusive'>();
  for (const { step } of steps) {
    const strong = step.lock === 'AccessExclusive';
    for (const table of lockedTables(step))
      if (strong || !modes.has(table)) modes.set(table, strong ? 'access exclusive' : 'share row exclusive');
  }
  // A table that this run renames is locked under its old name.
  const existing = await session.query<{ name: string }>(
    sql`select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname || '.' || c.relname = any (${[...modes.keys()]})`,
  );
  // A fixed order prevents deadlocks between two sessions.
  const tables = existing.map((row) => row.name).sort();
  const statements = tables.map((table) => {
    const [schema = '', ...rest] = table.split('.');
    const mode = modes.get(table) ?? 'access exclusive';
    return `lock table ${quoteIdent(schema)}.${quoteIdent(rest.join('.'))} in ${mode} mode`;
  });
  return { tables, statements };
}

/** Runs one step outside the main transaction. */
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
    await runOnlineStep(session, step, settings);
  } catch (error) {
    await markSteps(
      session,
      settings.runId,
      [ordinal],
      'failed',
      Date.now() - started,
      error instanceof Error ? error.message : String(error),
    ).catch(() => {
      // Report the error of the step, not the failure to record it.
    });
    throw error;
  }
  await markSteps(session, settings.runId, [ordinal], 'done', Date.now() - started);
}

async function runOnlineStep(session: Queryable, step: Step, settings: ExecuteSettings): Promise<void> {
  const { action } = step;
  switch (action.kind) {
    case 'build-index':
      return buildIndex(session, step, action.schema, action.label, settings);
    case 'drop-index':
      return outsideTransaction(session, step, settings);
    case 'backfill':
      return backfill(session, action, settings).catch((error: unknown) => {
        if (!isDatabaseError(error) || isDatabaseError(error, 'query_canceled')) throw error;
        throw refuseStep(step, error);
      });
    case 'sql':
      await withLockRetries(session, lockedTables(step), settings, () =>
        inTransaction(session, localSettings(settings), () => runOne(session, step)),
      );
  }
}
