// A peer that vanished is found by the kernel: the timer of an idle connection is that of keepalive, ten seconds ahead.
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { parseAddress } from '../address/parse-address.ts';
import { endClient, openSession } from '../connection.ts';

let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
});

afterAll(async () => {
  await database.drop();
});

const KEEPALIVE = 2;
const JIFFIES_PER_SECOND = 100;

/** Which timer the kernel runs for the connection of this local port, and when it ends (proc(5), /proc/net/tcp). */
function readTimer(localPort: number): { timer: number; seconds: number } | undefined {
  const port = localPort.toString(16).toUpperCase().padStart(4, '0');
  for (const file of ['/proc/net/tcp', '/proc/net/tcp6']) {
    for (const line of readFileSync(file, 'utf8').split('\n')) {
      const [, local, , , , timer] = line.trim().split(/\s+/);
      if (local?.endsWith(`:${port}`) !== true || timer === undefined) continue;
      const [which = '', when = ''] = timer.split(':');
      return {
        timer: Number.parseInt(which, 16),
        seconds: Number.parseInt(when, 16) / JIFFIES_PER_SECOND,
      };
    }
  }
  return undefined;
}

test.skipIf(process.platform !== 'linux')(
  'an idle connection asks for its peer after ten seconds',
  async () => {
    const { client, stream } = await openSession({
      address: parseAddress(database.url),
      applicationName: 'test',
    });
    try {
      // The last packet is acknowledged first; until then a different timer runs.
      await expect.poll(() => readTimer((stream as Socket).localPort ?? 0)?.timer).toBe(KEEPALIVE);
      expect(readTimer((stream as Socket).localPort ?? 0)?.seconds).toBeLessThanOrEqual(10);
    } finally {
      await endClient(client);
    }
  },
);
