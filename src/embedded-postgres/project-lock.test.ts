import { spawnSync } from 'node:child_process';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readStartTime } from './process-table.ts';
import { acquireProjectLock, type ProjectLock } from './project-lock.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'svc-lock-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const acquire = () => acquireProjectLock(dir, undefined);
const leaveBehind = (pid: number, startDigest: string) =>
  writeFile(join(dir, `postgres.lock-${pid}-${startDigest}-00`), 'held\n');

test('a second holder is refused with the process id of the first, until it is released', async () => {
  const lock = await acquire();
  await expect(acquire()).rejects.toMatchObject({
    code: 'postgres_already_running',
    message: expect.stringContaining(String(process.pid)),
  });
  await lock.release();
  const next = await acquire();
  await next.release();
  expect(await readdir(dir)).toEqual([]);
});

test('the lock of a process that ended is taken over', async () => {
  await leaveBehind(spawnSync(process.execPath, ['-v']).pid, '');
  await (await acquire()).release();
  expect(await readdir(dir)).toEqual([]);
});

test.skipIf((await readStartTime(process.pid)) === '')(
  'the lock of a process whose id was reused is taken over',
  async () => {
    await leaveBehind(process.ppid, 'feedfeedfeedfeed');
    await (await acquire()).release();
    expect(await readdir(dir)).toEqual([]);
  },
);

test('a lock that might belong to a live process is respected', async () => {
  await leaveBehind(process.ppid, '');
  await expect(acquire()).rejects.toMatchObject({
    code: 'postgres_already_running',
    message: expect.stringContaining(String(process.ppid)),
  });
});

test('of many starters that find a stale lock at once exactly one gets it', async () => {
  for (let round = 0; round < 10; round += 1) {
    await leaveBehind(process.ppid, 'feedfeedfeedfeed');
    const results = await Promise.allSettled(Array.from({ length: 6 }, acquire));
    const held = results.filter(
      (result): result is PromiseFulfilledResult<ProjectLock> => result.status === 'fulfilled',
    );
    expect(held).toHaveLength(1);
    await held[0]?.value.release();
    expect(await readdir(dir)).toEqual([]);
  }
});
