// Resolves the targets of an address into endpoints, in the order of connection attempts.
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { isSocket, type DatabaseAddress, type Target } from '../address/database-address.ts';

export type Endpoint = {
  readonly target: Target;
  /** An IP address, or undefined for a socket. */
  readonly ip: string | undefined;
};

/** How long a failed host is tried after all others, in milliseconds. */
const AVOID_MS = 5_000;

/** Shared by all pools of this process. */
const failedAt = new Map<string, number>();

export function avoid(target: Target): void {
  failedAt.set(targetKey(target), performance.now());
}

export function trust(target: Target): void {
  failedAt.delete(targetKey(target));
}

const targetKey = ({ host, port }: Target): string => `${host} ${port}`;

function isAvoided(target: Target): boolean {
  const at = failedAt.get(targetKey(target));
  return at !== undefined && performance.now() - at < AVOID_MS;
}

export function inOrder({ targets, isShuffled }: DatabaseAddress): Target[] {
  const order = isShuffled ? shuffled(targets) : targets;
  return [...order.filter((target) => !isAvoided(target)), ...order.filter(isAvoided)];
}

/** Resolves names at every attempt, because a failover may have changed them. */
export async function resolveEndpoints(target: Target, { isShuffled }: DatabaseAddress): Promise<Endpoint[]> {
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
