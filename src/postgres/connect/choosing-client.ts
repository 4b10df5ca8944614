// A client class for `pg.Pool` that chooses its host on connect and then forwards to that host's client.
import { EventEmitter } from 'node:events';
import type pg from 'pg';
import type { Chosen } from './choose-host.ts';

type Done = (error?: unknown) => void;
/** Undocumented members that `pg.Pool` uses. */
type Inner = pg.Client & {
  readonly connection: unknown;
  readonly _queryable: boolean;
  readonly _ending: boolean;
  ref(): void;
  unref(): void;
};

/** Retires a connection to a read-only server after this, because another server may accept writes by then. */
const STAND_IN_MS = 2_000;

export function choosingClient(open: (signal: AbortSignal) => Promise<Chosen>): new () => pg.ClientBase {
  class ChoosingClient extends EventEmitter {
    readonly #gaveUp = new AbortController();
    #inner: Inner | undefined;
    #isStale = false;

    connect(done: Done): void {
      open(this.#gaveUp.signal).then(
        (chosen) => {
          this.#adopt(chosen);
          done();
        },
        (error: unknown) => done(error),
      );
    }

    #adopt({ client, isStandIn }: Chosen): void {
      const inner = client as Inner;
      this.#inner = inner;
      for (const event of ['error', 'end', 'notice', 'notification', 'drain'] as const) {
        (inner as EventEmitter).on(event, (...values: unknown[]) => {
          if (event !== 'error' || this.listenerCount('error') > 0) this.emit(event, ...values);
        });
      }
      if (!isStandIn) return;
      const timer = setTimeout(() => (this.#isStale = true), STAND_IN_MS);
      timer.unref();
    }

    get connection(): unknown {
      return this.#inner?.connection;
    }

    get processID(): unknown {
      return (this.#inner as { processID?: unknown } | undefined)?.processID;
    }

    get _queryable(): boolean {
      return !this.#isStale && this.#inner?._queryable === true;
    }

    get _ending(): boolean {
      return this.#inner?._ending === true;
    }

    isConnected(): boolean {
      return this.#inner !== undefined;
    }

    query(...values: Parameters<pg.Client['query']>): unknown {
      return this.#inner?.query(...values);
    }

    ref(): void {
      this.#inner?.ref();
    }

    unref(): void {
      this.#inner?.unref();
    }

    end(done?: Done): Promise<void> | undefined {
      this.#gaveUp.abort(new Error('Connection terminated'));
      const ended = this.#inner ? this.#inner.end() : Promise.resolve();
      if (done === undefined) return ended;
      ended.then(() => done(), done);
      return undefined;
    }
  }
  return ChoosingClient as unknown as new () => pg.ClientBase;
}
