// A worker's end of the channel to its parent.
import cluster from 'node:cluster';
import type { RecentLine } from '../log/recent-lines.ts';
import {
  REPORT_MS,
  WORKER_MARK,
  type FromWorker,
  type ProcessFigures,
  type Question,
  type Report,
  type Served,
  type Start,
  type ToWorker,
} from './protocol.ts';

/** Maximum wait for an answer of the parent. Long, because on a busy machine a living parent can be slow. */
const ANSWER_MS = 10_000;
/** Most log lines of one report. */
const MAX_LINES = 500;
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;
/** The parent's business; unheard, SIGUSR2 would end the process. */
const IGNORED = ['SIGHUP', 'SIGUSR2'] as const;

/** Methods of a serving worker that the parent calls. */
export type ServingProcess = {
  readonly port: number;
  served(): Served;
  report(): Promise<Report>;
  /** Throws when it refuses the file. */
  reload(quiet: boolean): Promise<void>;
  listen(open: boolean): Promise<void>;
};

export type Leave = {
  /** Another one has taken its place: the service as such goes on. */
  readonly replaced: boolean;
  /** The port stays open until then. */
  readonly until: Promise<void>;
};

export class ParentLink {
  readonly #start: Start;
  readonly #left = Promise.withResolvers<Leave>();
  readonly #drain = Promise.withResolvers<void>();
  readonly #answers = new Map<number, (value: unknown) => void>();
  readonly #followers = new Set<(line: RecentLine) => void>();
  #serving: ServingProcess | undefined;
  #lines: string[] = [];
  #leftOut = 0;
  #questions = 0;
  #clock: NodeJS.Timeout | undefined;
  #last: Report | undefined;
  #isAsking = false;

