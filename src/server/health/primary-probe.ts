// Checks on its own direct connection whether the database accepts writes. No other code uses the connection, so locks
// and load elsewhere do not affect the result.
import type pg from 'pg';
import { cutOff, endClient, openSession, type ConnectionSettings } from '../../postgres/connection.ts';

export type PrimaryState = 'writable' | 'read-only';

export class PrimaryProbe {
  readonly #settings: ConnectionSettings;
  readonly #limitMs: number;
  #client: pg.Client | undefined;
  #checking: Promise<PrimaryState> | undefined;
  readonly #closed = new AbortController();

  constructor(settings: ConnectionSettings, limitMs: number) {
    this.#settings = settings;
    this.#limitMs = limitMs;
  }

  /**
   * Checks the database; concurrent calls share one check. Throws and closes the connection if there is no
   * response in time.
   */
  check(): Promise<PrimaryState> {
    return (this.#checking ??= this.#checkOnce().finally(() => {
      this.#checking = undefined;
    }));
  }

  async close(): Promise<void> {
    this.#closed.abort(new Error('the probe is closed'));
    const client = this.#client;
    this.#client = undefined;
    if (client) await endClient(client);
  }

  async #checkOnce(): Promise<PrimaryState> {
    this.#closed.signal.throwIfAborted();
    const clock = AbortSignal.timeout(this.#limitMs);
    const signal = AbortSignal.any([clock, this.#closed.signal]);
    const client = (this.#client ??= await this.#open(signal));
    const end = (): void => cutOff(client);
    signal.addEventListener('abort', end);
    try {
      const { rows } = await client.query<{ writable: boolean }>(
        "select not pg_is_in_recovery() and not current_setting('transaction_read_only')::bool as writable",
      );
      if (rows[0]?.writable === true) return 'writable';
      // The next check connects to another host, if there is one.
      this.#drop(client);
      return 'read-only';
    } catch (error) {
      this.#drop(client);
      throw clock.aborted ? this.#timeoutError() : error;
    } finally {
      signal.removeEventListener('abort', end);
    }
  }

  async #open(signal: AbortSignal): Promise<pg.Client> {
    try {
      const { client } = await openSession(
        { ...this.#settings, connectTimeoutMs: this.#limitMs },
        { signal },
      );
      client.on('end', () => {
        if (this.#client === client) this.#client = undefined;
      });
      return client;
    } catch (error) {
      throw signal.aborted && !this.#closed.signal.aborted ? this.#timeoutError() : error;
    }
  }

  #timeoutError(): Error {
    return new Error(`no answer within ${this.#limitMs / 1000} s`);
  }

  #drop(client: pg.Client): void {
    if (this.#client === client) this.#client = undefined;
    cutOff(client);
  }
}
