// Behind which busy connection a read may be pipelined (docs/decisions/0035).
import type { Job } from './job.ts';
import type { PooledConnection } from './pooled-connection.ts';

/** Maximum batches in flight on one connection. A higher number saves almost nothing. */
const MAX_DEPTH = 16;
/** Maximum for statements whose mean latency, in milliseconds, makes the network round trip negligible. */
const MAX_DEPTH_OF_SLOWER = 3;
const SLOWER_MS = 2.5;

/**
 * Returns the pipeline depth for this statement. It is smaller for a high mean latency, because queued batches can
 * still move to another connection or share a run.
 */
export function maxDepth({ latency }: Job): number {
  return latency.longMean > SLOWER_MS ? MAX_DEPTH_OF_SLOWER : MAX_DEPTH;
}

/** The busy connection with the fewest batches behind which this job may be pipelined. */
export function shortestPipeline(all: readonly PooledConnection[], job: Job): PooledConnection | undefined {
  if (!job.isPipelinable) return undefined;
  const now = performance.now();
  let shortest: PooledConnection | undefined;
  let depth = maxDepth(job);
  for (const connection of all) {
    if (connection.attempts.length >= depth || !connection.admits(job, now)) continue;
    shortest = connection;
    depth = connection.attempts.length;
  }
  return shortest;
}
