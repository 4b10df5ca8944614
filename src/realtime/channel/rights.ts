// The write rights of the caller of a private channel. PostgreSQL evaluates them at the first use and when they are too
// old.
import type { Extension, ProbedCaller, ReadRights } from '../access/channel-rights.ts';
import type { Services } from './services.ts';

export function hasLostRight(before: ReadRights, after: ReadRights): boolean {
  return (before.broadcast && !after.broadcast) || (before.presence && !after.presence);
}

type Answer = { readonly isAllowed: boolean; readonly checkedAt: number };

export class WriteRights {
  readonly #services: Services;
  readonly #topic: string;
  readonly #answers = new Map<Extension, Answer>();
  /** Counts calls of `clear`, after which the answer of a running check is outdated. */
  #generation = 0;

  /** `topic` without the prefix `realtime:`. */
  constructor(services: Services, topic: string) {
    this.#services = services;
    this.#topic = topic;
  }

  /** Calls `then` with the right: at once if the answer is fresh, otherwise after the database has answered. */
  check(
    extension: Extension,
    probed: ProbedCaller,
    then: (isAllowed: boolean) => void,
  ): Promise<void> | undefined {
    const { rights } = this.#services;
    const known = this.#answers.get(extension);
    if (known && performance.now() - known.checkedAt < rights.leaseMs) {
      then(known.isAllowed);
      return undefined;
    }
    const generation = this.#generation;
    const checkedAt = performance.now();
    return rights.canWrite(this.#topic, extension, probed).then((isAllowed) => {
      if (generation === this.#generation) this.#answers.set(extension, { isAllowed, checkedAt });
      then(isAllowed);
    });
  }

  /** Forgets the answers, because another caller uses the channel. */
  clear(): void {
    this.#generation += 1;
    this.#answers.clear();
  }
}
