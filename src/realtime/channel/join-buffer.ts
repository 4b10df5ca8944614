// Messages that wait for the reply to a join.

/** Holds messages until the reply to the join is sent. The reply gives the client the ids of its bindings. */
export class JoinBuffer {
  #sends: Array<() => void> | undefined = [];

  /** Returns false after the reply: the caller sends the message itself. */
  tryHold(send: () => void): boolean {
    this.#sends?.push(send);
    return this.#sends !== undefined;
  }

  flush(): void {
    const sends = this.#sends ?? [];
    this.#sends = undefined;
    for (const send of sends) send();
  }

  discard(): void {
    this.#sends = undefined;
  }
}
