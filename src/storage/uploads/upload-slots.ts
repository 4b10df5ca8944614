// Limits on the uploads that this process receives at once, over all protocols: a total, a share of it for each
// caller, and one for all callers without a user together.
import type { FastifyRequest } from 'fastify';
import { networkOf } from '../../lib/ip-address.ts';
import type { Caller } from '../../identity/caller.ts';
import { slowDown, type StorageProblem } from '../problem.ts';

export type SlotLimits = {
  /** Uploads at once; more get 429. */
  readonly concurrentUploads: number;
  /** Of these, for one user, or for one address without a user. */
  readonly uploadsPerCaller: number;
  /** Of these, for all callers without a user together. */
  readonly anonymousUploads: number;
};

export type SlotHolder = {
  /** Whose share it is; undefined for the service, which only the total limits. */
  readonly key: string | undefined;
  readonly anonymous: boolean;
};

export function holderOf(caller: Caller, request: FastifyRequest): SlotHolder {
  if (caller.user?.sub !== undefined) return { key: `user ${caller.user.sub}`, anonymous: false };
  if (caller.role === 'service_role') return { key: undefined, anonymous: false };
  return { key: `address ${networkOf(request.client.address)}`, anonymous: true };
}

/** Uploads with a link count for the address that uses it, not for the link's maker. */
export function linkHolder(request: FastifyRequest): SlotHolder {
  return { key: `address ${networkOf(request.client.address)}`, anonymous: false };
}

type Slot = { readonly holder: SlotHolder } | { readonly evict: (error: StorageProblem) => void };

export class UploadSlots {
  readonly #limits: SlotLimits;
  /** Oldest first. */
  readonly #slots = new Set<Slot>();

  constructor(limits: SlotLimits) {
    this.#limits = limits;
  }

  /** Takes a slot for an upload that is permitted; returns what releases it. */
  enter(holder: SlotHolder): () => void {
    const { concurrentUploads, uploadsPerCaller, anonymousUploads } = this.#limits;
    const taken = [...this.#slots].flatMap((slot) => ('holder' in slot ? [slot.holder] : []));
    const own = taken.filter(({ key }) => key !== undefined && key === holder.key);
    const anonymous = taken.filter((other) => other.anonymous);
    if (
      taken.length >= concurrentUploads ||
      own.length >= uploadsPerCaller ||
      (holder.anonymous && anonymous.length >= anonymousUploads)
    ) {
      throw slowDown('Too many uploads at once');
    }
    return this.#add({ holder });
  }

  /**
   * A form whose file has not begun: permission cannot be checked yet, so it must not take a slot from a permitted
   * upload. When there are too many forms the oldest is evicted. Returns what to call when the file begins.
   */
  opening(evict: (error: StorageProblem) => void): () => void {
    const forms = [...this.#slots].flatMap((slot) => ('evict' in slot ? [slot] : []));
    const [oldest] = forms;
    if (oldest && forms.length >= this.#limits.concurrentUploads) {
      this.#slots.delete(oldest);
      oldest.evict(slowDown('Too many uploads at once'));
    }
    return this.#add({ evict });
  }

  #add(slot: Slot): () => void {
    this.#slots.add(slot);
    return () => void this.#slots.delete(slot);
  }
}
