// Polls /ready during a scenario, as a balancer does, and records the responses.
import type { Instance } from './instance.ts';
import type { Load } from './load.ts';

export type Sample = { readonly at: number; readonly status: number; readonly text: string };

export class ReadyWatch {
  readonly samples: Sample[] = [];
  #stopped = false;
  readonly #done: Promise<void>;

  constructor(instance: Instance, every = 200) {
    this.#done = (async () => {
      while (!this.#stopped) {
        const { status, text } = await instance.ready();
        this.samples.push({ at: Date.now(), status, text });
        await new Promise((resolve) => setTimeout(resolve, every));
      }
    })();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#done;
  }

  /** When it first was, or was not, 200 after `time`. */
  first(is: 'green' | 'red', time: number): number {
    const found = this.samples.find(({ at, status }) => at >= time && (status === 200) === (is === 'green'));
    return found?.at ?? Number.POSITIVE_INFINITY;
  }

  /** The longest time of uninterrupted 200 responses while no request of the load succeeded. */
  longestLie(load: Load, from: number, to: number): number {
    const good = load.answers
      .filter(({ status }) => status >= 200 && status < 300)
      .map(({ endedAt }) => endedAt);
    let longest = 0;
    let since: number | undefined;
    for (const { at, status } of this.samples) {
      if (at < from || at > to) continue;
      if (status !== 200) since = undefined;
      else {
        since ??= at;
        const lastGood = good.reduce((latest, time) => (time <= at && time > latest ? time : latest), 0);
        longest = Math.max(longest, at - Math.max(since, lastGood));
      }
    }
    return longest;
  }
}
