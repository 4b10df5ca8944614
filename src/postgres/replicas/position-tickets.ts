// What a read must see at least: the position up to which the primary had flushed its log at a moment after the read
// arrived. Everything that anybody was told before that is below it, because a commit is acknowledged only after it has
// been flushed. So a read needs no word from its client about what it, or anybody else, has written.
import type { Question } from './position.ts';

/** An LSN, for one or more reads. */
export type Ticket = string;

export class PositionTickets {
  readonly #ask: () => Question;
  /** The question under way. */
  #current: { readonly question: Question; readonly ticket: Promise<Ticket> } | undefined;
  /** For all reads that arrive while one is under way: the question after it. */
  #next: Promise<Ticket> | undefined;

  /** `ask`: of the primary; the first column of its answer is the position. */
  constructor(ask: () => Question) {
    this.#ask = ask;
  }

  /** The answer to a question that is sent from now on. Fails when the primary does not answer. */
  take(): Promise<Ticket> {
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
