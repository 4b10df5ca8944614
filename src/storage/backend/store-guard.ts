// Checks that the bytes are at the location in the database: at the start, at each reload, each hour and before each
// run of the sweeper. Requests wait for the first success.
import type { Degraded } from '../../lib/degraded.ts';
import type { Log } from '../../log/log.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { Backend } from './backend.ts';
import { verifyLocation } from './location.ts';
import { StoreMark } from './store-mark.ts';

export type StoreGuardOptions = {
  readonly owner: OwnerDatabase;
  readonly backend: () => Backend;
  readonly log: Log;
  readonly dev: boolean;
  readonly degraded?: Degraded | undefined;
};

export class StoreGuard {
  readonly #options: StoreGuardOptions;
  #verified = false;
  #opened: Promise<void> | undefined;
  /** Last logged problem, so that a waiting sweeper does not repeat it every few seconds. */
  #trouble: string | undefined;

  constructor(options: StoreGuardOptions) {
    this.#options = options;
  }

  /** Throws a Problem unless this is the recorded place; records it the first time. */
  async verify(): Promise<void> {
    const { owner, backend, dev } = this.#options;
    this.#verified = false;
    this.#opened = undefined;
    await verifyLocation(owner, backend(), { dev });
    this.#verified = true;
    this.#settle();
  }

  /** Checks before a request that the place is correct and accepts bytes. */
  async open(): Promise<void> {
    this.#opened ??= this.#open().catch((error: unknown) => {
      // The next request tries again: the store may be reachable by then.
      this.#opened = undefined;
      throw error;
    });
    await this.#opened;
  }

  async #open(): Promise<void> {
    const { owner, backend, dev } = this.#options;
    if (!this.#verified) await verifyLocation(owner, backend(), { dev });
    this.#verified = true;
    await backend().check();
  }

  /**
   * Returns whether background work may touch the store, and logs the reason once if not. Records nothing. `anew`
   * also queries the database, where another instance may have recorded another location.
   */
  async usable(anew = false): Promise<boolean> {
    try {
      if (anew || !this.#verified) {
        if (!(await this.#isRecorded())) return false;
        await this.verify();
      }
      const { place } = this.#options.backend();
      if (place instanceof StoreMark) await place.assertPresent();
      this.#settle();
      return true;
    } catch (err) {
      const trouble = err instanceof Error ? err.message : String(err);
      if (trouble !== this.#trouble)
        this.#options.log.error(
          { err, job: 'storage' },
          'no bytes are deleted until the files are there again',
        );
      this.#trouble = trouble;
      this.#options.degraded?.report('storage_elsewhere', trouble);
      return false;
    }
  }

  #settle(): void {
    if (this.#trouble === undefined) return;
    this.#trouble = undefined;
    this.#options.degraded?.clear('storage_elsewhere');
    this.#options.log.info({ job: 'storage' }, 'the files are where they should be again');
  }

  async #isRecorded(): Promise<boolean> {
    const rows = await this.#options.owner.query(sql`select from storage.settings where key = 'location'`);
    return rows.length > 0;
  }
}
