// Asks the database, on a direct connection of its own, whether it takes writes. Nothing else uses the connection, so
// nothing keeps it busy, and what waits for a lock elsewhere says nothing about it.
import type pg from 'pg';
import { cutOff, endClient, openSession, type ConnectionSettings } from '../../postgres/connection.ts';

export type PrimaryState = 'writable' | 'read-only';

export class PrimaryProbe {
  readonly #settings: ConnectionSettings;
  readonly #limitMs: number;
  #client: pg.Client | undefined;
  #asking: Promise<PrimaryState> | undefined;
  readonly #closed = new AbortController();

  constructor(settings: ConnectionSettings, limitMs: number) {
    this.#settings = settings;
    this.#limitMs = limitMs;
  }

  /** One at a time. Throws when nobody answers within the limit; the connection is closed then. */
  ask(): Promise<PrimaryState> {
    return (this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    }));
  }

  async close(): Promise<void> {
    this.#closed.abort(new Error('the probe is closed'));
    const client = this.#client;
    this.#client = undefined;
    if (client) await endClient(client);
  }

  async #ask(): Promise<PrimaryState> {
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
      // The next question goes to another host, if there is one.
      this.#drop(client);
      return 'read-only';
    } catch (error) {
      this.#drop(client);
      throw clock.aborted ? this.#silent() : error;
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
      throw signal.aborted && !this.#closed.signal.aborted ? this.#silent() : error;
    }
  }

  #silent(): Error {
    return new Error(`no answer within ${this.#limitMs / 1000} s`);
  }

  #drop(client: pg.Client): void {
    if (this.#client === client) this.#client = undefined;
    cutOff(client);
  }
}
