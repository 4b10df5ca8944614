import { expect, test } from 'vitest';
import type { Client } from '../../http/client.ts';
import { SocketShares } from './socket-shares.ts';

const client = (address: string, via: Client['via'] = 'peer'): Client => ({ address, proto: 'http', via });

function admitted(from: readonly Client[], max: number): number {
  const shares = new SocketShares();
  return from.filter((from) => {
    if (!shares.hasRoom(from, max)) return false;
    shares.enter(from);
    return true;
  }).length;
}

const many = (client: Client): Client[] => Array.from({ length: 500 }, () => client);

test.each([
  ['an eighth of the limit', client('192.0.2.1'), 800, 100],
  ['at least 32', client('192.0.2.1'), 80, 32],
  ['reported by a trusted proxy', client('10.0.0.7', 'proxy'), 800, 100],
  ['a program of this machine', client('127.0.0.1', 'local'), 800, 100],
  ['a proxy that is not trusted', client('10.0.0.7'), 800, 500],
  ['a proxy of this machine that is not trusted', client('127.0.0.1', 'peer'), 800, 500],
])('sockets of one network: %s', (_what, peer, max, expected) => {
  expect(admitted(many(peer), max)).toBe(expected);
});

test('IPv6 addresses of one network share a limit, and a closed socket makes room', () => {
  const from = Array.from({ length: 200 }, (_, at) => client(`2001:db8::${at.toString(16)}`));
  expect(admitted(from, 800)).toBe(100);
  const shares = new SocketShares();
  const leave = Array.from({ length: 32 }, () => shares.enter(client('192.0.2.1')));
  expect(shares.hasRoom(client('192.0.2.1'), 8)).toBe(false);
  expect(shares.hasRoom(client('192.0.2.2'), 8)).toBe(true);
  leave[0]?.();
  expect(shares.hasRoom(client('192.0.2.1'), 8)).toBe(true);
});
