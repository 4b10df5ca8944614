// Memory for answers: how many bytes are built and not yet taken by their clients, in all and for each caller. When there
// is no room the largest answers of whoever holds most are given up (docs/decisions/0091).

/** Answers up to this size are not counted: there is no harm in as many as there are requests. */
export const SMALL_BYTES = 64 * 1024;
/** Nobody with less than this in all is refused. */
const GRANTED_BYTES = 1024 * 1024;

type Holder = { readonly key: string; bytes: number; readonly answers: Set<AnswerCharge> };

/** What one answer takes of the budget; shared by the callers of one run, who get the same bytes. */
export class AnswerCharge {
  readonly holder: Holder;
  readonly #budget: AnswerBudget;
  readonly #cuts: Array<() => void> = [];
  bytes = 0;
  /** Who still needs the bytes. */
  users = 1;
  /** Gives the answer up. Set while that is possible: it is being built, or taken after its deadline. */
  stop: (() => void) | undefined;
  /** It was given up to make room. */
  isStopped = false;

  constructor(budget: AnswerBudget, holder: Holder) {
    this.#budget = budget;
    this.holder = holder;
  }

  /** Counts it as that large, if it is not already. False when there is no room, and it has to be given up. */
  growTo(bytes: number): boolean {
    if (bytes > this.bytes && this.users > 0 && !this.isStopped) this.#budget.set(this, bytes);
    return !this.isStopped;
  }

  /** It turned out smaller. */
  shrinkTo(bytes: number): void {
    if (bytes < this.bytes) this.#budget.set(this, bytes);
  }

  /** From now on it may be given up: it is on its way to one user for longer than it should. `cut` ends that. */
  mayCut(cut: () => void): void {
    this.#cuts.push(cut);
    if (this.#cuts.length < this.users) return;
    this.stop = () => {
      for (const one of this.#cuts) one();
    };
  }

  /** One user less: the answer is sent, or its client is gone. */
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

  /** `most` bytes in all; read anew each time, so that a reload takes effect. */
  constructor(most: () => number = () => Number.POSITIVE_INFINITY) {
    this.#most = most;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The largest answer there is room for: what one caller may hold. */
  get mostForOne(): number {
    return this.#most() / 2;
  }

  /** So little is left that somebody may have to be refused. */
  get isScarce(): boolean {
    return this.#bytes > this.mostForOne / 2;
  }

  /** Whether an answer of this caller may be begun that cannot be given up. */
  hasRoom(key: string): boolean {
    const bytes = this.#holders.get(key)?.bytes ?? 0;
    return bytes < GRANTED_BYTES || (bytes < this.mostForOne && this.#bytes < this.#most());
  }

  /** `key`: whose answer it is. */
  open(key: string): AnswerCharge {
    const known = this.#holders.get(key);
    const holder = known ?? { key, bytes: 0, answers: new Set() };
    if (!known) this.#holders.set(key, holder);
    const charge = new AnswerCharge(this, holder);
    holder.answers.add(charge);
    return charge;
  }

  /** The charge of a result that several callers got: that of the first who tells. The others give up their own. */
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

  /** For `AnswerCharge`. */
  set(charge: AnswerCharge, bytes: number): void {
    const { holder } = charge;
    const more = bytes - charge.bytes;
    charge.bytes = bytes;
    holder.bytes += more;
    this.#bytes += more;
    if (more <= 0) return;
    while (holder.bytes > this.mostForOne) {
      if (!this.#stopLargest(holder)) break;
    }
    while (this.#bytes > this.#most()) {
      const [first] = [...this.#holders.values()].filter(mayStop).toSorted((a, b) => b.bytes - a.bytes);
      if (!first) break;
      // Among equals the one who came last.
      const isLast = first.bytes === holder.bytes && mayStop(holder);
      if (!this.#stopLargest(isLast ? holder : first)) break;
    }
  }

  /** For `AnswerCharge`. */
  remove(charge: AnswerCharge): void {
    const { holder } = charge;
    if (!holder.answers.delete(charge)) return;
    holder.bytes -= charge.bytes;
    this.#bytes -= charge.bytes;
    if (holder.answers.size === 0) this.#holders.delete(holder.key);
  }

  /** False when nothing of it can be given up. */
  #stopLargest(holder: Holder): boolean {
    if (!mayStop(holder)) return false;
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

function mayStop({ bytes, answers }: Holder): boolean {
  return bytes >= GRANTED_BYTES && [...answers].some(({ stop }) => stop !== undefined);
}
