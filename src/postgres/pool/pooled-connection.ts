// A connection of the pool: who works on it, who may stand behind them, and what a cancel may still hit.
import type { OpenWire } from '../connection.ts';
import type { Attempt, Job } from './job.ts';
import type { Batch } from '../wire/wire.ts';

/** How long after a cancel a cancelled statement may be one that it was not meant for. */
const CANCEL_SHADOW_MS = 5_000;

export class PooledConnection {
  readonly wire: OpenWire['wire'];
  readonly #cancel: (onSeen: () => void) => void;
  readonly #attempts: Attempt[] = [];
  idleSince = 0;
  /** `performance.now()` when whoever has it alone gave up; 0 while it is wanted. */
  #unwantedAt = 0;
  #received = 0;
  #silentLooks = 0;
  /** Cancels on their way. The server has to have seen them before anybody else's statement runs. */
  #cancels = 0;
  #cancelledAt = Number.NEGATIVE_INFINITY;
  #onCancelled: (() => void) | undefined;

  constructor(opened: OpenWire) {
    this.wire = opened.wire;
    this.#cancel = (onSeen) => opened.cancel(onSeen);
  }

  /** In the order in which they were sent. */
  get attempts(): readonly Attempt[] {
    return this.#attempts;
  }

  add(attempt: Attempt): void {
    this.#attempts.push(attempt);
  }

  remove(attempt: Attempt): void {
    this.#attempts.splice(this.#attempts.indexOf(attempt), 1);
  }

  get isCancelling(): boolean {
    return this.#cancels > 0;
  }

  /** A statement that was cancelled here may not be the one that was meant. */
  get wasCancelled(): boolean {
    return this.isCancelling || performance.now() - this.#cancelledAt < CANCEL_SHADOW_MS;
  }

  /** Whether the job may stand behind those that are here. Only the last can be slow: nothing was let in behind it. */
  admits(job: Job, now: number): boolean {
    const { wire } = this;
    const attempts = this.#attempts;
    const first = attempts[0];
    if (!first || !attempts.at(-1)?.isQuick || first.isLate(now)) return false;
    return wire.usable && !this.isCancelling && wire.knowsNames(job.statements);
  }

  /**
   * Whether what the server works on should have ended: `graceMs` past the deadline of its statements, or past its
   * cancel, which is sent again until it has an effect. Counts the looks at which nothing had come.
   */
  isOverdue(now: number, statementTimeoutMs: number, graceMs: number): boolean {
    const { busy, received } = this.wire;
    const isOverdue = busy !== undefined && this.#isLate(busy, now, statementTimeoutMs, graceMs);
    this.#silentLooks = isOverdue && received === this.#received ? this.#silentLooks + 1 : 0;
    this.#received = received;
    return isOverdue;
  }

  get silentLooks(): number {
    return this.#silentLooks;
  }

  #isLate(busy: Batch, now: number, statementTimeoutMs: number, graceMs: number): boolean {
    const { statements, startedAt } = busy;
    // The first statement are the settings, which take no time.
    const deadline = statementTimeoutMs * Math.max(1, statements.length - 1);
    if (statementTimeoutMs > 0 && now - startedAt > deadline + graceMs) return true;
    const [first] = this.#attempts;
    const cancelledAt = first === undefined ? this.#unwantedAt : first.cancelledAt;
    if (cancelledAt === 0) return false;
    if (!this.isCancelling) this.cancel();
    return now - Math.max(cancelledAt, startedAt) > graceMs;
  }

  /** Whoever has this connection alone does not want it any more. */
  giveUp(): void {
    this.#unwantedAt = performance.now();
    if (this.wire.busy) this.cancel();
  }

  /** Ends what the server is doing for this connection now. */
  cancel(): void {
    this.#cancels += 1;
    this.#cancel(() => {
      this.#cancels -= 1;
      this.#cancelledAt = performance.now();
      if (this.#cancels > 0) return;
      const then = this.#onCancelled;
      this.#onCancelled = undefined;
      then?.();
    });
  }

  /** It is nobody's again. */
  free(): void {
    this.#unwantedAt = 0;
  }

  /** `then` once the server has seen the cancels that are on their way. */
  afterCancel(then: () => void): void {
    this.#onCancelled = then;
  }
}
