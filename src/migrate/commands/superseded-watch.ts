// Keeps saying that a file is not applied, until that is over: a warning at a start is gone with the first page of the log.
import type { Log } from '../../log/log.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { policyOf, type MigrationPolicy } from '../apply/policy.ts';
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

  /** Undefined while the database follows the file, or has changes before it that are only pending. */
  get report(): SupersededReport | undefined {
    return this.#report;
  }

  /** `again` asks the history, until `signal`. */
  found(
    report: SupersededReport,
    again: () => Promise<Superseded | undefined>,
    { log, signal }: { readonly log: Log; readonly signal: AbortSignal },
  ): void {
    this.clear();
    this.#report = report;
    const say = (): void => {
      const { message, hint, differs } = report;
      log.error({ schema: 'superseded', differs, hint }, message);
    };
    say();
    const repeat = async (): Promise<void> => {
      // The database may be away; the next time tells.
      const still = await again().catch(() => 'unknown');
      if (this.#report !== report || still === 'unknown') return;
      if (still !== undefined) return say();
      this.clear();
      log.info({ schema: 'current' }, 'the newer file was taken back: the database follows this file again');
    };
    this.#timer = setInterval(() => void repeat(), this.#repeatMs).unref();
    signal.addEventListener('abort', () => clearInterval(this.#timer), { once: true });
  }

  clear(): void {
    this.#report = undefined;
    clearInterval(this.#timer);
  }
}

/** Asks the history again: a newer file may have been taken back meanwhile. */
export async function readSuperseded(
  owner: OwnerDatabase,
  config: SchemaConfig,
  policy: Partial<MigrationPolicy>,
): Promise<Superseded | undefined> {
  const schemaHash = digestConfig(config).hash;
  const fence = await owner.session((session) => readFence(session, schemaHash));
  return supersededFile(fence, schemaHash, policyOf(undefined, policy));
}
