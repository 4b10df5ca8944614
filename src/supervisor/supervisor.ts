// The parent of several processes that serve one file on one machine. It serves nothing itself and has no connection
// to the database: it starts workers, which share a listening socket, and keeps them at their number.
import cluster from 'node:cluster';
import { randomBytes } from 'node:crypto';
import { splitEnvironment } from '../../bin/private-environment.js';
import { freeStartupMemory } from '../lib/memory/free-startup-memory.ts';
import { Backoff } from '../lib/limits/backoff.ts';
import { SerialQueue } from '../lib/limits/serial-queue.ts';
import { RecentLines } from '../log/recent-lines.ts';
import { keepsListening } from './listening.ts';
import { parentLog, readableLine, type ParentLog } from './parent-log.ts';
import { REPORT_MS, type FromWorker, type ProcessFigures, type Question } from './protocol.ts';
import { Worker, type Exit } from './worker.ts';

/** Consecutive deaths of a worker before it was ready. More end the service, unless another worker serves. */
const TOLERATED_DEATHS = 5;
const RESTART_PAUSE = { minMs: 500, maxMs: 60_000, immediate: true };
/** A worker that has served this long restarts without the pauses of earlier deaths. */
const HEALTHY_MS = 60_000;
/** Maximum time between the arrival of a signal at different processes of a group. */
const SIGNAL_PAUSE_MS = 1_000;
const EXIT_FAULT = 70;
const EXIT_KILLED = 130;
/** Exit codes of a rejected start. A retry would fail, too. */
const REFUSALS: ReadonlySet<number | null> = new Set([1, 2, 69, 78]);

export type SupervisorOptions = {
  readonly processes: number;
  /** Program of each worker. `arguments` are its arguments. */
  readonly program: string;
  readonly arguments: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** `pretty`: lines for a person instead of JSON. */
  readonly log?: { readonly level?: string | undefined; readonly pretty?: unknown };
  /** The end of the standard input is a signal to stop. */
  readonly untilStdinEnds?: boolean | undefined;
};

type Place = {
  readonly number: number;
  readonly backoff: Backoff;
  worker: Worker | undefined;
  /** Worker that is starting to replace the present one. */
  next: Worker | undefined;
  timer: NodeJS.Timeout | undefined;
  hasServed: boolean;
  deaths: number;
};

