// The response of `/ready`. A timer checks the state twice a second, one check at a time. A request only returns the
// last result, so it costs the database nothing and never waits.
import type { Degraded, DegradedReason } from '../../lib/degraded.ts';
import type { DatabaseAnswer } from '../../postgres/pool/connection-pool.ts';
import type { Problem } from '../../problem/problem.ts';
import { Check, type CheckState } from './check.ts';
import type { PrimaryState } from './primary-probe.ts';

export const LIMIT_MS = 2_000;
/**
 * Check interval. With the toleranceMs of five seconds, a failure right after a check counts as bad within
 * six seconds.
 */
const CHECK_INTERVAL_MS = 500;
/** Number of consecutive checks with waiting requests after which the pool counts as exhausted. */
const MIN_EXHAUSTED_CHECKS = 6;
/**
 * Minimum duration of a failure. A failover during which requests are held must not empty a load balancer.
 */
const MIN_FAILURE_MS = 5_000;

export type Phase = 'starting' | 'serving' | 'draining';

export type ReadinessOptions = {
  readonly phase: () => Phase;
  /** Problem for all requests although everything works. */
  readonly refusal?: () => Problem | undefined;
  readonly primary: { check(): Promise<PrimaryState> };
  /** Connections of requests. */
  readonly data: {
    answers(withinMs: number): Promise<DatabaseAnswer>;
    readonly size: { readonly open: number; readonly waiting: number };
  };
  readonly failoverWaitMs: number;
  /** False if code functions cannot run. */
  readonly functionsHealthy: () => boolean;
  /** The product's connections, keyed by purpose. */
  readonly owners?: Readonly<Record<string, OwnConnections>>;
  readonly degraded: Degraded;
};

export type OwnConnections = {
  readonly trouble: string | undefined;
  checkIdle(withinMs: number): Promise<void>;
};

export type Readiness = {
  readonly isReady: boolean;
  /** `ready`, `degraded`, or the reason for not being ready. */
  readonly status: string;
  /** Time of the last change of `status`. */
  readonly since: Date;
  readonly checks: Readonly<Record<'primary' | 'data' | 'functions', CheckState>>;
  /** Reasons of failures, keyed by check. */
  readonly reasons: Readonly<Record<string, string>>;
  readonly degraded: readonly DegradedReason[];
};

export class ReadinessWatch {
  readonly #options: ReadinessOptions;
  readonly #primary: Check;
  readonly #data: Check;
  #timer: NodeJS.Timeout | undefined;
  #isReadOnly = false;
  /** Number of consecutive checks with waiting requests. */
  #exhaustedChecks = 0;
  #status = 'starting';
  #since = new Date();

  constructor(options: ReadinessOptions) {
    this.#options = options;
    const toleranceMs = Math.max(MIN_FAILURE_MS, options.failoverWaitMs);
    this.#primary = new Check(toleranceMs);
    this.#data = new Check(toleranceMs);
    const { degraded, owners = {}, data } = options;
    for (const [purpose, connections] of Object.entries(owners)) {
      degraded.watch(`${purpose}_waits`, () => connections.trouble && `${purpose}: ${connections.trouble}`);
    }
    degraded.watch('pool_exhausted', () =>
      this.#exhaustedChecks < MIN_EXHAUSTED_CHECKS
        ? undefined
        : `${data.size.waiting} requests wait for one of ${data.size.open} connections`,
    );
  }

  start(): void {
    this.#timer = setInterval(() => this.#check(), CHECK_INTERVAL_MS);
    this.#timer.unref();
    this.#check();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  get current(): Readiness {
    const { degraded, functionsHealthy } = this.#options;
    const functions = functionsHealthy();
    const reasons = degraded.reasons;
    const obstacle = this.#obstacle(functions);
    this.#setStatus(obstacle ?? (reasons.length > 0 ? 'degraded' : 'ready'));
    return {
      isReady: obstacle === undefined,
      status: this.#status,
      since: this.#since,
      checks: {
        primary: this.#primary.state,
        data: this.#data.state,
        functions: functions ? 'good' : 'bad',
      },
      reasons: {
        ...(this.#primary.reason !== undefined && { primary: this.#primary.reason }),
        ...(this.#data.reason !== undefined && { data: this.#data.reason }),
      },
      degraded: reasons,
    };
  }

  #obstacle(functionsHealthy: boolean): string | undefined {
    const phase = this.#options.phase();
    if (phase !== 'serving') return phase;
    if (this.#data.state === 'bad') return 'database unreachable';
    if (this.#primary.state === 'bad')
      return this.#isReadOnly ? 'database read-only' : 'database unreachable';
    if (!functionsHealthy) return 'function workers do not start';
    return this.#options.refusal?.()?.message;
  }

  #setStatus(status: string): void {
    if (status === this.#status) return;
    this.#status = status;
    this.#since = new Date();
  }

  #check(): void {
    const { primary, data, owners = {} } = this.#options;
    this.#exhaustedChecks = data.size.waiting > 0 ? this.#exhaustedChecks + 1 : 0;
    for (const connections of Object.values(owners)) void connections.checkIdle(LIMIT_MS);
    const startedAt = performance.now();
    primary.check().then(
      (state) => {
        this.#isReadOnly = state === 'read-only';
        if (state === 'writable') this.#primary.passed();
        else this.#primary.failed('it is in recovery or read-only', startedAt);
      },
      (error: unknown) => {
        this.#isReadOnly = false;
        this.#primary.failed(errorMessage(error), startedAt);
      },
    );
    void data.answers(LIMIT_MS).then((answer) => {
      // The result is unknown if every connection is busy. A connection that lost its server times out by
      // itself.
      if (answer === 'yes') this.#data.passed();
      else if (answer === 'no') this.#data.failed('statements of requests get no response', startedAt);
    });
    // Updates `since` even if nothing requests `/ready`.
    void this.current;
  }
}

function errorMessage(error: unknown): string {
  return error instanceof Error && error.message !== '' ? error.message : String(error);
}
