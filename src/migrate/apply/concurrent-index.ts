// Indexes are built and dropped concurrently, outside any transaction: writers go on meanwhile.
import type { Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { raw, sql } from '../../postgres/sql.ts';
import type { Step } from '../plan/step.ts';
import { nameOf } from '../schema/model.ts';
import { refuseStep } from './refuse-step.ts';
import type { ExecuteSettings } from './settings.ts';

// Without a lock timeout: in the middle of a concurrent build it would leave an invalid index behind, and waiting for old
// snapshots is part of the build.
export async function outsideTransaction(
  session: Queryable,
  step: Step,
  settings: ExecuteSettings,
): Promise<void> {
  await session.query(raw(`set search_path = ${settings.searchPath}`));
  await session.query(raw('set lock_timeout = 0'));
  try {
    await session.query(raw(step.sql));
  } finally {
    await session.query(raw('reset search_path'));
  }
}

export async function buildIndex(
  session: Queryable,
  step: Step,
  schema: string,
  label: string,
  settings: ExecuteSettings,
): Promise<void> {
  const name = nameOf({ schema, name: label });
  const state = await indexState(session, schema, label);
  if (state === 'valid') return;
  // Never IF NOT EXISTS, which accepts an index that a crash left half built.
  if (state === 'invalid') await session.query(raw(`drop index concurrently if exists ${name}`));
  try {
    await outsideTransaction(session, step, settings);
  } catch (error) {
    // Cancelled at shutdown: dropping would wait for what the build waited for. The next start finds it.
    if (!isDatabaseError(error) || isDatabaseError(error, 'query_canceled')) throw error;
    // If the connection is gone, the next start drops it.
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
