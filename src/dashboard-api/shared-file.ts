// The file when all instances share it in the database: what the dashboard needs of `svc serve --config database`.
import type { Config } from '../config/config.ts';
import type { Log } from '../log/log.ts';
import type { MigrationProblem } from '../migrate/problem.ts';
import { must } from '../lib/assert.ts';
import type { Problem } from '../problem/problem.ts';
import { configConflict, type ConfigRow } from '../shared-config/config-rows.ts';
import { sourceOf } from '../shared-config/shared-source.ts';
import type { ReadFile } from './config-file.ts';
import { fileChanged } from './problem.ts';

export type SharedFile = {
  /** The row that is applied. */
  read(): Promise<ConfigRow | undefined>;
  /** What every instance makes of a row, in lines. */
  status(id: string): Promise<string[]>;
  /**
   * Applies a checked text for all instances, and takes it here. Throws `config_conflict` when another row than `base` is
   * applied by now; with problems, nothing was changed.
   */
  save(
    text: string,
    config: Config,
    base: string,
    log: Log,
  ): Promise<{ readonly id: string; readonly problems: readonly MigrationProblem[] }>;
};

export async function readSharedFile(shared: SharedFile): Promise<ReadFile> {
  const row = must(await shared.read(), 'the applied configuration');
  return { source: sourceOf(row), version: row.id };
}

/** 409 with what the stale change would do to the applied text. */
export function sharedFileChanged(row: ConfigRow, base: string, text: string): Problem {
  const { message, details, hint } = configConflict(row, base, text);
  return fileChanged(sourceOf(row).name, { message, details, hint });
}
