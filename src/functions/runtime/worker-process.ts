// One worker process seen from the server: its socket, the requests it holds, its health. It has four states,
// starting → ready → retiring → dead, and is never reused: what goes wrong in it ends with it.
import type { ChildProcess } from 'node:child_process';
import { Duplex } from 'node:stream';
import type { Log } from '../../log/log.ts';
import type { Abort, Problem } from '../../problem/problem.ts';
import { AnswerStream, parseHead, type FunctionAnswer } from './function-answer.ts';
import { badAnswer, badJson, handlerThrew, handlerUnloadable, timedOut, workerDied } from '../problem.ts';
import { spawnWorker } from './spawn-worker.ts';
import { WorkerHealth } from './worker-health.ts';
import { logLine, logStreams, type Redact } from './worker-log.ts';
import {
  CANCEL_REASONS,
  FrameReader,
  FrameWriter,
  FROM_WORKER,
  fromJson,
  splitHead,
  TO_WORKER,
  toJson,
  withHead,
  type CancelReason,
  type Failure,
  type Loaded,
  type WorkerSettings,
} from '../worker/protocol.ts';

/** How long a handler may go on after its deadline, before its worker is replaced to be rid of it. */
const LEAK_GRACE_MS = 5_000;
const MAX_LEAKED = 64;
const EXIT_GRACE_MS = 2_000;
const LOAD_TIMEOUT_MS = 10_000;
/** Node fires at once when it is asked to wait longer. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export type WorkerOptions = {
  readonly runtime: string;
  readonly memoryMb: number;
  readonly settings: WorkerSettings;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Log;
  /** Takes secrets out of what handlers print. */
  readonly redact: Redact;
  /** True under `svc dev`: errors are shown to the caller. */
  readonly showErrors: boolean;
  readonly serviceToken: () => Promise<string>;
};

export type WorkerEvents = {
  onReady(): void;
  onExit(): void;
  /** It should be replaced: its requests may end, new ones should go elsewhere. */
  onTired(reason: string): void;
  onFree(): void;
  /** It died before it read this request: another worker may run it. */
  onUnread(call: Call, timeoutMs: number, settle: Settle, moved: Moved): void;
};

/** Follows a request to the worker it moved to. */
export type Moved = {
  cancel: (reason: CancelReason) => void;
  /** Only once: should a request be what kills workers after all, it must not go through all of them. */
  once: boolean;
};

/** A request as the server hands it over; everything but the head's text is bytes. */
export type Call = {
  readonly functionName: string;
  readonly requestId: string;
  /** JSON text of a RequestHead. */
  readonly head: string;
  readonly body: Buffer;
  readonly mayServe: boolean;
  readonly timeoutMs: number;
};

export type Settle = { resolve(answer: FunctionAnswer): void; reject(reason: Problem | Abort): void };

type Held = {
  readonly call: Call;
  readonly settle: Settle;
  stream: AnswerStream | undefined;
  /** Answered already (deadline), but the handler goes on. */
  leaked: boolean;
  cancelled: boolean;
  timer: NodeJS.Timeout | undefined;
  readonly deadline: number;
  readonly moved: Moved;
};

export class WorkerProcess {
  readonly child: ChildProcess;
  readonly startedAt = performance.now();
  readyAt: number | undefined;
  /** What it was loading when it died, if anything. */
  loading: string | undefined;
  readonly #options: WorkerOptions;
  readonly #events: WorkerEvents;
  readonly #writer: FrameWriter;
  readonly #held = new Map<number, Held>();
  readonly #loads = new Map<number, (loaded: Loaded) => void>();
  readonly #exited: Promise<void>;
  #state: 'starting' | 'ready' | 'retiring' | 'dead' = 'starting';
  #live = 0;
  #leaked = 0;
  #nextId = 0;
  readonly #health: WorkerHealth;

