// Logs slow statements of requests with their plans, each statement at most once a minute. The plan is requested after
// the caller has its result. Without slow statements this does nothing.
import { setTimeout as pause } from 'node:timers/promises';
import { SerialQueue } from '../../lib/limits/serial-queue.ts';
import type { Log } from '../../log/log.ts';
import type { PlanRequest } from '../../postgres/generic-plan.ts';
import type { SlowRun } from '../../postgres/pool/caller-pool.ts';
import { statementName } from '../../postgres/statement-name.ts';

export type SlowStatementsOptions = {
  readonly log: Log;
  /** Returns the plan of a statement. */
  readonly plan: (statement: Pick<PlanRequest, 'role' | 'searchPath' | 'text'>) => Promise<readonly string[]>;
};

const REPORT_INTERVAL_MS = 60_000;
const PLAN_INTERVAL_MS = 1_000;
/** Maximum number of queued plans. Further statements are logged without a plan. */
const MAX_QUEUED_PLANS = 10;
const MAX_SHAPES = 500;
const MAX_SQL_LENGTH = 4_000;

type LastReport = {
  /** `performance.now()` */
  readonly at: number;
  /** Number of slow runs since `at`. */
  more: number;
};

export class SlowStatements {
  readonly #options: SlowStatementsOptions;
  /** Keyed by shape, the oldest report first. */
  readonly #reports = new Map<string, LastReport>();
  readonly #plans = new SerialQueue();
  readonly #closing = new AbortController();
  #queued = 0;

  constructor(options: SlowStatementsOptions) {
    this.#options = options;
  }

  /** Records a slow run. Called by the pools. */
  readonly seen = (run: SlowRun): void => {
    setImmediate(() => this.#report(run));
  };

  close(): void {
    this.#closing.abort();
  }

  #report(run: SlowRun): void {
    const { role, text } = run;
    if (this.#closing.signal.aborted) return;
    const shape = statementName(role, text);
    const now = performance.now();
    const before = this.#reports.get(shape);
    if (before && now - before.at < REPORT_INTERVAL_MS) {
      before.more += 1;
      return;
    }
    this.#reports.delete(shape);
    this.#reports.set(shape, { at: now, more: 0 });
    const [oldest] = this.#reports.keys();
    if (this.#reports.size > MAX_SHAPES && oldest !== undefined) this.#reports.delete(oldest);
    const fields = {
      requestId: run.requestId,
      traceId: run.traceId,
      shape: shape.slice(0, 12),
      role,
      ms: Math.round(run.ms),
      rows: run.rows,
      sqlstate: run.sqlstate,
      ...(before && before.more > 0 && { before: before.more }),
      sql: text.length > MAX_SQL_LENGTH ? `${text.slice(0, MAX_SQL_LENGTH)}…` : text,
    };
    if (this.#queued >= MAX_QUEUED_PLANS) {
      this.#write({ ...fields, noPlan: 'too many slow statements' });
      return;
    }
    this.#queued += 1;
    void this.#plans
      .run(async () => {
        this.#write({ ...fields, ...(await this.#readPlan(run)) });
        this.#queued -= 1;
        await pause(PLAN_INTERVAL_MS, undefined, { signal: this.#closing.signal, ref: false });
      })
      .catch(() => {});
  }

  async #readPlan(run: SlowRun): Promise<{ plan: string } | { noPlan: string }> {
    if (this.#closing.signal.aborted) return { noPlan: 'the service is stopping' };
    try {
      return { plan: (await this.#options.plan(run)).join('\n') };
    } catch (error) {
      return { noPlan: error instanceof Error ? error.message : String(error) };
    }
  }

  #write(fields: object): void {
    this.#options.log.warn(fields, 'slow statement');
  }
}
