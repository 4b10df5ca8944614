// Minimum position that a read must see: the flushed WAL position of the primary at a moment after the read arrived.
// Every acknowledged commit is below it, because a commit is acknowledged only after the flush. The client therefore
// does not need to send what it, or another client, has written.
import type { Question } from './position.ts';

/** An LSN for one or more reads. */
export type Ticket = string;

export class PositionTickets {
  readonly #ask: () => Question;
  /** The running query. */
  #current: { readonly question: Question; readonly ticket: Promise<Ticket> } | undefined;
  /** The next query, shared by all reads that arrive while one is running. */
  #next: Promise<Ticket> | undefined;

  /** `ask`: queries the primary. The first column of the result is the position. */
  constructor(ask: () => Question) {
    this.#ask = ask;
  }

  /** Returns the result of a query that is sent after this call. Fails if the primary does not respond. */
  request(): Promise<Ticket> {
    if (this.#next !== undefined) return this.#next;
    const current = this.#current;
    if (current === undefined) return this.#start();
    if (!current.question.isSent) return current.ticket;
    this.#next = current.ticket.then(
      () => this.#follow(),
      () => this.#follow(),
    );
    return this.#next;
  }

  #follow(): Promise<Ticket> {
    this.#next = undefined;
    return this.#start();
  }

  #start(): Promise<Ticket> {
    const question = this.#ask();
    const ticket = question.answer
      .finally(() => (this.#current = undefined))
      .then(([position]) => {
        if (typeof position !== 'string') throw new Error('the primary does not know its position');
        return position;
      });
    this.#current = { question, ticket };
    return ticket;
  }
}
