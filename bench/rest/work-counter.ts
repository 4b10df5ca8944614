// Counts what a process does for its requests, in figures that hardly depend on the load of the machine: calls of
// JavaScript functions, and bytes on the heap. Bytes are counted apart from calls, because V8 does not optimise code
// while it counts calls.
import { Session } from 'node:inspector/promises';
import { GCProfiler, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export type Calls = {
  readonly kind: 'calls';
  readonly total: number;
  /** Calls by function, as `name url`. Scripts of Node begin with `node:`. */
  readonly byFunction: Readonly<Record<string, number>>;
};

export type Bytes = {
  readonly kind: 'bytes';
  readonly allocated: number;
  /** Bytes that have survived two collections of the young generation. */
  readonly promoted: number;
};

/** Messages of the parent. Each is answered: the first with `counting`, the second with the figures. */
export type CountRequest = { readonly count: 'calls' | 'bytes' | 'end' };
export type CountAnswer = { readonly kind: 'counting' } | Calls | Bytes;

/** Answers the count requests of the parent process. */
export function answerCounts(): void {
  let end: () => Promise<CountAnswer> = () => Promise.reject(new Error('nothing is counted'));
  process.on('message', ({ count }: CountRequest) => {
    const answer = async (): Promise<CountAnswer> => {
      if (count === 'end') return await end();
      end = count === 'calls' ? await countCalls() : countBytes();
      return { kind: 'counting' };
    };
    void answer().then((value) => process.send?.(value));
  });
}

async function countCalls(): Promise<() => Promise<Calls>> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  return async () => {
    const { result } = await session.post('Profiler.takePreciseCoverage');
    await session.post('Profiler.stopPreciseCoverage');
    session.disconnect();
    const byFunction: Record<string, number> = {};
    let total = 0;
    for (const { url, functions } of result) {
      for (const { functionName, ranges } of functions) {
        const calls = ranges[0]?.count ?? 0;
        const name = `${functionName} ${url}`;
        if (calls > 0) byFunction[name] = (byFunction[name] ?? 0) + calls;
        total += calls;
      }
    }
    return { kind: 'calls', total, byFunction };
  };
}

function countBytes(): () => Promise<Bytes> {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  collectGarbage();
  const profiler = new GCProfiler();
  profiler.start();
  let used = process.memoryUsage().heapUsed;
  return () => {
    const atEnd = process.memoryUsage().heapUsed;
    let [allocated, promoted] = [0, 0];
    for (const { gcType, beforeGC, afterGC } of profiler.stop().statistics) {
      allocated += beforeGC.heapStatistics.usedHeapSize - used;
      used = afterGC.heapStatistics.usedHeapSize;
      if (gcType === 'Scavenge') promoted += oldBytes(afterGC) - oldBytes(beforeGC);
    }
    return Promise.resolve({ kind: 'bytes', allocated: allocated + atEnd - used, promoted });
  };
}

type HeapState = ReturnType<GCProfiler['stop']>['statistics'][number]['beforeGC'];

function oldBytes({ heapSpaceStatistics }: HeapState): number {
  const space = heapSpaceStatistics.find(({ spaceName }) => spaceName === 'old_space');
  return space?.spaceUsedSize ?? 0;
}
