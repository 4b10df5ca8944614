// For whom a batch is, as far as the fair sharing of connections is concerned.

export type Sharer = {
  readonly role: string;
  /** The signed-in user; absent for those who presented keys only. */
  readonly user?: { readonly sub: string | null } | null | undefined;
};

/** Where the request comes from. */
export type Origin = { readonly network?: string | undefined };

/**
 * A user, wherever they are; without a user the client's network, in which the secret key counts apart. Made only for
 * what waits.
 */
export function turnKey(sharer: Sharer | undefined, origin: Origin | undefined): string {
  const sub = sharer?.user?.sub;
  if (sub !== undefined && sub !== null) return `user ${sub}`;
  const network = origin?.network ?? '';
  return sharer?.role === 'service_role' ? `service ${network}` : network;
}
