// The worker's state of one call: its cancellation, and the flow-control credit of its answer.
import { STREAM_WINDOW_BYTES, type CancelReason, type RequestHead } from './protocol.ts';

export class Invocation {
  readonly id: number;
  readonly head: RequestHead;
  /** The head was sent; the body follows in chunks. */
  streaming = false;
  #reason: CancelReason | undefined;
  #controller: AbortController | undefined;
  #credit = STREAM_WINDOW_BYTES;
  #onCredit: (() => void) | undefined;
  readonly #onCancel: Array<() => void> = [];

  constructor(id: number, head: RequestHead) {
    this.id = id;
    this.head = head;
  }

  get cancelled(): boolean {
    return this.#reason !== undefined;
  }

  /** `ctx.signal`, created on first use. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason) this.#controller.abort(abortReason(this.#reason));
    return this.#controller.signal;
  }

  cancel(reason: CancelReason): void {
    if (this.#reason) return;
    this.#reason = reason;
    this.#controller?.abort(abortReason(reason));
    this.#onCredit?.();
    for (const notify of this.#onCancel) notify();
  }

  whenCancelled(): Promise<undefined> {
    return new Promise((resolve) => {
      if (this.#reason) resolve(undefined);
      else this.#onCancel.push(() => resolve(undefined));
    });
  }

  grant(bytes: number): void {
    this.#credit += bytes;
    this.#onCredit?.();
  }

  /** Waits for credit: until the client has consumed enough of the earlier bytes. */
  async spend(bytes: number): Promise<void> {
    while (this.#credit <= 0 && !this.#reason) {
      await new Promise<void>((resolve) => (this.#onCredit = resolve));
    }
    this.#credit -= bytes;
  }
}

function abortReason(reason: CancelReason): DOMException {
  if (reason === 'deadline') return new DOMException('The function exceeded its timeout', 'TimeoutError');
  const why = reason === 'client-gone' ? 'The caller went away' : 'The service is stopping';
  return new DOMException(why, 'AbortError');
}
