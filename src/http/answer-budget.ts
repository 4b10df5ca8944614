// Memory budget for responses: bytes that are built and not yet read by clients, in total and per caller. If memory
// runs out, the largest responses of the largest caller are cancelled (docs/decisions/0091).

/** Responses up to this size are not counted, because the number of requests is limited. */
export const SMALL_BYTES = 64 * 1024;
/** Guaranteed bytes per caller. Below this total no response is rejected. */
const GRANTED_BYTES = 1024 * 1024;

type Holder = { readonly key: string; bytes: number; readonly answers: Set<AnswerCharge> };

/** The charge of one response. Callers of a shared run share it, because they get the same bytes. */
export class AnswerCharge {
  readonly holder: Holder;
  readonly #budget: AnswerBudget;
  readonly #cuts: Array<() => void> = [];
  bytes = 0;
  /** Number of callers that still need the bytes. */
  users = 1;
  /**
   * Cancels the response. Set while that is possible: during construction, or when a client reads past its deadline.
   */
  stop: (() => void) | undefined;
  /** True if the response was cancelled to free memory. */
  isStopped = false;

  constructor(budget: AnswerBudget, holder: Holder) {
    this.#budget = budget;
    this.holder = holder;
  }

  /** Raises the charge to `bytes`. Returns false if the response must be cancelled for lack of memory. */
  growTo(bytes: number): boolean {
    if (bytes > this.bytes && this.users > 0 && !this.isStopped) this.#budget.set(this, bytes);
    return !this.isStopped;
  }

  /** Lowers the charge to `bytes`. */
  shrinkTo(bytes: number): void {
    if (bytes < this.bytes) this.#budget.set(this, bytes);
  }

  /** Allows the cancellation of a response that one client reads too slowly. `cut` ends its transmission. */
  allowCut(cut: () => void): void {
    this.#cuts.push(cut);
    if (this.#cuts.length < this.users) return;
    this.stop = () => {
      for (const one of this.#cuts) one();
    };
  }

  /** Ends the use by one caller: the response is sent, or the client has disconnected. */
  release(): void {
    this.users -= 1;
    if (this.users === 0) this.#budget.remove(this);
  }
}

export class AnswerBudget {
  readonly #most: () => number;
  readonly #holders = new Map<string, Holder>();
  readonly #shared = new WeakMap<object, AnswerCharge>();
  #bytes = 0;

  /** `most`: total bytes, evaluated on each call so that a reload takes effect. */
  constructor(most: () => number = () => Number.POSITIVE_INFINITY) {
    this.#most = most;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Maximum bytes of one caller, and so of one response. */
  get maxPerCaller(): number {
    return this.#most() / 2;
  }

  /** True if memory is so low that a caller may have to be rejected. */
  get isScarce(): boolean {
    return this.#bytes > this.maxPerCaller / 2;
  }

  /** Whether this caller can start a response that cannot be cancelled. */
  hasRoom(key: string): boolean {
    const bytes = this.#holders.get(key)?.bytes ?? 0;
    return bytes < GRANTED_BYTES || (bytes < this.maxPerCaller && this.#bytes < this.#most());
  }

  /** `key`: the caller. */
  open(key: string): AnswerCharge {
    const known = this.#holders.get(key);
    const holder = known ?? { key, bytes: 0, answers: new Set() };
    if (!known) this.#holders.set(key, holder);
    const charge = new AnswerCharge(this, holder);
    holder.answers.add(charge);
    return charge;
  }

  /**
   * Returns the common charge of a result that several callers got. The first caller provides it; the others release
   * theirs.
   */
  share(result: object, own: AnswerCharge): AnswerCharge {
    const first = this.#shared.get(result);
    if (first === own) return own;
    if (first && first.users > 0 && !first.isStopped) {
      first.users += 1;
      own.release();
      return first;
    }
    this.#shared.set(result, own);
    return own;
  }

  /** Changes the bytes of a charge. Called by `AnswerCharge`. */
  set(charge: AnswerCharge, bytes: number): void {
    const { holder } = charge;
    const more = bytes - charge.bytes;
    charge.bytes = bytes;
    holder.bytes += more;
    this.#bytes += more;
    if (more <= 0) return;
    while (holder.bytes > this.maxPerCaller) {
      if (!this.#stopLargest(holder)) break;
    }
    while (this.#bytes > this.#most()) {
      const [first] = [...this.#holders.values()].filter(canStop).toSorted((a, b) => b.bytes - a.bytes);
      if (!first) break;
      // Among equal holders, the latest caller loses its response.
      const isLast = first.bytes === holder.bytes && canStop(holder);
      if (!this.#stopLargest(isLast ? holder : first)) break;
    }
  }

  /** Removes a charge. Called by `AnswerCharge`. */
  remove(charge: AnswerCharge): void {
    const { holder } = charge;
    if (!holder.answers.delete(charge)) return;
    holder.bytes -= charge.bytes;
    this.#bytes -= charge.bytes;
    if (holder.answers.size === 0) this.#holders.delete(holder.key);
  }

  /** Returns false if no response of the holder can be cancelled. */
  #stopLargest(holder: Holder): boolean {
    if (!canStop(holder)) return false;
    const [largest] = [...holder.answers].filter(({ stop }) => stop).toSorted((a, b) => b.bytes - a.bytes);
    if (!largest) return false;
    const { stop } = largest;
    largest.isStopped = true;
    largest.stop = undefined;
    this.remove(largest);
    stop?.();
    return true;
  }
}

function canStop({ bytes, answers }: Holder): boolean {
  return bytes >= GRANTED_BYTES && [...answers].some(({ stop }) => stop !== undefined);
}
