import { expect, test, vi } from 'vitest';
import { Backlog } from './backlog.ts';
import type { SourceChange } from './source/change-source.ts';

function aChange(id: number, bytes = 10): SourceChange {
  return {
    transaction: { kind: 'begin', lsn: BigInt(id), committedAt: id, xid: id },
    relation: { oid: 1, schema: 'public', table: 't', identity: 'd', columns: [] },
    change: { kind: 'insert', relation: 1, new: [], old: undefined, isWholeOld: false, bytes },
  };
}

type World = {
  readonly backlog: Backlog;
  readonly batches: number[][];
  readonly events: string[];
  /** Ends the delivery of a batch. */
  readonly ends: Array<(error?: Error) => void>;
  retainedWal: bigint;
};

function open(): World {
  const batches: number[][] = [];
  const events: string[] = [];
  const ends: World['ends'] = [];
  const world: World = {
    batches,
    events,
    ends,
    retainedWal: 0n,
    backlog: new Backlog({
      source: {
        pause: () => void events.push('pause'),
        resume: () => void events.push('resume'),
        retainedWalBytes: () => Promise.resolve(world.retainedWal),
      },
      deliver: async (batch) => {
        batches.push(batch.map(({ transaction }) => transaction.xid));
        await new Promise<void>((resolve, reject) =>
          ends.push((error) => (error ? reject(error) : resolve())),
        );
      },
      onFault: () => void events.push('fault'),
    }),
  };
  return world;
}

async function until(condition: () => boolean): Promise<void> {
  await vi.waitFor(() => expect(condition()).toBe(true));
}

test('changes of one tick share a batch, later changes wait for its end', async () => {
  const { backlog, batches, ends } = open();
  for (const id of [1, 2, 3]) backlog.enqueue(aChange(id));
  await until(() => batches.length === 1);
  backlog.enqueue(aChange(4));
  expect(batches).toEqual([[1, 2, 3]]);
  ends[0]?.();
  await until(() => batches.length === 2);
  expect(batches).toEqual([[1, 2, 3], [4]]);
});

test('a batch is bounded by bytes, but contains at least one change', async () => {
  const { backlog, batches, ends } = open();
  for (const id of [1, 2]) backlog.enqueue(aChange(id, 2 * 1024 * 1024));
  await until(() => batches.length === 1);
  ends[0]?.();
  await until(() => batches.length === 2);
  expect(batches).toEqual([[1], [2]]);
});

test('a full backlog pauses the source, and resumes it when half is delivered', async () => {
  const { backlog, batches, events, ends } = open();
  for (let id = 1; id <= 2_001; id++) backlog.enqueue(aChange(id));
  expect(events).toEqual(['pause']);
  for (let batch = 0; batch < 9; batch++) {
    await until(() => batches.length === batch + 1);
    ends[batch]?.();
  }
  await until(() => batches.length === 9);
  expect(events).toEqual(['pause', 'resume']);
  expect(batches[0]?.length).toBe(250);
});

test('a failed batch drops the queue', async () => {
  const { backlog, batches, events, ends } = open();
  for (const id of [1, 2]) backlog.enqueue(aChange(id, 2 * 1024 * 1024));
  await until(() => batches.length === 1);
  ends[0]?.(new Error('failed'));
  await until(() => events.includes('fault'));
  backlog.enqueue(aChange(3));
  await until(() => batches.length === 2);
  expect(batches).toEqual([[1], [3]]);
});

test('only a paused source that retains much WAL must be dropped', async () => {
  const world = open();
  const { backlog } = world;
  world.retainedWal = 65n * 1024n * 1024n;
  expect(await backlog.excessiveLag()).toBeUndefined();
  for (let id = 1; id <= 2_001; id++) backlog.enqueue(aChange(id));
  expect(await backlog.excessiveLag()).toMatch(/64 MB/);
  world.retainedWal = 64n * 1024n * 1024n;
  expect(await backlog.excessiveLag()).toBeUndefined();
  world.retainedWal = 65n * 1024n * 1024n;
  const pending = backlog.excessiveLag();
  backlog.reset();
  expect(await pending).toBeUndefined();
});
