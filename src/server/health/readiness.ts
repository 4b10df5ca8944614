// What `/ready` answers. It is found out twice a second, by one question at a time, and an answer only tells the last
// result: however often it is asked for, it costs the database nothing and waits for nobody.
import type { Degraded, DegradedReason } from '../../lib/degraded.ts';
import type { DatabaseAnswer } from '../../postgres/pool/connection-pool.ts';
import type { Problem } from '../../problem/problem.ts';
import { Check, type CheckState } from './check.ts';
import type { PrimaryState } from './primary-probe.ts';

export const LIMIT_MS = 2_000;
/** What fails right after a look must count as bad within six seconds all the same, of which the patience is five. */
const EVERY_MS = 500;
/** Requests that wait at so many looks in a row are no short crowd. */
const LASTING_LOOKS = 6;
/** A failover that requests are held through must not empty a load balancer either. */
const LEAST_PATIENCE_MS = 5_000;

export type Phase = 'starting' | 'serving' | 'draining';

export type ReadinessOptions = {
  readonly phase: () => Phase;
  /** Why no request is served although everything works. */
  readonly refusal?: () => Problem | undefined;
  readonly primary: { ask(): Promise<PrimaryState> };
  /** The connections of requests. */
  readonly data: {
    answers(withinMs: number): Promise<DatabaseAnswer>;
    readonly size: { readonly open: number; readonly waiting: number };
  };
  readonly failoverWaitMs: number;
  /** False when code functions cannot run at all. */
  readonly functionsHealthy: () => boolean;
  /** The product's own connections, by what they serve. */
  readonly owners?: Readonly<Record<string, OwnConnections>>;
  readonly degraded: Degraded;
};

export type OwnConnections = {
  readonly trouble: string | undefined;
  checkIdle(withinMs: number): Promise<void>;
};

export type Readiness = {
  readonly isReady: boolean;
  /** `ready`, `degraded`, or what stands against it. */
  readonly status: string;
  /** Since when the status is this. */
  readonly since: Date;
  readonly checks: Readonly<Record<'primary' | 'data' | 'functions', CheckState>>;
  /** By check, why it fails. */
  readonly reasons: Readonly<Record<string, string>>;
  readonly degraded: readonly DegradedReason[];
};

export class ReadinessWatch {
  readonly #options: ReadinessOptions;
  readonly #primary: Check;
  readonly #data: Check;
  #timer: NodeJS.Timeout | undefined;
  #isReadOnly = false;
  /** In a row. */
  #exhaustedLooks = 0;
  #status = 'starting';
  #since = new Date();

  constructor(options: ReadinessOptions) {
    this.#options = options;
    const patience = Math.max(LEAST_PATIENCE_MS, options.failoverWaitMs);
    this.#primary = new Check(patience);
    this.#data = new Check(patience);
    const { degraded, owners = {}, data } = options;
    for (const [what, one] of Object.entries(owners)) {
      degraded.watch(`${what}_waits`, () => one.trouble && `${what}: ${one.trouble}`);
    }
    degraded.watch('pool_exhausted', () =>
      this.#exhaustedLooks < LASTING_LOOKS
        ? undefined
        : `${data.size.waiting} requests wait for one of ${data.size.open} connections`,
    );
  }

  start(): void {
    this.#timer = setInterval(() => this.#look(), EVERY_MS);
    this.#timer.unref();
    this.#look();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  get current(): Readiness {
    const { degraded, functionsHealthy } = this.#options;
    const functions = functionsHealthy();
    const reasons = degraded.reasons;
    const obstacle = this.#obstacle(functions);
    this.#note(obstacle ?? (reasons.length > 0 ? 'degraded' : 'ready'));
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

  #note(status: string): void {
    if (status === this.#status) return;
    this.#status = status;
    this.#since = new Date();
  }

  #look(): void {
    const { primary, data, owners = {} } = this.#options;
    this.#exhaustedLooks = data.size.waiting > 0 ? this.#exhaustedLooks + 1 : 0;
    for (const one of Object.values(owners)) void one.checkIdle(LIMIT_MS);
    const startedAt = performance.now();
    primary.ask().then(
      (state) => {
        this.#isReadOnly = state === 'read-only';
        if (state === 'writable') this.#primary.passed();
        else this.#primary.failed('it is in recovery or read-only', startedAt);
      },
      (error: unknown) => {
        this.#isReadOnly = false;
        this.#primary.failed(textOf(error), startedAt);
      },
    );
    void data.answers(LIMIT_MS).then((answer) => {
      // With every connection busy nothing is known: one that has lost its server is noticed by its own clock.
      if (answer === 'yes') this.#data.passed();
      else if (answer === 'no') this.#data.failed('no statement of a request gets an answer', startedAt);
    });
    // So that `since` is right although nobody asks.
    void this.current;
  }
}

function textOf(error: unknown): string {
  return error instanceof Error && error.message !== '' ? error.message : String(error);
}
