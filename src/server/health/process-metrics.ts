// How the process is. Named as the usual client library for Node names it.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Metrics } from '../../log/metrics.ts';

export class ProcessMetrics {
  readonly #delay = monitorEventLoopDelay({ resolution: 20 });

  constructor(metrics: Metrics) {
    this.#delay.enable();
    const startedAt = performance.timeOrigin / 1_000;
    const gauge = (name: string, help: string, read: () => number): void =>
      metrics.read(name, 'gauge', help, read);
    gauge('process_start_time_seconds', 'Unix time of the start.', () => startedAt);
    metrics.read('process_cpu_seconds_total', 'counter', 'Processor time used.', () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1_000_000;
    });
    gauge('process_resident_memory_bytes', 'Memory of the process.', () => process.memoryUsage.rss());
    gauge('nodejs_heap_size_used_bytes', 'Heap in use.', () => process.memoryUsage().heapUsed);
    gauge('nodejs_eventloop_lag_p99_seconds', 'Event loop lag since the last text.', () =>
      inSeconds(this.#delay.percentile(99)),
    );
    gauge('nodejs_eventloop_lag_max_seconds', 'Event loop lag since the last text.', () =>
      inSeconds(this.#delay.max),
    );
  }

  /** The lag is counted anew. */
  reset(): void {
    this.#delay.reset();
  }

  close(): void {
    this.#delay.disable();
  }
}

function inSeconds(nanoseconds: number): number {
  return Number.isFinite(nanoseconds) ? nanoseconds / 1e9 : 0;
}