export class Supervisor {
  readonly #options: SupervisorOptions;
  /** Names this parent and its workers: to others they are one instance. */
  readonly #instance = randomBytes(4).toString('hex');
  readonly #lines = new RecentLines();
  readonly #log: ParentLog;
  readonly #hidden: Readonly<Record<string, string>>;
  readonly #places: readonly Place[];
  readonly #workers = new Set<Worker>();
  /** Reloads and replacements, one at a time. */
  readonly #queue = new SerialQueue();
  readonly #end = Promise.withResolvers<number>();
  #exitCode = 0;
  #port: number | undefined;
  #stopping = false;
  #replacing = false;
  #endDelay: (() => void) | undefined;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#log = parentLog(options.log?.level, (line) => {
      process.stdout.write(options.log?.pretty === undefined ? line : readableLine(line));
      this.#keep([line]);
    });
    this.#places = Array.from({ length: options.processes }, (_, index) => ({
      number: index + 1,
      backoff: new Backoff(RESTART_PAUSE),
      worker: undefined,
      next: undefined,
      timer: undefined,
      hasServed: false,
      deaths: 0,
    }));
    const { hidden } = splitEnvironment(options.env);
    this.#hidden = hidden;
    // A forked process would inherit them, and Linux would show them.
    for (const name of Object.keys(hidden)) delete process.env[name];
    // A free worker accepts a new connection first: no connection is lost when a worker closes its socket, and free
    // workers cover for a hung one. Round robin (`rr`) spreads connections more evenly.
    const inTurns = options.env['NODE_CLUSTER_SCHED_POLICY'] === 'rr';
    cluster.schedulingPolicy = inTurns ? cluster.SCHED_RR : cluster.SCHED_NONE;
    cluster.setupPrimary({
      exec: options.program,
      args: [...options.arguments],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
  }

  /** Resolves with the exit code. */
  async run(): Promise<number> {
    this.#handleSignals();
    const clock = setInterval(() => this.#tick(), REPORT_MS);
    const [first] = this.#places;
    if (first) this.#spawn(first);
    try {
      return await this.#end.promise;
    } finally {
      clearInterval(clock);
    }
  }

  #handleSignals(): void {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.on(signal, () => {
        if (!this.#stopping) void this.#stop(signal);
        else if (this.#endDelay) this.#endDelay();
        else this.#killAll();
      });
    }
    process.on('SIGHUP', () => void this.#queue.run(() => this.#reload()));
    process.on('SIGUSR2', () => void this.#queue.run(() => this.#replaceAll()));
    if (this.#options.untilStdinEnds === true) {
      process.stdin.resume().once('close', () => void this.#stop('stdin'));
      process.stdin.unref();
    }
  }

  // Starts and ends of workers

  #spawn(place: Place): Worker {
    const worker = new Worker(
      {
        kind: 'start',
        process: place.number,
        processes: this.#options.processes,
        instance: this.#instance,
        env: this.#hidden,
        first: this.#workers.size === 0,
        port: this.#port,
      },
      {
        onMessage: (from, message) => this.#onMessage(place, from, message),
        onExit: (from, how) => this.#onExit(place, from, how),
      },
    );
    this.#workers.add(worker);
    if (place.worker) place.next = worker;
    else place.worker = worker;
    return worker;
  }

  #onServing(place: Place, worker: Worker): void {
    const isFirst = this.#places.every(({ hasServed }) => !hasServed);
    place.hasServed = true;
    place.deaths = 0;
    if (this.#stopping) return;
    if (isFirst) {
      freeStartupMemory();
      // It has migrated the database: the others find that done.
      for (const other of this.#places) if (other !== place) this.#spawn(other);
    }
    // It has read the file just now, which may be a newer one.
    if (!this.#replacing) this.#align(worker);
  }

  #onExit(place: Place, worker: Worker, { code, signal }: Exit): void {
    this.#workers.delete(worker);
    if (place.next === worker) place.next = undefined;
    if (place.worker === worker) place.worker = undefined;
    if (this.#stopping) {
      if (this.#workers.size === 0) this.#ended();
      return;
    }
    if (worker.asked) return;
    const { number, backoff } = place;
    const fields = { worker: number, pid: worker.pid, code, signal };
    if (worker.servedMs === 0) {
      place.deaths += 1;
      const isFirst = this.#places.every(({ hasServed }) => !hasServed);
      // The worker has already logged the reason.
      if (isFirst && REFUSALS.has(code)) return this.#end.resolve(code ?? EXIT_FAULT);
      if (this.#cannotServe()) {
        this.#log(
          'error',
          fields,
          `a worker has ended ${TOLERATED_DEATHS} times before it was ready; giving up`,
        );
        this.#exitCode = EXIT_FAULT;
        return void this.#stop('failure');
      }
    }
    if (place.worker || place.next || place.timer) {
      this.#log('error', fields, 'a worker has ended');
      return;
    }
    if (worker.servedMs >= HEALTHY_MS) backoff.reset();
    const restartInMs = backoff.next();
    this.#log('error', { ...fields, restartInMs }, 'a worker has ended; starting another');
    place.timer = setTimeout(() => {
      place.timer = undefined;
      this.#spawn(place);
    }, restartInMs);
  }

  /** No worker serves, and none can be expected to: each place has failed too often, or was never used. */
  #cannotServe(): boolean {
    if (this.#serving().length > 0) return false;
    return this.#places.every(
      ({ deaths, worker, next, timer }) =>
        deaths >= TOLERATED_DEATHS || (deaths === 0 && !(worker ?? next ?? timer)),
    );
  }

  /** Once a second: who hangs, and who is to listen. */
  #tick(): void {
    for (const worker of this.#workers) {
      if (!worker.missesReport()) continue;
      this.#log('error', { worker: worker.place, pid: worker.pid }, 'a worker does not answer; killing it');
      worker.killHung();
    }
    const now = performance.now();
    const serving = this.#serving();
    for (const worker of serving) {
      const isReady = worker.report?.ready !== false;
      if (isReady) worker.unreadySince = undefined;
      else worker.unreadySince ??= now;
    }
    for (const worker of serving) {
      const { unreadySince } = worker;
      const othersAreReady = serving.some(
        (candidate) => candidate !== worker && candidate.unreadySince === undefined,
      );
      const open = keepsListening(
        unreadySince === undefined ? undefined : now - unreadySince,
        othersAreReady,
      );
      if (open !== worker.withdrawn) continue;
      worker.withdrawn = !open;
      const fields = { worker: worker.place, pid: worker.pid };
      if (open) this.#log('info', fields, 'a worker takes connections again');
      else
        this.#log(
          'warn',
          fields,
          'a worker is not ready while others are; it takes no connections until it is',
        );
      worker.send({ kind: 'listen', open });
    }
  }

  // Reload and replacement

  /** Handles SIGHUP. If the first worker rejects the file, the others do not receive it. */
  async #reload(): Promise<void> {
    const [leader] = this.#serving();
    if (!leader || this.#stopping) return;
    const served = await leader.reload(false);
    if (served) await this.#reloadOthers(leader);
  }

  async #reloadOthers(done: Worker): Promise<void> {
    const otherWorkers = this.#serving().filter((worker) => worker !== done);
    await Promise.all(
      otherWorkers.map(async (worker) => {
        const served = await worker.reload(true);
        if (served || worker.state !== 'serving') return;
        const fields = { worker: worker.place, pid: worker.pid };
        this.#log(
          'error',
          fields,
          'a worker refused the file that another one serves; it serves the former one on',
        );
      }),
    );
  }

  #align(worker: Worker): void {
    const differs = this.#serving().some(({ served }) => served?.config !== worker.served?.config);
    if (differs) void this.#queue.run(() => this.#reload());
  }

  /**
   * Handles SIGUSR2. A replacement that does not start ends the operation, and its predecessor keeps serving.
   */
  async #replaceAll(): Promise<void> {
    this.#log('info', {}, 'replacing the workers, one at a time');
    this.#replacing = true;
    try {
      for (const place of this.#places) {
        if (this.#stopping || !(await this.#replace(place))) return;
      }
      this.#log('info', {}, 'all workers are replaced');
    } finally {
      this.#replacing = false;
      const [first] = this.#serving();
      if (first && !this.#stopping) this.#align(first);
    }
  }

  async #replace(place: Place): Promise<boolean> {
    const former = place.worker;
    // One that starts runs the program that is there now.
    if (former?.state !== 'serving') return true;
    const next = this.#spawn(place);
    if (!(await next.started)) {
      if (!this.#stopping)
        this.#log(
          'error',
          { worker: place.number },
          'the new worker did not start; the others are not replaced',
        );
      return false;
    }
    if (this.#stopping) return false;
    place.worker = next;
    place.next = undefined;
    former.leave('replaced');
    await former.ended;
    return true;
  }

  /** Handles a signal that was sent to a single worker. */
  #replaceSignalled(place: Place, worker: Worker): void {
    setTimeout(() => {
      if (this.#stopping || place.worker !== worker) return;
      this.#log(
        'info',
        { worker: place.number, pid: worker.pid },
        'a worker was asked to stop; replacing it',
      );
      void this.#queue.run(() => this.#replace(place));
    }, SIGNAL_PAUSE_MS).unref();
  }

  // The end

  async #stop(signal: string): Promise<void> {
    if (this.#stopping) return;
    this.#stopping = true;
    this.#log('info', { signal }, 'stopping');
    for (const { timer } of this.#places) clearTimeout(timer);
    const serving = this.#serving();
    const isProbed = serving.some(({ report }) => report?.probed === true);
    const delayMs = Math.max(0, ...serving.map(({ served }) => served?.drainDelayMs ?? 0));
    if (isProbed && delayMs > 0 && signal !== 'failure') {
      for (const worker of this.#workers) worker.leave('leave');
      this.#log('info', { delayMs }, 'waiting until balancers have seen /ready');
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, delayMs);
        this.#endDelay = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#endDelay = undefined;
    }
    for (const worker of this.#workers) worker.leave('drain');
    if (this.#workers.size === 0) this.#ended();
  }

  #ended(): void {
    this.#log('info', {}, 'stopped');
    this.#end.resolve(this.#exitCode);
  }

  #killAll(): void {
    for (const worker of this.#workers) worker.kill();
    this.#end.resolve(EXIT_KILLED);
  }

  // Messages of workers

  #onMessage(place: Place, worker: Worker, message: FromWorker): void {
    switch (message.kind) {
      case 'serving':
        this.#port = message.port;
        return this.#onServing(place, worker);
      case 'report':
        return this.#keep(message.lines);
      case 'signalled':
        return this.#replaceSignalled(place, worker);
      case 'ask':
        return void this.#answer(worker, message.question).then((value) =>
          worker.send({ kind: 'answer', id: message.id, value }),
        );
      case 'follow':
      case 'reloaded':
    }
  }

  async #answer(worker: Worker, question: Question): Promise<unknown> {
    if (question.about === 'lines') return this.#lines.after(question.after);
    if (question.about === 'processes') return this.#figures();
    await this.#queue.run(() => this.#reloadOthers(worker));
    return null;
  }

  #figures(): ProcessFigures[] {
    const own = {
      process: 0,
      pid: process.pid,
      ready: true,
      memoryBytes: process.memoryUsage.rss(),
      connections: 0,
    };
    const workers = [...this.#workers].map(({ place, pid, report }) => ({
      process: place,
      pid,
      ready: report?.ready ?? false,
      memoryBytes: report?.memoryBytes ?? 0,
      connections: report?.connections ?? 0,
    }));
    return [own, ...workers.sort((a, b) => a.process - b.process)];
  }

  #keep(lines: readonly string[]): void {
    if (lines.length === 0) return;
    const kept = lines.map((line) => this.#lines.push(line));
    for (const worker of this.#workers) if (worker.follows) worker.send({ kind: 'lines', lines: kept });
  }

  #serving(): Worker[] {
    return this.#places.flatMap(({ worker }) => (worker?.state === 'serving' ? [worker] : []));
  }
}
