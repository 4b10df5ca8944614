// What every step of a run is executed with.
import type { LocalSettings } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import type { LockSettings } from '../locks.ts';
import { BACKFILL_SETTING } from '../schema/row-triggers.ts';
import type { Step } from '../plan/step.ts';

/** What is known of the commit, too. */
export type StatementStep = Pick<Step, 'lane' | 'summary' | 'action'>;

export type ExecuteSettings = LockSettings & {
  readonly searchPath: string;
  readonly runId: string;
  /** Called between statements; tests stop the process here. */
  readonly onStatement?: ((step: StatementStep) => void | Promise<void>) | undefined;
  readonly onProgress?: ((step: Step) => void) | undefined;
};

/**
 * Names mean the same in every step, a time without a zone is in UTC wherever the server stands, a backfill is no update
 * that anybody made, and no statement waits long for a lock: others would queue behind it.
 */
export function localSettings({ lockTimeoutMs, searchPath }: ExecuteSettings): LocalSettings {
  return {
    lock_timeout: lockTimeoutMs,
    search_path: raw(searchPath),
    timezone: 'UTC',
    [BACKFILL_SETTING]: 'on',
  };
}
