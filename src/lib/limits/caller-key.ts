// Identifies the caller that a limited resource is charged to.
import { clientNetwork } from '../ip-address.ts';

export type CallerIdentity = {
  readonly role: string;
  /** The signed-in user. Absent for a request with an API key only. */
  readonly user?: { readonly sub: string | null } | null | undefined;
};

/** The source of a request. */
export type Origin = { readonly address?: string | undefined };

/**
 * Returns the user id, or the client's network (IPv4 address, IPv6 /64) for a caller without a user. Requests with the
 * secret key have a separate key per network, so that a server does not compete with the browsers behind its NAT.
 * Compute it only when a resource is scarce.
 */
export function callerKey(caller: CallerIdentity | undefined, address: string | undefined): string {
  const sub = caller?.user?.sub;
  if (sub !== undefined && sub !== null) return `user ${sub}`;
  const network = address === undefined ? '' : clientNetwork(address);
  return `${caller?.role === 'service_role' ? 'secret' : 'network'} ${network}`;
}
