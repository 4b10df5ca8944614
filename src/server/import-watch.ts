// An import that is not cut over: until then the source has the users, and what they wrote here would be lost with the
// next copy. So nothing is served.
import type { Log } from '../log/log.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { Problem } from '../problem/problem.ts';
import { readImportState } from '../provision/import-state.ts';

const UNDER_WAY = new Problem(
  'import_under_way',
  503,
  'This database holds an import that is not cut over yet',
  {
    hint: 'svc import supabase cut-over opens it.',
    headers: { 'retry-after': '60' },
  },
);

export class ImportWatch {
  readonly #owner: OwnerDatabase;
  readonly #log: Log;
  #isOpen = false;

  constructor(owner: OwnerDatabase, log: Log) {
    this.#owner = owner;
    this.#log = log;
  }

  /** What requests are refused with, if anything. */
  get refusal(): Problem | undefined {
    return this.#isOpen ? UNDER_WAY : undefined;
  }

  /** Asked at the start, and whenever the database says that something has changed. */
  async look(): Promise<void> {
    const state = await readImportState(this.#owner);
    const isOpen = state !== undefined && state !== 'cut over';
    if (isOpen === this.#isOpen) return;
    this.#isOpen = isOpen;
    if (isOpen) this.#log.warn(`${UNDER_WAY.message}: every request is refused. ${UNDER_WAY.hint ?? ''}`);
    else this.#log.info('the import is cut over: requests are served');
  }

  /** The same for a notification, which nobody waits for. */
  heard(): void {
    this.look().catch((error: unknown) =>
      this.#log.warn({ err: error }, 'the state of the import cannot be read; it stays what it was'),
    );
  }
}
