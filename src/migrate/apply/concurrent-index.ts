// Builds and drops indexes concurrently, outside any transaction, so that writers are not blocked.
import type { Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { raw, sql } from '../../postgres/sql.ts';
import type { Step } from '../plan/step.ts';
import { quoteName } from '../schema/model.ts';
import { refuseStep } from './refuse-step.ts';
import type { ExecuteSettings } from './settings.ts';

// Has no lock timeout. A concurrent build waits for old snapshots, and a timeout during the build would leave an
// invalid index.
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
  const name = quoteName({ schema, name: label });
  const state = await indexState(session, schema, label);
  if (state === 'valid') return;
  // IF NOT EXISTS would accept an index that a crash left incomplete.
  if (state === 'invalid') await session.query(raw(`drop index concurrently if exists ${name}`));
  try {
    await outsideTransaction(session, step, settings);
  } catch (error) {
    // Cancelled at shutdown. A drop would wait for the same snapshots as the build; the next start drops the index.
    if (!isDatabaseError(error) || isDatabaseError(error, 'query_canceled')) throw error;
    // If the connection is lost, the next start drops the index.
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
