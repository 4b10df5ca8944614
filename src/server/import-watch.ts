// An import that is not cut over: until then the source has the users, and what they wrote here would be lost with the
// next copy. So nothing is served.
import type { Log } from '../log/log.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { Problem } from '../problem/problem.ts';
import { readImportState } from '../provision/import-state.ts';
import { RetryUntilDone } from './retry-until-done.ts';

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
  readonly #reading: RetryUntilDone;
  #isUnderWay = false;

  constructor(owner: OwnerDatabase, log: Log) {
    this.#owner = owner;
    this.#log = log;
    this.#reading = new RetryUntilDone(
      () => this.look(),
      (error) => log.warn({ err: error }, 'the state of the import cannot be read; trying until it succeeds'),
    );
  }

  /** What requests are refused with, if anything. */
  get refusal(): Problem | undefined {
    return this.#isUnderWay ? UNDER_WAY : undefined;
  }

  /** Asked at the start, and whenever the database says that something has changed. */
  async look(): Promise<void> {
    const state = await readImportState(this.#owner);
    const isUnderWay = state !== undefined && state !== 'cut over';
    if (isUnderWay === this.#isUnderWay) return;
    this.#isUnderWay = isUnderWay;
    if (isUnderWay) this.#log.warn(`${UNDER_WAY.message}: every request is refused. ${UNDER_WAY.hint ?? ''}`);
    else this.#log.info('the import is cut over: requests are served');
  }

  /** The same for a notification, which nobody waits for and which does not come twice. */
  heard(): void {
    this.#reading.ask();
  }

  close(): void {
    this.#reading.close();
  }
}
