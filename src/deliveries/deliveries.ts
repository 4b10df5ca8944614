// The engine of a backend, with the schedules of its file. Row events, webhooks and queues do not exist yet: they are
// further kinds of the same deliveries.
import type { Config, Schedule } from '../config/config.ts';
import { must } from '../lib/assert.ts';
import type { Log } from '../log/log.ts';
import type { Metrics } from '../log/metrics.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import type { CallerPool } from '../postgres/pool/caller-pool.ts';
import { callCodeFunction, callSqlFunction, type CallFunction } from './call-target.ts';
import { DeliveryEngine, type Target } from './engine.ts';
import { readScheduleTimes, runDueSchedules, SCHEDULE, syncSchedules } from './schedules/schedule-rows.ts';
import { createTables, hasTables } from './tables.ts';

export type DeliveriesOptions = {
  readonly owner: OwnerDatabase;
  readonly callers: CallerPool;
  readonly callFunction: CallFunction;
  readonly instance: string;
  /** Maximum number of connections for requests in this process. */
  readonly connections: number;
  /** Deliveries wait while this returns false. */
  readonly canRun: () => boolean;
  readonly log: Log;
};

const MAX_CONCURRENCY = 16;

export class Deliveries {
  readonly #options: DeliveriesOptions;
  readonly #engine: DeliveryEngine;
  readonly #ended = new Map<
    string,
    { readonly name: string; readonly outcome: string; count: number; ms: number }
  >();
  #config: Config | undefined;
  #started = false;
  /** The schedules of the file are recorded in the database. */
  #isSynced = false;

  constructor(options: DeliveriesOptions) {
    this.#options = options;
    const { owner: db, instance, connections, log } = options;
    this.#engine = new DeliveryEngine({
      db,
      instance,
      // Requests keep at least half of the connections.
      concurrency: Math.max(1, Math.min(MAX_CONCURRENCY, Math.floor(connections / 2))),
      log,
      onEnded: ({ name }, outcome, ms) => {
        const key = `${name} ${outcome}`;
        const counted = this.#ended.get(key) ?? { name, outcome, count: 0, ms: 0 };
        counted.count += 1;
        counted.ms += ms;
        this.#ended.set(key, counted);
      },
    });
  }

  /** Serves a new file. */
  async follow(config: Config): Promise<void> {
    const hadSchedules = this.#schedules.length > 0;
    this.#config = config;
    this.#isSynced = false;
    if (this.#started) await this.#serve(hadSchedules);
  }

  /** Runs what is due from now on. */
  async start(): Promise<void> {
    this.#started = true;
    await this.#serve(true);
  }

  /** A command has changed something. */
  onNotification(): void {
    this.#engine.wake();
  }

  /** Claims no more deliveries. */
  stop(): Promise<void> {
    return this.#engine.stop();
  }

  /** Interrupts what still runs. */
  close(): Promise<void> {
    return this.#engine.close();
  }

  measure(metrics: Metrics): void {
    const isUsed = (): boolean => this.#schedules.length > 0;
    metrics.read('svc_deliveries_running', 'gauge', 'Deliveries that run in this process.', () =>
      isUsed() ? this.#engine.runningCount : [],
    );
    metrics.read(
      'svc_deliveries_oldest_due_seconds',
      'gauge',
      'Time for which the oldest delivery has been due.',
      () => (isUsed() ? this.#engine.oldestDueMs / 1_000 : []),
    );
    const perOutcome = (value: (counted: { count: number; ms: number }) => number) => () =>
      [...this.#ended.values()].map((counted) => ({
        labels: { kind: SCHEDULE, name: counted.name, outcome: counted.outcome },
        value: value(counted),
      }));
    metrics.read(
      'svc_delivery_attempts_total',
      'counter',
      'Attempts that ended in this process.',
      perOutcome(({ count }) => count),
    );
    metrics.read(
      'svc_delivery_attempts_seconds_total',
      'counter',
      'Time that these attempts took.',
      perOutcome(({ ms }) => ms / 1_000),
    );
  }

  get #schedules(): readonly Schedule[] {
    return this.#config?.schedules ?? [];
  }

  async #serve(mayHaveRows: boolean): Promise<void> {
    const { owner, log } = this.#options;
    if (this.#schedules.length === 0 && mayHaveRows) {
      try {
        // A schedule that is declared again later must not run for the time in between.
        if (await hasTables(owner)) await syncSchedules(owner, []);
      } catch (error) {
        log.warn({ err: error, job: 'deliveries' }, 'cannot record that the file has no schedules');
      }
    }
    const targets = this.#schedules.map((schedule) => this.#toTarget(schedule));
    this.#engine.serve(targets, { produce: () => this.#produce() });
  }

  async #produce(): Promise<number | undefined> {
    const { owner, canRun } = this.#options;
    const enabled = this.#schedules.filter((schedule) => schedule.enabled);
    if (!canRun()) return undefined;
    if (!this.#isSynced) {
      if (!(await createTables(owner))) return undefined;
      await syncSchedules(owner, enabled);
      this.#isSynced = true;
    }
    let times = await readScheduleTimes(owner, enabled);
    if (times.is_incomplete) {
      await syncSchedules(owner, enabled);
      times = await readScheduleTimes(owner, enabled);
    }
    if (times.next_at !== null && times.next_at <= times.now) {
      await runDueSchedules(owner, enabled);
      times = await readScheduleTimes(owner, enabled);
    }
    return times.next_at === null ? Infinity : times.next_at.getTime() - times.now.getTime();
  }

  #toTarget({ name, retries, ...schedule }: Schedule): Target {
    const { callers, callFunction } = this.#options;
    const { function: code, rpc } = schedule;
    if (code !== undefined)
      return {
        kind: SCHEDULE,
        name,
        retries,
        run: (attempt, signal) => callCodeFunction(callFunction, code, attempt, signal),
      };
    const fn = must(
      this.#config?.rpc.find(({ key }) => key === rpc),
      'the SQL function of a schedule',
    );
    return {
      kind: SCHEDULE,
      name,
      retries,
      run: ({ body }, signal) => callSqlFunction(callers, fn, readPayload(body), signal),
    };
  }
}

/** Returns the JSON text of the payload in the body of a delivery. */
function readPayload(body: string): string {
  const { payload = {} } = JSON.parse(body) as { readonly payload?: unknown };
  return JSON.stringify(payload);
}
