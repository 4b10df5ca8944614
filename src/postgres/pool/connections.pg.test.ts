import { expect, inject, test } from 'vitest';
import { parseAddress } from '../address/parse-address.ts';
import { Connections } from './connections.ts';

test('connections that are idle for too long are closed down to the minimum', async () => {
  const connections = new Connections(
    {
      address: parseAddress(inject('postgresUrl')),
      applicationName: 'test',
      max: 4,
      minIdle: 2,
      idleTimeoutMs: 0,
    },
    { onRoom() {}, onRefused() {} },
  );
  try {
    const opened = await Promise.all(Array.from({ length: 4 }, () => connections.open()));
    for (const connection of opened) connections.rest(connection);
    connections.discardOld();
    // The order of `all` is the order in which the connections became open.
    expect(new Set(connections.all)).toEqual(new Set(opened.slice(2)));
    connections.discardOld();
    expect(connections.idle).toBe(2);
  } finally {
    connections.discardAll();
  }
});
