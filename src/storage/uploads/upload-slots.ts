// Limits on the uploads that this process receives at once, over all protocols: a total, shares of it for each caller
// and each address, and one for all callers without a user together.
import type { FastifyRequest } from 'fastify';
import { clientNetwork } from '../../lib/ip-address.ts';
import type { Caller } from '../../identity/caller.ts';
import { slowDown, type StorageProblem } from '../problem.ts';

export type SlotLimits = {
  /** Uploads at once; more get 429. */
  readonly concurrentUploads: number;
  /** Limit for one user, or for one address without a user. */
  readonly uploadsPerCaller: number;
  /** Limit for one address, including all its users but not the service. */
  readonly uploadsPerAddress: number;
  /** Limit for all callers without a user together. */
  readonly anonymousUploads: number;
};

export type SlotHolder = {
  /** Key of the caller's share. Undefined for the service, which only the total limits. */
  readonly key: string | undefined;
  /** Address of the caller, for IPv6 its network. Undefined for the service. */
  readonly network: string | undefined;
  readonly anonymous: boolean;
};

export function identifyHolder(caller: Caller, request: FastifyRequest): SlotHolder {
  if (caller.role === 'service_role' && caller.user === null)
    return { key: undefined, network: undefined, anonymous: false };
  const network = clientNetwork(request.client.address);
  return caller.user?.sub === undefined
    ? { key: `address ${network}`, network, anonymous: true }
    : { key: `user ${caller.user.sub}`, network, anonymous: false };
}

/** Uploads with a link count for the address that uses it, not for the link's maker. */
export function linkHolder(request: FastifyRequest): SlotHolder {
  const network = clientNetwork(request.client.address);
  return { key: `address ${network}`, network, anonymous: false };
}

type Form = { readonly network: string; readonly evict: (error: StorageProblem) => void };
type Slot = { readonly holder: SlotHolder } | Form;

export class UploadSlots {
  readonly #limits: SlotLimits;
  /** Oldest first. */
  readonly #slots = new Set<Slot>();

  constructor(limits: SlotLimits) {
    this.#limits = limits;
  }

  /** Takes a slot for an upload that is permitted; returns what releases it. */
  enter(holder: SlotHolder): () => void {
    const { concurrentUploads, uploadsPerCaller, uploadsPerAddress, anonymousUploads } = this.#limits;
    const { key, network } = holder;
    const taken = [...this.#slots].flatMap((slot) => ('holder' in slot ? [slot.holder] : []));
    const own = taken.filter((slot) => key !== undefined && slot.key === key);
    const near = taken.filter((slot) => network !== undefined && slot.network === network);
    const anonymous = taken.filter((slot) => slot.anonymous);
    if (
      taken.length >= concurrentUploads ||
      own.length >= uploadsPerCaller ||
      near.length >= uploadsPerAddress ||
      (holder.anonymous && anonymous.length >= anonymousUploads)
    ) {
      throw slowDown('Too many uploads at once');
    }
    return this.#add({ holder });
  }

  /**
   * A form whose file has not begun: permission cannot be checked yet, so it must not take a slot from a permitted
   * upload. When there are too many forms, the oldest of the address with most of them is evicted. Returns what to call
   * when the file begins.
   */
  opening(network: string, evict: Form['evict']): () => void {
    const forms = [...this.#slots].flatMap((slot) => ('evict' in slot ? [slot] : []));
    if (forms.length >= this.#limits.concurrentUploads) {
      const counts = new Map<string, number>();
      for (const form of forms) counts.set(form.network, (counts.get(form.network) ?? 0) + 1);
      const most = Math.max(...counts.values());
      const oldest = forms.find((form) => counts.get(form.network) === most);
      if (oldest) {
        this.#slots.delete(oldest);
        oldest.evict(slowDown('Too many uploads at once'));
      }
    }
    return this.#add({ network, evict });
  }

  #add(slot: Slot): () => void {
    this.#slots.add(slot);
    return () => void this.#slots.delete(slot);
  }
}
