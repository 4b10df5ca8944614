// Keeps an instance on the applied row. It reads the row on every notification, after each reconnection and every 30
// seconds, and reloads like SIGHUP does with a file. If a configuration cannot be served, the previous one stays and
// the operator gets the reason.
import type { Config } from '../config/config.ts';
import type { Log } from '../log/log.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { SerialQueue } from '../lib/limits/serial-queue.ts';
import { readApplied, type ConfigRow } from './config-rows.ts';
import { forgetState, REPORT_EVERY_MS, reportState } from './instance-states.ts';

export type ConfigWatchOptions = {
  readonly owner: OwnerDatabase;
  /** Names this process in `svc_meta.instance_state`. */
  readonly instance: string;
  /** The row that the start took. */
  readonly served: ConfigRow;
  /** Checks the text with this instance's own variables; throws when it cannot be served here. */
  readonly load: (row: ConfigRow) => Config;
  /** Makes it the served one, or throws and leaves the former. */
  readonly apply: (config: Config, row: ConfigRow) => Promise<void>;
  /** Returns one sentence without values of variables. */
  readonly explain: (error: unknown) => string;
  /** Called with the reason why the applied row is not served here, and with undefined once it is. */
  readonly onState: (reason: string | undefined) => void;
  readonly log: Log;
};

export class ConfigWatch {
  readonly #options: ConfigWatchOptions;
  readonly #queue = new SerialQueue();
  #served: ConfigRow;
  #refused: { readonly id: string; readonly reason: string } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: ConfigWatchOptions) {
    this.#options = options;
    this.#served = options.served;
  }

  get served(): ConfigRow {
    return this.#served;
  }

  start(): void {
    this.#timer = setInterval(() => this.ask(), REPORT_EVERY_MS).unref();
    this.ask();
  }

  /** There may be a newer row. Never throws: what fails is tried again at the next turn. */
  ask(): void {
    void this.follow().catch((err: unknown) => {
      if (!this.#closed)
        this.#options.log.warn(
          { err, job: 'config' },
          'could not look for a newer configuration; trying again',
        );
    });
  }

  /** Takes the applied row if it is not the served one, and reports. Throws when the database does not answer. */
  follow(): Promise<void> {
    return this.#queue.run(async () => {
      if (this.#closed) return;
      const { owner, instance } = this.#options;
      const row = await readApplied(owner);
      if (row !== undefined && row.id !== this.#served.id) await this.#serve(row);
      else if (this.#refused) this.#settle();
      await reportState(owner, instance, this.#served.id, this.#refused?.reason ?? null);
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#queue.idle();
    await forgetState(this.#options.owner, this.#options.instance).catch(() => {
      // The database may be what ended this instance; its state is forgotten in time.
    });
  }

  async #serve(row: ConfigRow): Promise<void> {
    const { load, apply, explain, onState, log } = this.#options;
    try {
      await apply(load(row), row);
      this.#served = row;
      this.#settle();
      log.info({ config: row.id, author: row.author }, 'took the configuration from the database');
    } catch (error) {
      const reason = explain(error);
      // Tried again each time: what was missing may be there by then.
      const isNews = this.#refused?.id !== row.id || this.#refused.reason !== reason;
      this.#refused = { id: row.id, reason };
      onState(`configuration ${row.id} is not served here, but ${this.#served.id}: ${reason}`);
      if (isNews)
        log.error(
          { config: row.id, serves: this.#served.id, reason },
          'this configuration was refused here; the last good one is still being served',
        );
    }
  }

  #settle(): void {
    this.#refused = undefined;
    this.#options.onState(undefined);
  }
}
