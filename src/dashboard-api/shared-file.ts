// Port to the file that all instances share in the database (`svc serve --config database`).
import type { Config } from '../config/config.ts';
import type { Log } from '../log/log.ts';
import type { MigrationProblem } from '../migrate/problem.ts';
import { must } from '../lib/assert.ts';
import type { Problem } from '../problem/problem.ts';
import { configConflict, type ConfigRow } from '../shared-config/config-rows.ts';
import { toSource } from '../shared-config/shared-source.ts';
import type { ReadFile } from './config-file.ts';
import { fileChanged } from './problem.ts';

export type SharedFile = {
  /** Returns the applied row. */
  read(): Promise<ConfigRow | undefined>;
  /** Returns one line per state: how many instances serve the row, and why others do not. */
  status(id: string): Promise<string[]>;
  /**
   * Saves a checked text for all instances and applies it to this one. Throws `config_conflict` if the applied row is
   * no longer `base`. Changes nothing if it returns problems.
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
  return { source: toSource(row), version: row.id };
}

/** Returns 409 `file_changed` with the difference between the stale change and the applied text. */
export function sharedFileChanged(row: ConfigRow, base: string, text: string): Problem {
  const { message, details, hint } = configConflict(row, base, text);
  return fileChanged(toSource(row).name, { message, details, hint });
}
