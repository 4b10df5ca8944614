import { availableParallelism } from 'node:os';
import { expect, test } from 'vitest';
import { createDatabase } from '../../test/support/database.ts';
import { OwnerDatabase } from './owner-database.ts';
import { isThisMachine, maxReading } from './read-parallelism.ts';
import { parseAddress } from './address/parse-address.ts';

test('a database on this machine reads as much at once as the processors can run', async () => {
  const database = await createDatabase();
  const owner = new OwnerDatabase({
    address: parseAddress(database.url),
    applicationName: 'test',
    max: 1,
    idleTimeoutMs: 1000,
  });
  try {
    expect(await maxReading(owner)).toBe(Math.max(4, 2 * availableParallelism()));
  } finally {
    await owner.close();
    await database.drop();
  }
});

test.each([
  ['127.0.0.1', true],
  ['::1', true],
  [null, true],
  ['10.0.0.7', false],
  ['172.17.0.2', false],
  ['2001:db8::1', false],
])('a server with the address %s is on this machine: %s', (address, expected) => {
  expect(isThisMachine(address)).toBe(expected);
});
