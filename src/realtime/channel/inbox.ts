// Processes the messages of one channel in the order in which they arrive, also when a message waits for the database.
import type { ClientMessage } from '../protocol/message.ts';

/** More messages than a client sends while the database answers one query. */
const MAX_QUEUED_MESSAGES = 500;

/** Functions that all inboxes share. `owner`: the channel of the inbox. */
export type InboxHandlers<Owner> = {
  /** False after the channel has closed. Its queued messages are then dropped. */
  readonly isOpen: (owner: Owner) => boolean;
  /** Returns a promise when the message waits for the database. */
  readonly handle: (owner: Owner, message: ClientMessage) => Promise<void> | undefined;
  /** Called with the error that `handle` throws. */
  readonly onError: (owner: Owner, message: ClientMessage, error: unknown) => void;
  /** Called when `onError` throws for a message that has waited. */
  readonly onFault: (owner: Owner) => void;
};

export class Inbox<Owner> {
  readonly #owner: Owner;
  readonly #handlers: InboxHandlers<Owner>;
  readonly #queue: ClientMessage[] = [];
  #isBusy = false;

  constructor(owner: Owner, handlers: InboxHandlers<Owner>) {
    this.#owner = owner;
    this.#handlers = handlers;
  }

  /** Processes or queues a message. Returns false when the queue is full. */
  push(message: ClientMessage): boolean {
    if (!this.#isBusy) this.#process(message);
    else if (this.#queue.length >= MAX_QUEUED_MESSAGES) return false;
    else this.#queue.push(message);
    return true;
  }

  /** Queues messages until `resume`. */
  pause(): void {
    this.#isBusy = true;
  }

  resume(): void {
    this.#isBusy = false;
    while (!this.#isBusy && this.#handlers.isOpen(this.#owner)) {
      const next = this.#queue.shift();
      if (!next) return;
      this.#process(next);
    }
  }

  #process(message: ClientMessage): void {
    const { handle, onError, onFault } = this.#handlers;
    let pending: Promise<void> | undefined;
    try {
      pending = handle(this.#owner, message);
    } catch (error) {
      onError(this.#owner, message, error);
    }
    if (!pending) return;
    this.#isBusy = true;
    pending
      .catch((error: unknown) => onError(this.#owner, message, error))
      .then(
        () => this.resume(),
        () => onFault(this.#owner),
      );
  }
}
