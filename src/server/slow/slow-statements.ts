// Statements of requests that took long, in the log: once a minute for each, with their plan. Whoever waits for the answer
// has it before the plan is asked for, and where nothing is slow nothing happens here.
import { setTimeout as pause } from 'node:timers/promises';
import { SerialQueue } from '../../lib/serial-queue.ts';
import type { Log } from '../../log/log.ts';
import type { PlanRequest } from '../../postgres/generic-plan.ts';
import type { SlowRun } from '../../postgres/pool/caller-pool.ts';
import { statementName } from '../../postgres/statement-name.ts';

export type SlowStatementsOptions = {
  readonly log: Log;
  /** Makes the plan of a statement. */
  readonly plan: (statement: Pick<PlanRequest, 'role' | 'searchPath' | 'text'>) => Promise<readonly string[]>;
};

const TOLD_EVERY_MS = 60_000;
const PLAN_EVERY_MS = 1_000;
/** Others are told of without a plan. */
const MOST_PLANS_WAITING = 10;
const MOST_SHAPES = 500;
const LONGEST_SQL = 4_000;

type Told = {
  /** `performance.now()` */
  readonly at: number;
  /** How often it was slow since. */
  more: number;
};

export class SlowStatements {
  readonly #options: SlowStatementsOptions;
  /** By shape, the one told longest ago first. */
  readonly #told = new Map<string, Told>();
  readonly #plans = new SerialQueue();
  readonly #closing = new AbortController();
  #waiting = 0;

  constructor(options: SlowStatementsOptions) {
    this.#options = options;
  }

  /** For the pools. */
  readonly seen = (run: SlowRun): void => {
    setImmediate(() => this.#tell(run));
  };

  close(): void {
    this.#closing.abort();
  }

  #tell(run: SlowRun): void {
    const { role, text } = run;
    if (this.#closing.signal.aborted) return;
    const shape = statementName(role, text);
    const now = performance.now();
    const before = this.#told.get(shape);
    if (before && now - before.at < TOLD_EVERY_MS) {
      before.more += 1;
      return;
    }
    this.#told.delete(shape);
    this.#told.set(shape, { at: now, more: 0 });
    const [oldest] = this.#told.keys();
    if (this.#told.size > MOST_SHAPES && oldest !== undefined) this.#told.delete(oldest);
    const fields = {
      requestId: run.requestId,
      traceId: run.traceId,
      shape: shape.slice(0, 12),
      role,
      ms: Math.round(run.ms),
      rows: run.rows,
      sqlstate: run.sqlstate,
      ...(before && before.more > 0 && { before: before.more }),
      sql: text.length > LONGEST_SQL ? `${text.slice(0, LONGEST_SQL)}…` : text,
    };
    if (this.#waiting >= MOST_PLANS_WAITING) {
      this.#write({ ...fields, noPlan: 'too many statements are slow' });
      return;
    }
    this.#waiting += 1;
    void this.#plans
      .run(async () => {
        this.#write({ ...fields, ...(await this.#planOf(run)) });
        this.#waiting -= 1;
        await pause(PLAN_EVERY_MS, undefined, { signal: this.#closing.signal, ref: false });
      })
      .catch(() => {});
  }

  async #planOf(run: SlowRun): Promise<{ plan: string } | { noPlan: string }> {
    if (this.#closing.signal.aborted) return { noPlan: 'the service stops' };
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
