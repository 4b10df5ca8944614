// The server's side of one worker process: its socket, the calls it runs, its health. A worker is never restarted.
import type { ChildProcess } from 'node:child_process';
import { Duplex } from 'node:stream';
import type { Log } from '../../log/log.ts';
import { AnswerStream } from './function-answer.ts';
import { functionFailed, timedOut, workerDied } from '../problem.ts';
import type { PendingCall } from './call.ts';
import { parseFailure, parseHead, parseLoaded } from './parse-frame.ts';
import { spawnWorker, type SpawnOptions } from './spawn-worker.ts';
import { WorkerHealth } from './worker-health.ts';
import { logLine, logStreams, type Redact } from './worker-log.ts';
import {
  CANCEL_REASONS,
  FrameReader,
  FrameWriter,
  FROM_WORKER,
  splitHead,
  TO_WORKER,
  toJson,
  withHead,
  type CancelReason,
  type Failure,
  type Loaded,
  type WorkerSettings,
} from '../worker/protocol.ts';

/** A handler that still runs this long after its deadline gets its worker replaced. */
const LEAK_GRACE_MS = 5_000;
const MAX_LEAKED = 64;
const EXIT_GRACE_MS = 2_000;
const LOAD_TIMEOUT_MS = 10_000;

export type WorkerOptions = Omit<SpawnOptions, 'root'> & {
  readonly settings: WorkerSettings;
  readonly log: Log;
  readonly redact: Redact;
  /** Include errors in responses; for `svc dev`. */
  readonly showErrors: boolean;
  readonly serviceToken: () => Promise<string>;
};

export type WorkerEvents = {
  onReady(): void;
  onExit(): void;
  /** Called when the worker should be replaced after the calls in flight. */
  onDegraded(reason: string): void;
  /** A slot became free. */
  onFree(): void;
  /** Called when the worker died before it read this call, so that another worker can run it. */
  onUnread(pending: PendingCall): void;
};

/** Allowed transitions. */
const NEXT_STATES = {
  /** Spawned, and not yet configured. */
  starting: ['ready', 'retiring', 'dead'],
  /** Takes calls. */
  ready: ['retiring', 'dead'],
  /** Takes no new calls; exits after the last call in flight. */
  retiring: ['dead'],
  dead: [],
} as const;
export type WorkerState = keyof typeof NEXT_STATES;

type Running = {
  readonly pending: PendingCall;
  stream: AnswerStream | undefined;
  cancelled: boolean;
  /** The deadline passed: the caller has a response and the slot is free, but the handler still runs. */
  leaked: boolean;
  timer: NodeJS.Timeout;
};

export class WorkerProcess {
  readonly child: ChildProcess;
  readonly startedAt = performance.now();
  readyAt: number | undefined;
  /** The function it is loading, or was loading when it died. */
  loading: string | undefined;
  readonly #options: WorkerOptions;
  readonly #events: WorkerEvents;
  readonly #writer: FrameWriter;
  readonly #running = new Map<number, Running>();
  readonly #loads = new Map<number, (loaded: Loaded) => void>();
  readonly #exited: Promise<void>;
  #state: WorkerState = 'starting';
  /** Calls that hold a slot: all but the leaked. */
  #inFlight = 0;
  #leaked = 0;
  #nextId = 0;
  readonly #health: WorkerHealth;

