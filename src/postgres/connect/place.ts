// Where exactly a connection is attempted: the addresses behind the names of an address, in the order they are tried.
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { isSocket, type DatabaseAddress, type Target } from '../address/database-address.ts';

export type Place = {
  readonly target: Target;
  /** An IP address, or undefined for a socket. */
  readonly ip: string | undefined;
};

/** A host that failed is tried after the others for this long. */
const AVOID_MS = 5_000;

/** Of this process: what one pool has learned, the others need not. */
const failedAt = new Map<string, number>();

export function avoid(target: Target): void {
  failedAt.set(keyOf(target), performance.now());
}

export function trust(target: Target): void {
  failedAt.delete(keyOf(target));
}

const keyOf = ({ host, port }: Target): string => `${host} ${port}`;

function isAvoided(target: Target): boolean {
  const at = failedAt.get(keyOf(target));
  return at !== undefined && performance.now() - at < AVOID_MS;
}

export function inOrder({ targets, isShuffled }: DatabaseAddress): Target[] {
  const order = isShuffled ? shuffled(targets) : targets;
  return [...order.filter((one) => !isAvoided(one)), ...order.filter(isAvoided)];
}

/** Names are looked up at every attempt: a failover may have moved them. */
export async function placesOf(target: Target, { isShuffled }: DatabaseAddress): Promise<Place[]> {
  const { host } = target;
  if (isSocket(target)) return [{ target, ip: undefined }];
  if (isIP(host) !== 0) return [{ target, ip: host }];
  const found = await lookup(host, { all: true, verbatim: true });
  const ips = [...new Set(found.map(({ address }) => address))];
  return (isShuffled ? shuffled(ips) : ips).map((ip) => ({ target, ip }));
}

function shuffled<T>(list: readonly T[]): T[] {
  const left = [...list];
  const order: T[] = [];
  while (left.length > 0) order.push(...left.splice(Math.floor(Math.random() * left.length), 1));
  return order;
}
