// Starts the components of a process in order and stops them in reverse order.

export type Component = {
  /** Names the component in the error of a failed stop. */
  readonly name: string;
  readonly start?: () => Promise<unknown> | void;
  /** Called once, even after a partial `start`. Ends the requests or jobs of the component. */
  readonly stop?: () => Promise<unknown> | void;
};

export class Lifecycle {
  readonly #started: Component[] = [];
  #stopping: Promise<void> | undefined;

  /** Starts a component. Rethrows errors of its `start`; the caller then calls `stop`. */
  async start(component: Component): Promise<void> {
    this.#started.push(component);
    await component.start?.();
  }

  /**
   * Stops every component in reverse order. A failure does not prevent the stop of the others: an AggregateError with
   * all failures is thrown at the end. Further calls return the same promise.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll();
    return this.#stopping;
  }

  async #stopAll(): Promise<void> {
    const failures: Error[] = [];
    for (;;) {
      // This includes components that start during the stop.
      const component = this.#started.pop();
      if (component === undefined) break;
      try {
        await component.stop?.();
      } catch (cause) {
        failures.push(new Error(`could not stop ${component.name}`, { cause }));
      }
    }
    if (failures.length > 0)
      throw new AggregateError(failures, failures.map(({ message }) => message).join(', '));
  }
}
