// Blocks requests until an import is cut over: the source still has the users, and the next copy would overwrite what
// they wrote here.
import type { Log } from '../log/log.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { Problem } from '../problem/problem.ts';
import { readImportState } from '../provision/import-state.ts';
import { RetryUntilDone } from './retry-until-done.ts';

const UNDER_WAY = new Problem(
  'import_under_way',
  503,
  'This database contains an import that is not cut over yet',
  {
    hint: 'Run `svc import supabase cut-over` to open it.',
    headers: { 'retry-after': '60' },
  },
);

export class ImportState {
  readonly #owner: OwnerDatabase;
  readonly #log: Log;
  readonly #reading: RetryUntilDone;
  #isUnderWay = false;

  constructor(owner: OwnerDatabase, log: Log) {
    this.#owner = owner;
    this.#log = log;
    this.#reading = new RetryUntilDone(
      () => this.read(),
      (error) => log.warn({ err: error }, 'the state of the import cannot be read; trying until it succeeds'),
    );
  }

  /** Problem for every request while an import is not cut over. */
  get refusal(): Problem | undefined {
    return this.#isUnderWay ? UNDER_WAY : undefined;
  }

  /** Reads the state: at the start, and after a notification. */
  async read(): Promise<void> {
    const state = await readImportState(this.#owner);
    const isUnderWay = state !== undefined && state !== 'cut over';
    if (isUnderWay === this.#isUnderWay) return;
    this.#isUnderWay = isUnderWay;
    if (isUnderWay) this.#log.warn(`${UNDER_WAY.message}: every request is refused. ${UNDER_WAY.hint ?? ''}`);
    else this.#log.info('the import is cut over: requests are served');
  }

  /** Reads the state after a notification, and retries until it succeeds. */
  onNotification(): void {
    this.#reading.request();
  }

  close(): void {
    this.#reading.close();
  }
}
