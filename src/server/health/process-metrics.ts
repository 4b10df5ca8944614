// Metrics of the process, with the names of the usual client library for Node.
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
    metrics.read('process_cpu_seconds_total', 'counter', 'CPU time used by the process.', () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1_000_000;
    });
    gauge('process_resident_memory_bytes', 'Resident memory of the process.', () =>
      process.memoryUsage.rss(),
    );
    gauge('nodejs_heap_size_used_bytes', 'Heap in use.', () => process.memoryUsage().heapUsed);
    gauge('nodejs_eventloop_lag_p99_seconds', 'Event loop lag since the last scrape.', () =>
      inSeconds(this.#delay.percentile(99)),
    );
    gauge('nodejs_eventloop_lag_max_seconds', 'Event loop lag since the last scrape.', () =>
      inSeconds(this.#delay.max),
    );
  }

  /** Starts a new measurement of the lag. */
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