  constructor(options: WorkerOptions, events: WorkerEvents) {
    this.#options = options;
    this.#events = events;
    this.child = spawnWorker({ ...options, root: options.settings.root });
    this.#health = new WorkerHealth({
      memoryMb: options.memoryMb,
      isBusy: () => this.#running.size > 0,
      ping: () => {
        this.#writer.send(TO_WORKER.ping, 0);
        return this.#nextId;
      },
      onDegraded: (reason) => events.onDegraded(reason),
      onFatal: (reason, fields) => {
        options.log.error({ worker: this.child.pid, ...fields }, reason);
        this.kill();
      },
    });
    this.#exited = new Promise((resolve) => {
      this.child.once('exit', (code, signal) => {
        this.#onExit(code, signal);
        resolve();
      });
      this.child.once('error', (error) => {
        options.log.error({ err: error }, 'could not start a function worker');
        this.#onExit(null, null);
        resolve();
      });
    });
    const channel = this.child.stdio[3];
    if (!(channel instanceof Duplex)) throw new Error('the worker has no channel');
    // Requests of one event loop turn come from many sockets; setImmediate batches their frames into one write.
    this.#writer = new FrameWriter(channel, setImmediate);
    const reader = new FrameReader((type, id, payload) => this.#onFrame(type, id, payload));
    channel.on('data', (chunk: Buffer) => {
      try {
        reader.push(chunk);
      } catch (error) {
        options.log.error(
          { err: error, worker: this.child.pid },
          'a function worker sent an unreadable frame',
        );
        this.kill();
      }
    });
    channel.on('error', () => {
      // The process exits next; #onExit handles it.
    });
    logStreams(options.log, options.redact, this.child);
    this.#writer.send(TO_WORKER.configure, 0, toJson(options.settings));
  }

  get state(): WorkerState {
    return this.#state;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** False while its event loop does not answer. */
  get responsive(): boolean {
    return this.#health.responsive;
  }

  run(pending: PendingCall): void {
    const id = this.#newId();
    const timer = setTimeout(() => this.#onDeadline(id, running), pending.remainingMs);
    const running: Running = { pending, stream: undefined, cancelled: false, leaked: false, timer };
    pending.cancel = (reason) => this.#cancel(id, running, reason);
    this.#running.set(id, running);
    this.#inFlight++;
    const { head, body } = pending.call;
    this.#writer.send(TO_WORKER.request, id, ...withHead(Buffer.from(head), body));
    this.#health.watch();
  }

  /** Imports a handler before its first call. */
  async load(name: string): Promise<Loaded> {
    this.loading = name;
    const id = this.#newId();
    const { promise, resolve } = Promise.withResolvers<Loaded>();
    const fail = (message: string, ms: number): void =>
      resolve({ name, ms, failure: { kind: 'load', message } });
    const timer = setTimeout(() => {
      fail(`loading took longer than ${LOAD_TIMEOUT_MS / 1000} s`, LOAD_TIMEOUT_MS);
      this.#health.expectPong();
    }, LOAD_TIMEOUT_MS);
    void this.#exited.then(() => fail('the worker died while loading it', 0));
    this.#loads.set(id, resolve);
    this.#writer.send(TO_WORKER.load, id, Buffer.from(name));
    const loaded = await promise;
    clearTimeout(timer);
    this.#loads.delete(id);
    // Kept for a dead worker: it names the function that killed it.
    if (this.#state !== 'dead') this.loading = undefined;
    return loaded;
  }

  /** Takes no new calls; exits when those in flight have ended. */
  retire(): void {
    if (this.#enter('retiring')) this.#endIfIdle();
  }

  kill(): void {
    if (this.#state !== 'dead') this.child.kill('SIGKILL');
  }

  /** Cancels all calls and ends the process, by SIGKILL after a grace period. */
  async stop(): Promise<void> {
    if (this.#state === 'dead') return;
    this.#enter('retiring');
    for (const [id, running] of this.#running) this.#cancel(id, running, 'shutdown');
    this.#shutDown();
    await this.#exited;
  }

  /** False if the transition is not allowed. */
  #enter(state: WorkerState): boolean {
    const next: readonly WorkerState[] = NEXT_STATES[this.#state];
    if (!next.includes(state)) return false;
    this.#state = state;
    return true;
  }

  #newId(): number {
    this.#nextId = (this.#nextId + 1) >>> 0;
    return this.#nextId;
  }

  #shutDown(): void {
    this.#writer.send(TO_WORKER.shutdown, 0);
    setTimeout(() => this.kill(), EXIT_GRACE_MS).unref();
  }

  #endIfIdle(): void {
    if (this.#state === 'retiring' && this.#inFlight === 0) this.#shutDown();
  }

  #onFrame(type: number, id: number, payload: Buffer): void {
    switch (type) {
      case FROM_WORKER.answer: {
        // Parse first: a frame that cannot be read ends the worker, and the calls it still has are answered then.
        const { head, body } = splitHead(payload);
        const { status, headers, bodyless } = parseHead(head);
        const running = this.#removeCall(id);
        if (!running || running.leaked) return;
        running.pending.resolve({ status, headers, body: bodyless ? undefined : body });
        return;
      }
      case FROM_WORKER.head: {
        const running = this.#running.get(id);
        if (running && !running.leaked && !running.stream) this.#beginStream(id, running, payload);
        return;
      }
      case FROM_WORKER.chunk:
        this.#running.get(id)?.stream?.receive(payload);
        return;
      case FROM_WORKER.end:
        this.#removeCall(id)?.stream?.complete();
        return;
      case FROM_WORKER.failed: {
        const failure = parseFailure(payload);
        const running = this.#removeCall(id);
        if (running) this.#onFailure(running, failure);
        return;
      }
      case FROM_WORKER.log:
        logLine(this.#options.log, this.#options.redact, payload);
        return;
      case FROM_WORKER.pong:
        this.#health.onPong(payload.readDoubleLE(0));
        return;
      case FROM_WORKER.needToken:
        void this.#giveToken(id);
        return;
      case FROM_WORKER.loaded:
        this.#loads.get(id)?.(parseLoaded(payload));
        return;
      case FROM_WORKER.faulty:
        this.#events.onDegraded('it had an uncaught exception');
        return;
      case FROM_WORKER.ready:
        if (!this.#enter('ready')) return;
        this.readyAt = performance.now();
        this.#events.onReady();
    }
  }

  #beginStream(id: number, running: Running, payload: Buffer): void {
    const { status, headers } = parseHead(payload);
    running.stream = new AnswerStream(
      (bytes) => {
        const credit = Buffer.allocUnsafe(4);
        credit.writeUInt32LE(bytes, 0);
        this.#writer.send(TO_WORKER.credit, id, credit);
      },
      () => this.#cancel(id, running, 'client-gone'),
    );
    running.pending.resolve({ status, headers, body: running.stream });
  }

  /** Removes a call that ended and frees its slot, unless its deadline already did. */
  #removeCall(id: number): Running | undefined {
    const running = this.#running.get(id);
    if (!running) return undefined;
    this.#running.delete(id);
    clearTimeout(running.timer);
    if (running.leaked) this.#leaked--;
    else this.#release(running);
    return running;
  }

  #release({ pending }: Running): void {
    this.#inFlight--;
    pending.release();
    if (this.#state === 'ready') this.#events.onFree();
    else this.#endIfIdle();
  }

  #onFailure({ pending, stream, leaked }: Running, { kind, message, stack }: Failure): void {
    const { log, redact, showErrors } = this.#options;
    const { requestId, functionName } = pending.call;
    const error = redact(stack ?? message);
    // A failed load was logged when the worker started.
    if (kind === 'load') log.debug({ requestId, function: functionName }, 'the function is not loaded');
    else if (kind !== 'bad-json' && !stream)
      log.error({ requestId, function: functionName, error }, 'the function failed');
    pending.failure = error;
    if (leaked) return;
    if (stream) stream.destroy(new Error('the function failed while streaming'));
    else pending.reject(functionFailed(kind, message, showErrors ? error : undefined));
  }

  #onDeadline(id: number, running: Running): void {
    const { pending, stream } = running;
    const { requestId, functionName, timeoutMs } = pending.call;
    this.#options.log.warn(
      { requestId, function: functionName, timeoutMs },
      'the function exceeded its timeout',
    );
    if (stream) stream.destroy(new Error('the function exceeded its timeout'));
    else pending.reject(timedOut(timeoutMs));
    this.#sendCancel(id, 'deadline');
    running.leaked = true;
    this.#leaked++;
    this.#release(running);
    this.#health.expectPong();
    running.timer = setTimeout(() => {
      if (this.#running.has(id)) this.#events.onDegraded(`${functionName} still runs after its timeout`);
    }, LEAK_GRACE_MS);
    running.timer.unref();
    if (this.#leaked >= MAX_LEAKED)
      this.#events.onDegraded('too many handlers still run after their timeout');
  }

  /** Signals the handler; the call keeps its slot until it ends or its deadline passes. */
  #cancel(id: number, running: Running, reason: CancelReason): void {
    if (running.cancelled || running.leaked || this.#running.get(id) !== running) return;
    running.cancelled = true;
    this.#sendCancel(id, reason);
  }

  #sendCancel(id: number, reason: CancelReason): void {
    this.#writer.send(TO_WORKER.cancel, id, Buffer.of(CANCEL_REASONS.indexOf(reason)));
  }

  async #giveToken(id: number): Promise<void> {
    const call = this.#running.get(id)?.pending.call;
    // Only for a call this worker runs, of a function that may act as service_role: the worker runs project code.
    if (!call?.serviceRole) return;
    try {
      this.#writer.send(TO_WORKER.token, id, Buffer.from(await this.#options.serviceToken()));
    } catch (error) {
      this.#options.log.error({ err: error, requestId: call.requestId }, 'could not create a service token');
    }
  }

  #onExit(code: number | null, signal: NodeJS.Signals | null): void {
    const expected = this.#state === 'retiring';
    if (!this.#enter('dead')) return;
    this.#health.end();
    const running = [...this.#running];
    this.#running.clear();
    this.#inFlight = 0;
    for (const [, { timer, pending }] of running) {
      clearTimeout(timer);
      pending.release();
    }
    const unanswered = running.filter(([, { leaked }]) => !leaked);
    const isUnread = ([id, { pending }]: [number, Running]): boolean =>
      id > this.#health.lastReadId && !pending.moved;
    const lost = unanswered.filter((entry) => !isUnread(entry));
    if (!expected || lost.length > 0) {
      const requests = lost.map(([, { pending }]) => pending.call.requestId);
      this.#options.log.error(
        { worker: this.child.pid, exitCode: code, signal, requests },
        'a function worker died',
      );
    }
    for (const [, { stream, pending }] of lost) {
      if (stream) stream.destroy(new Error('the worker died'));
      else pending.reject(workerDied());
    }
    this.#events.onExit();
    for (const [, { pending }] of unanswered.filter(isUnread)) {
      pending.moved = true;
      this.#events.onUnread(pending);
    }
  }
}
