// One worker, seen from the parent.
import cluster, { type Worker as ClusterWorker } from 'node:cluster';
import { readProcessTimes, Silence } from './silence.ts';
import {
  REPORT_MS,
  WORKER_MARK,
  type FromWorker,
  type Report,
  type Served,
  type Start,
  type ToWorker,
} from './protocol.ts';

/** After a signal that should have ended it. */
const KILL_AFTER_MS = 2_000;
/** Maximum silence of a worker that serves. A worker that is loading can block its event loop for longer. */
const MAX_SILENCE_MS = 10_000;
const MAX_SILENCE_LOADING_MS = 60_000;

export type WorkerEvents = {
  readonly onMessage: (worker: Worker, message: FromWorker) => void;
  readonly onExit: (worker: Worker, how: Exit) => void;
};

export type Exit = { readonly code: number | null; readonly signal: string | null };

type Reloaded = (served: Served | undefined) => void;

export class Worker {
  readonly place: number;
  readonly #process: ClusterWorker;
  readonly #reloads = new Map<number, Reloaded>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #started = Promise.withResolvers<boolean>();
  #state: 'starting' | 'serving' | 'leaving' | 'ended' = 'starting';
  #servingSince: number | undefined;
  readonly #silence: Silence;
  #questions = 0;
  served: Served | undefined;
  report: Report | undefined;
  /** True after the worker was asked to close its port because it is not ready. */
  withdrawn = false;
  /** Since when it is not ready, in ms of `performance.now()`. */
  unreadySince: number | undefined;
  follows = false;
  /** Killed because it did not answer. */
  hung = false;
  /** True after the worker was asked to exit. Its exit is then not a failure. */
  asked = false;

  constructor(start: Start, events: WorkerEvents) {
    this.place = start.process;
    this.#process = cluster.fork({ [WORKER_MARK]: String(start.process) });
    this.#silence = new Silence(() => readProcessTimes(this.pid));
    this.#process.on('message', (message: FromWorker) => {
      this.#silence.reset();
      this.#onMessage(message);
      events.onMessage(this, message);
    });
    // A failed fork or a message to one that has just ended: its exit is what counts.
    this.#process.on('error', () => {});
    this.#process.once('exit', (code, signal) => {
      this.#state = 'ended';
      for (const reloaded of this.#reloads.values()) reloaded(undefined);
      this.#started.resolve(false);
      this.#ended.resolve();
      events.onExit(this, { code, signal });
    });
    this.send(start);
  }

  get pid(): number {
    return this.#process.process.pid ?? 0;
  }

  get state(): 'starting' | 'serving' | 'leaving' | 'ended' {
    return this.#state;
  }

  /** How long it has served. */
  get servedMs(): number {
    return this.#servingSince === undefined ? 0 : performance.now() - this.#servingSince;
  }

  /** True once it serves, false if it ends before. */
  get started(): Promise<boolean> {
    return this.#started.promise;
  }

  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  send(message: ToWorker): void {
    // Its exit follows where the channel is closed already.
    if (this.#process.isConnected()) this.#process.send(message, () => {});
  }

  /** Reloads the file and returns the result. Undefined if the worker rejects the file or ends. */
  reload(quiet: boolean): Promise<Served | undefined> {
    if (this.#state === 'ended') return Promise.resolve(undefined);
    const id = ++this.#questions;
    return new Promise((resolve) => {
      this.#reloads.set(id, (served) => {
        this.#reloads.delete(id);
        if (served) this.served = served;
        resolve(served);
      });
      this.send({ kind: 'reload', id, quiet });
    });
  }

  leave(how: 'leave' | 'drain' | 'replaced'): void {
    this.asked = true;
    if (this.#state !== 'ended') this.#state = 'leaving';
    this.send({ kind: how });
  }

  /** Called once a second. True when it has not answered for so long that it must be killed. */
  missesReport(): boolean {
    const maxMs = this.#servingSince === undefined ? MAX_SILENCE_LOADING_MS : MAX_SILENCE_MS;
    return this.#silence.add(REPORT_MS) > maxMs && !this.hung;
  }

  /** Sends SIGTERM, then SIGKILL. A hung loop reacts to SIGKILL only, but a slow worker can still log. */
  killHung(): void {
    this.hung = true;
    this.#process.process.kill('SIGTERM');
    setTimeout(() => this.kill(), KILL_AFTER_MS).unref();
  }

  kill(): void {
    if (this.#state !== 'ended') this.#process.process.kill('SIGKILL');
  }

  #onMessage(message: FromWorker): void {
    if (message.kind === 'serving') {
      this.served = message.served;
      this.#servingSince = performance.now();
      if (this.#state === 'starting') this.#state = 'serving';
      this.#started.resolve(true);
    }
    if (message.kind === 'report') this.report = message.report;
    if (message.kind === 'reloaded') this.#reloads.get(message.id)?.(message.served);
    if (message.kind === 'follow') this.follows = message.on;
  }
}