  private constructor(start: Start) {
    this.#start = start;
    Object.assign(process.env, start.env);
    process.on('message', (message: ToWorker) => this.#onMessage(message));
    cluster.worker?.on('disconnect', () => this.#onParentLost());
    // Node's own message to a parent that has just died; unheard, it would end the process.
    cluster.worker?.on('error', () => {});
    if (!process.connected) this.#onParentLost();
    for (const signal of SIGNALS) process.on(signal, () => this.#send({ kind: 'signalled' }));
    for (const signal of IGNORED) process.on(signal, () => {});
    this.#clock = setInterval(() => this.#report(), REPORT_MS);
    this.#report();
  }

  /** Undefined where there is no parent. Otherwise it waits for the start message, and puts its variables in place. */
  static async join(): Promise<ParentLink | undefined> {
    if (process.env[WORKER_MARK] === undefined || !cluster.isWorker) return undefined;
    delete process.env[WORKER_MARK];
    return await new Promise((resolve) => {
      // Messages are received from the next one on.
      process.once('message', (message: ToWorker) => {
        if (message.kind === 'start') resolve(new ParentLink(message));
      });
    });
  }

  get process(): number {
    return this.#start.process;
  }

  get processes(): number {
    return this.#start.processes;
  }

  get instance(): string {
    return this.#start.instance;
  }

  /** True if this worker opens the port without waiting for others, like a single process. */
  get first(): boolean {
    return this.#start.first;
  }

  /** Port of the other workers. */
  get port(): number | undefined {
    return this.#start.port;
  }

  /** Only one of them repeats the warnings about the file. */
  get quiet(): boolean {
    return !this.#start.first;
  }

  /** Resolves when it is to end. */
  get left(): Promise<Leave> {
    return this.#left.promise;
  }

  serve(serving: ServingProcess): void {
    this.#serving = serving;
    this.#send({ kind: 'serving', port: serving.port, served: serving.served() });
  }

  /** Sends the last report. Afterwards nothing keeps the process running. */
  close(): void {
    clearInterval(this.#clock);
    this.#report();
    if (!cluster.worker || !process.connected) return;
    cluster.worker.exitedAfterDisconnect = true;
    process.disconnect();
  }

  /** Lets the others load what this one has just loaded. Resolves when they have. */
  async reloadOthers(): Promise<void> {
    await this.#ask({ about: 'reload' });
  }

  async figures(): Promise<readonly ProcessFigures[]> {
    return ((await this.#askSoon({ about: 'processes' })) ?? []) as ProcessFigures[];
  }

  // The log lines of all processes, as RecentLines has those of one

  push(line: string): void {
    if (this.#lines.length < MAX_LINES) this.#lines.push(line);
    else this.#leftOut += 1;
  }

  async after(seq: number): Promise<readonly RecentLine[]> {
    return ((await this.#askSoon({ about: 'lines', after: seq })) ?? []) as RecentLine[];
  }

  follow(notify: (line: RecentLine) => void): () => void {
    if (this.#followers.size === 0) this.#send({ kind: 'follow', on: true });
    this.#followers.add(notify);
    return () => {
      if (this.#followers.delete(notify) && this.#followers.size === 0)
        this.#send({ kind: 'follow', on: false });
    };
  }

  #onMessage(message: ToWorker): void {
    switch (message.kind) {
      case 'reload':
        return void this.#reload(message.id, message.quiet);
      case 'leave':
        return this.#left.resolve({ replaced: false, until: this.#drain.promise });
      case 'drain':
        this.#drain.resolve();
        return this.#left.resolve({ replaced: false, until: this.#drain.promise });
      case 'replaced':
        this.#drain.resolve();
        return this.#left.resolve({ replaced: true, until: this.#drain.promise });
      case 'listen':
        // An address that cannot be opened again now is what the next report is about: it is not ready.
        return void this.#serving?.listen(message.open).catch(() => {});
      case 'answer':
        this.#answers.get(message.id)?.(message.value);
        return void this.#answers.delete(message.id);
      case 'lines':
        for (const line of message.lines) for (const notify of this.#followers) notify(line);
        return;
      case 'start':
    }
  }

  /** Finishes the requests in flight and closes the port, because a restarted service needs it. */
  #onParentLost(): void {
    // Otherwise Node would end the process right here.
    if (cluster.worker) cluster.worker.exitedAfterDisconnect = true;
    this.#drain.resolve();
    this.#left.resolve({ replaced: false, until: this.#drain.promise });
    for (const answer of this.#answers.values()) answer(undefined);
    this.#answers.clear();
  }

  async #reload(id: number, quiet: boolean): Promise<void> {
    try {
      await this.#serving?.reload(quiet);
      this.#send({ kind: 'reloaded', id, served: this.#serving?.served() });
    } catch {
      // The reload has already logged the reason.
      this.#send({ kind: 'reloaded', id });
    }
  }

  /** Reports to the parent, which uses the report as a sign of life. It must not wait for anything. */
  #report(): void {
    const lines = this.#lines.splice(0);
    const leftOut = this.#leftOut;
    this.#leftOut = 0;
    if (leftOut > 0) {
      const time = new Date().toISOString();
      const msg = `${leftOut} more lines of this second are in the log itself`;
      lines.push(JSON.stringify({ level: 'info', time, process: this.process, msg }));
    }
    this.#send({ kind: 'report', report: this.#last, lines });
    void this.#refresh();
  }

  async #refresh(): Promise<void> {
    if (this.#isAsking || !this.#serving) return;
    this.#isAsking = true;
    try {
      this.#last = await this.#serving.report();
    } finally {
      this.#isAsking = false;
    }
  }

  /** Undefined when the parent has gone. */
  #ask(question: Question): Promise<unknown> {
    if (!process.connected) return Promise.resolve(undefined);
    const id = ++this.#questions;
    return new Promise((resolve) => {
      this.#answers.set(id, resolve);
      this.#send({ kind: 'ask', id, question });
    });
  }

  async #askSoon(question: Question): Promise<unknown> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), ANSWER_MS);
    });
    try {
      return await Promise.race([this.#ask(question), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  #send(message: FromWorker): void {
    if (process.connected) process.send?.(message, undefined, {}, () => {});
  }
}
