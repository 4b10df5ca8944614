// Logs repeatedly that a file is not applied, because operators rarely see a single warning at the start of the log.
import type { Log } from '../../log/log.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { migrationPolicy, type MigrationPolicy } from '../apply/policy.ts';
import type { SchemaConfig } from '../schema/declared.ts';
import { digestConfig } from '../state/config-digest.ts';
import { readFence } from '../state/fence.ts';
import { supersededFile, type supersededReport, type Superseded } from '../state/superseded.ts';

export type SupersededReport = ReturnType<typeof supersededReport>;

const REPEAT_MS = 10 * 60_000;

export class SupersededWatch {
  readonly #repeatMs: number;
  #report: SupersededReport | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(repeatMs = REPEAT_MS) {
    this.#repeatMs = repeatMs;
  }

  /** Undefined while the database follows the file or changes are only pending. */
  get report(): SupersededReport | undefined {
    return this.#report;
  }

  /** Starts to repeat the report. `again` reads the history. `signal` stops it. */
  found(
    report: SupersededReport,
    again: () => Promise<Superseded | undefined>,
    { log, signal }: { readonly log: Log; readonly signal: AbortSignal },
  ): void {
    this.clear();
    this.#report = report;
    const logReport = (): void => {
      const { message, hint, differs } = report;
      log.error({ schema: 'superseded', differs, hint }, message);
    };
    logReport();
    const repeat = async (): Promise<void> => {
      // The database may be unreachable. The next repetition checks again.
      const still = await again().catch(() => 'unknown');
      if (this.#report !== report || still === 'unknown') return;
      if (still !== undefined) return logReport();
      this.clear();
      log.info({ schema: 'current' }, 'the newer file was rolled back: the database follows this file again');
    };
    this.#timer = setInterval(() => void repeat(), this.#repeatMs).unref();
    signal.addEventListener('abort', () => clearInterval(this.#timer), { once: true });
  }

  clear(): void {
    this.#report = undefined;
    clearInterval(this.#timer);
  }
}

/** Reads the history again, because the newer file may have been rolled back. */
export async function readSuperseded(
  owner: OwnerDatabase,
  config: SchemaConfig,
  policy: Partial<MigrationPolicy>,
): Promise<Superseded | undefined> {
  const schemaHash = digestConfig(config).hash;
  const fence = await owner.session((session) => readFence(session, schemaHash));
  return supersededFile(fence, schemaHash, migrationPolicy(undefined, policy));
}