  constructor(options: WorkerOptions, events: WorkerEvents) {
    this.#options = options;
    this.#events = events;
    this.child = spawnWorker({ ...options, root: options.settings.root });
    this.#health = new WorkerHealth({
      memoryMb: options.memoryMb,
      isBusy: () => this.#held.size > 0,
      ping: () => {
        this.#writer.send(TO_WORKER.ping, 0);
        return this.#nextId;
      },
      onTired: (reason) => events.onTired(reason),
      onHopeless: (reason, fields) => {
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
        options.log.error({ err: error }, 'a function worker could not be started');
        this.#onExit(null, null);
        resolve();
      });
    });
    const channel = this.child.stdio[3];
    if (!(channel instanceof Duplex)) throw new Error('a worker has no channel');
    // Requests that arrive in one turn come from many sockets; they leave together after the turn.
    this.#writer = new FrameWriter(channel, setImmediate);
    const reader = new FrameReader((type, id, payload) => this.#onFrame(type, id, payload));
    channel.on('data', (chunk: Buffer) => {
      try {
        reader.push(chunk);
      } catch (error) {
        options.log.error({ err: error, worker: this.child.pid }, 'a function worker spoke nonsense');
        this.kill();
      }
    });
    channel.on('error', () => {
      // The exit that follows is what counts.
    });
    logStreams(options.log, options.redact, this.child);
    this.#writer.send(TO_WORKER.configure, 0, toJson(options.settings));
  }

  get state(): 'starting' | 'ready' | 'retiring' | 'dead' {
    return this.#state;
  }

  /** Requests that hold a slot. */
  get inFlight(): number {
    return this.#live;
  }

  /** False while its event loop does not answer. */
  get responsive(): boolean {
    return this.#health.responsive;
  }

  get rssBytes(): number {
    return this.#health.rssBytes;
  }

  /** Hands a request over. `timeoutMs` is what is left of the function's timeout. */
  run(call: Call, timeoutMs: number, settle: Settle, wasMoved = false): (reason: CancelReason) => void {
    this.#nextId = (this.#nextId + 1) >>> 0;
    const id = this.#nextId;
    const moved: Moved = { cancel: (reason) => this.#cancel(id, held, reason), once: wasMoved };
    const held: Held = {
      call,
      settle,
      stream: undefined,
      leaked: false,
      cancelled: false,
      timer: undefined,
      deadline: performance.now() + timeoutMs,
      moved,
    };
    held.timer = setTimeout(() => this.#onDeadline(id, held), Math.min(timeoutMs, LONGEST_TIMER_MS));
    this.#held.set(id, held);
    this.#live++;
    this.#writer.send(TO_WORKER.request, id, ...withHead(Buffer.from(call.head), call.body));
    this.#health.watch();
    return (reason) => moved.cancel(reason);
  }

  /** Imports a handler ahead of its first request. */
  async load(name: string): Promise<Loaded> {
    this.loading = name;
    this.#nextId = (this.#nextId + 1) >>> 0;
    const id = this.#nextId;
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<Loaded>((resolve) => {
      timer = setTimeout(() => {
        const message = `loading took longer than ${LOAD_TIMEOUT_MS / 1000} s`;
        resolve({ name, ms: LOAD_TIMEOUT_MS, failure: { kind: 'load', message } });
        this.#health.expectPong();
      }, LOAD_TIMEOUT_MS);
    });
    const loaded = await Promise.race([
      new Promise<Loaded>((resolve) => {
        this.#loads.set(id, resolve);
        this.#writer.send(TO_WORKER.load, id, Buffer.from(name));
      }),
      timeout,
      this.#exited.then((): Loaded => {
        return { name, ms: 0, failure: { kind: 'load', message: 'the worker died while loading it' } };
      }),
    ]);
    clearTimeout(timer);
    this.#loads.delete(id);
    if (this.#state !== 'dead') this.loading = undefined;
    return loaded;
  }

  /** Takes no new requests; ends when those it holds have ended. */
  retire(): void {
    if (this.#state === 'dead' || this.#state === 'retiring') return;
    this.#state = 'retiring';
    this.#endIfIdle();
  }

  kill(): void {
    if (this.#state !== 'dead') this.child.kill('SIGKILL');
  }

  /** Ends it now: in peace if it can, by force if it does not. */
  async stop(): Promise<void> {
    if (this.#state === 'dead') return;
    this.#state = 'retiring';
    for (const [id, held] of this.#held) this.#cancel(id, held, 'shutdown');
    this.#shutDown();
    await this.#exited;
  }

  #shutDown(): void {
    this.#writer.send(TO_WORKER.shutdown, 0);
    setTimeout(() => this.kill(), EXIT_GRACE_MS).unref();
  }

  #endIfIdle(): void {
    if (this.#state === 'retiring' && this.#live === 0) this.#shutDown();
  }

  #onFrame(type: number, id: number, payload: Buffer): void {
    switch (type) {
      case FROM_WORKER.answer: {
        const held = this.#take(id);
        if (!held || held.leaked) return;
        const { head, body } = splitHead(payload);
        const { status, headers, bodyless } = parseHead(head);
        held.settle.resolve({ status, headers, body: bodyless ? undefined : body });
        return;
      }
      case FROM_WORKER.head: {
        const held = this.#held.get(id);
        if (!held || held.leaked || held.stream) return;
        const { status, headers } = parseHead(payload);
        held.stream = new AnswerStream(
          (bytes) => {
            const credit = Buffer.allocUnsafe(4);
            credit.writeUInt32LE(bytes, 0);
            this.#writer.send(TO_WORKER.credit, id, credit);
          },
          () => this.#cancel(id, held, 'client-gone'),
        );
        held.settle.resolve({ status, headers, body: held.stream });
        return;
      }
      case FROM_WORKER.chunk:
        this.#held.get(id)?.stream?.receive(payload);
        return;
      case FROM_WORKER.end:
        this.#take(id)?.stream?.complete();
        return;
      case FROM_WORKER.failed: {
        const held = this.#take(id);
        if (held) this.#onFailure(held, fromJson<Failure>(payload));
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
        this.#loads.get(id)?.(fromJson<Loaded>(payload));
        return;
      case FROM_WORKER.faulty:
        this.#events.onTired('an exception escaped its handler');
        return;
      case FROM_WORKER.ready:
        if (this.#state !== 'starting') return;
        this.#state = 'ready';
        this.readyAt = performance.now();
        this.#events.onReady();
    }
  }

  /** Ends the bookkeeping of a request; its slot is free unless it was already. */
  #take(id: number): Held | undefined {
    const held = this.#held.get(id);
    if (!held) return undefined;
    this.#held.delete(id);
    clearTimeout(held.timer);
    if (held.leaked) this.#leaked--;
    else this.#release();
    return held;
  }

  #release(): void {
    this.#live--;
    if (this.#state === 'ready') this.#events.onFree();
    else this.#endIfIdle();
  }

  #onFailure(held: Held, { kind, message, stack }: Failure): void {
    const { call, settle } = held;
    const shown = this.#options.showErrors ? this.#options.redact(stack ?? message) : undefined;
    if (kind !== 'bad-json' && !held.stream) {
      this.#options.log.error(
        {
          requestId: call.requestId,
          function: call.functionName,
          error: this.#options.redact(stack ?? message),
        },
        kind === 'load' ? 'the function could not be loaded' : 'the function failed',
      );
    }
    if (held.leaked) return;
    if (held.stream) {
      held.stream.destroy(new Error('the function failed while streaming'));
      return;
    }
    if (kind === 'bad-json') settle.reject(badJson(message));
    else if (kind === 'load') settle.reject(handlerUnloadable(shown));
    else if (kind === 'bad-answer') settle.reject(badAnswer(shown));
    else settle.reject(handlerThrew(shown));
  }

  #onDeadline(id: number, held: Held): void {
    const { call, settle } = held;
    this.#options.log.warn(
      { requestId: call.requestId, function: call.functionName, timeoutMs: call.timeoutMs },
      'the function exceeded its timeout',
    );
    if (held.stream) held.stream.destroy(new Error('the function exceeded its timeout'));
    else settle.reject(timedOut(call.timeoutMs));
    this.#tellCancel(id, 'deadline');
    held.leaked = true;
    this.#leaked++;
    this.#release();
    this.#health.expectPong();
    held.timer = setTimeout(() => {
      if (this.#held.has(id)) this.#events.onTired(`${call.functionName} goes on after its timeout`);
    }, LEAK_GRACE_MS);
    held.timer.unref();
    if (this.#leaked >= MAX_LEAKED) this.#events.onTired('too many handlers go on after their timeout');
  }

  /** The caller is gone: the handler is told, and keeps its slot until it ends or its deadline passes. */
  #cancel(id: number, held: Held, reason: CancelReason): void {
    if (held.cancelled || held.leaked || this.#held.get(id) !== held) return;
    held.cancelled = true;
    this.#tellCancel(id, reason);
  }

  #tellCancel(id: number, reason: CancelReason): void {
    this.#writer.send(TO_WORKER.cancel, id, Buffer.of(CANCEL_REASONS.indexOf(reason)));
  }

  async #giveToken(id: number): Promise<void> {
    const held = this.#held.get(id);
    // A worker may only ask for a request it holds, of a function that may have it.
    if (!held?.call.mayServe) return;
    try {
      const token = await this.#options.serviceToken();
      this.#writer.send(TO_WORKER.token, id, Buffer.from(token));
    } catch (error) {
      this.#options.log.error(
        { err: error, requestId: held.call.requestId },
        'no service token could be made',
      );
    }
  }

  #onExit(code: number | null, signal: NodeJS.Signals | null): void {
    if (this.#state === 'dead') return;
    const wanted = this.#state === 'retiring';
    this.#state = 'dead';
    this.#health.end();
    const held = [...this.#held.values()];
    const unread = [...this.#held].flatMap(([id, one]) =>
      id > this.#health.lastRead && !one.leaked && !one.moved.once ? [one] : [],
    );
    this.#held.clear();
    const lost = held.filter((one) => !one.leaked && !unread.includes(one));
    this.#live = 0;
    if (!wanted || lost.length > 0) {
      this.#options.log.error(
        { worker: this.child.pid, code, signal, requests: lost.map(({ call }) => call.requestId) },
        'a function worker died',
      );
    }
    for (const one of held) {
      clearTimeout(one.timer);
      if (one.leaked || unread.includes(one)) continue;
      if (one.stream) one.stream.destroy(new Error('the worker died'));
      else one.settle.reject(workerDied());
    }
    this.#events.onExit();
    for (const { call, deadline, settle, moved } of unread) {
      this.#events.onUnread(call, Math.max(1, deadline - performance.now()), settle, moved);
    }
  }
}
