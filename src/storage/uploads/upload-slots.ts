// Uploads received at once by this process, whichever protocol they came by. Nobody can take all of them: each caller
// has a share, and so have all callers without a user together.
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../identity/caller.ts';
import { slowDown } from '../problem.ts';

export type SlotLimits = {
  readonly concurrentUploads: number;
  readonly uploadsPerCaller: number;
  readonly anonymousUploads: number;
};

export type SlotHolder = {
  /** What the share is counted by; undefined for the service, which is held to the total alone. */
  readonly key: string | undefined;
  readonly anonymous: boolean;
};

export function holderOf(caller: Caller, request: FastifyRequest): SlotHolder {
  if (caller.user?.sub !== undefined) return { key: `user ${caller.user.sub}`, anonymous: false };
  if (caller.role === 'service_role') return { key: undefined, anonymous: false };
  return { key: `address ${request.ip}`, anonymous: true };
}

/** Anybody may hold an upload link: whoever uses it counts, and not who made it. */
export function linkHolder(request: FastifyRequest): SlotHolder {
  return { key: `address ${request.ip}`, anonymous: false };
}

export class UploadSlots {
  readonly #limits: SlotLimits;
  readonly #taken = new Map<string, number>();
  #all = 0;
  #anonymous = 0;
  /** Forms whose file has not begun, the oldest first. */
  readonly #opening = new Set<() => void>();

  constructor(limits: SlotLimits) {
    this.#limits = limits;
  }

  /** Takes a place; what is returned gives it back. */
  enter({ key, anonymous }: SlotHolder): () => void {
    const { concurrentUploads, uploadsPerCaller, anonymousUploads } = this.#limits;
    const own = key === undefined ? 0 : (this.#taken.get(key) ?? 0);
    if (
      this.#all >= concurrentUploads ||
      own >= uploadsPerCaller ||
      (anonymous && this.#anonymous >= anonymousUploads)
    ) {
      throw slowDown('Too many uploads at once');
    }
    this.#count(key, anonymous, 1);
    return () => this.#count(key, anonymous, -1);
  }

  #count(key: string | undefined, anonymous: boolean, by: 1 | -1): void {
    this.#all += by;
    if (anonymous) this.#anonymous += by;
    if (key === undefined) return;
    const own = (this.#taken.get(key) ?? 0) + by;
    if (own === 0) this.#taken.delete(key);
    else this.#taken.set(key, own);
  }

  /**
   * A form whose file has not begun: nobody can be asked yet whether it may be stored. When there are too many, the
   * one that has taken longest goes, and never the one that just came. Returns what to call when the file begins.
   */
  opening(giveUp: (error: Error) => void): () => void {
    const [oldest] = this.#opening;
    if (oldest && this.#opening.size >= this.#limits.concurrentUploads) {
      this.#opening.delete(oldest);
      oldest();
    }
    const entry = (): void => giveUp(slowDown('Too many uploads at once'));
    this.#opening.add(entry);
    return () => this.#opening.delete(entry);
  }
}
