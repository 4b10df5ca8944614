// Runs the steps of a plan. Whatever can be in one transaction is; each of the others leaves a valid state that the
// catalog shows, so that after a crash a new plan continues where this one ended.
import { quoteIdent, raw, sql } from '../../postgres/sql.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { inTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { markSteps } from '../state/runs.ts';
import { withLockRetries } from '../locks.ts';
import { backfill } from './backfill.ts';
import { buildIndex, outsideTransaction } from './concurrent-index.ts';
import { refuseStep } from './refuse-step.ts';
import { type ExecuteSettings, localSettings } from './settings.ts';
import type { NumberedStep, Step } from '../plan/step.ts';

const METADATA_STATEMENT_TIMEOUT_MS = 60_000;

/** Steps in one transaction; `record` writes the migration state inside it, so that both are there or neither. */
export async function executeMetadata(
  session: Queryable,
  steps: readonly NumberedStep[],
  settings: ExecuteSettings,
  record: () => Promise<void>,
): Promise<void> {
  const locked = await lockStatements(session, steps);
  const ordinals = steps.map((one) => one.ordinal);
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

const BATCH = 100;

// Many small statements cost more in round trips than in work. A batch that fails is run again step by step, to find the
// one that fails.
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
  for (let start = 0; start < steps.length; start += BATCH) {
    const batch = steps.slice(start, start + BATCH);
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
    if (step.table === null || step.lock === 'none') continue;
    const strong = step.lock === 'AccessExclusive';
    if (strong || !modes.has(step.table))
      modes.set(step.table, strong ? 'access exclusive' : 'share row exclusive');
  }
  // A table that is renamed is locked under its old name.
  const existing = await session.query<{ name: string }>(
    sql`select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname || '.' || c.relname = any (${[...modes.keys()]})`,
  );
  // Always in the same order, so that two sessions cannot wait for each other.
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
      // The error of the step matters more than that it could not be recorded.
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
      return backfill(session, action, settings).catch((error: unknown) => {
        if (!isDatabaseError(error) || isDatabaseError(error, 'query_canceled')) throw error;
        throw refuseStep(step, error);
      });
    case 'sql':
      await withLockRetries(session, step.table ? [step.table] : [], settings, () =>
        inTransaction(session, localSettings(settings), () => runOne(session, step)),
      );
  }
}
