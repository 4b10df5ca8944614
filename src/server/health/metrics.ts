// `/metrics`: what this process has answered, and how it and its connections are, for Prometheus.
import { createHash, timingSafeEqual } from 'node:crypto';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { packageVersion } from '../../lib/own-files.ts';
import { Metrics, type Histogram } from '../../log/metrics.ts';
import { Problem } from '../../problem/problem.ts';

/** In seconds: the buckets that the OpenTelemetry conventions name for HTTP. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const SHORTEST_TOKEN = 32;
/** However often it is asked. */
const TEXT_LIVES_MS = 1_000;

export type PoolSize = { readonly open: number; readonly idle: number; readonly waiting: number };

export type ServerMetricsOptions = {
  /** Without it only `mayRead` decides. */
  readonly token: string | undefined;
  /** Who reads without the token. */
  readonly mayRead: (request: FastifyRequest) => boolean;
  readonly isReady: () => boolean;
  readonly inFlight: () => number;
  readonly pool: () => PoolSize;
  readonly poolMax: number;
  /** Numbers of others. */
  readonly more?: (metrics: Metrics) => void;
};

/** SVC_METRICS_TOKEN; undefined where it is not set. */
export function metricsToken(env: Readonly<Record<string, string | undefined>>): string | undefined {
  const token = env['SVC_METRICS_TOKEN'] ?? '';
  if (token === '') return undefined;
  if (token.length >= SHORTEST_TOKEN) return token;
  throw new Problem(
    'bad_metrics_token',
    500,
    `SVC_METRICS_TOKEN has fewer than ${SHORTEST_TOKEN} characters`,
    {
      hint: 'Make one with: openssl rand -hex 32',
    },
  );
}

export class ServerMetrics {
  readonly #options: ServerMetricsOptions;
  readonly #metrics = new Metrics();
  readonly #durations: Histogram;
  readonly #delay = monitorEventLoopDelay({ resolution: 20 });
  #text: { readonly value: string; readonly madeAt: number } | undefined;

  constructor(options: ServerMetricsOptions) {
    this.#options = options;
    this.#durations = this.#metrics.histogram(
      'http_server_request_duration_seconds',
      'Duration of answered requests.',
      BOUNDS,
    );
    this.#delay.enable();
    this.#readings();
  }

  /** An answer that has ended. */
  observe(method: string, route: string | undefined, status: number, ms: number): void {
    const known = methodLabel(method);
    this.#durations.observe(`${known} ${status} ${route}`, ms / 1_000, () => ({
      http_request_method: known,
      http_route: route ?? '{other}',
      http_response_status_code: String(status),
    }));
  }

  register(app: FastifyInstance): void {
    app.get('/metrics', async (request, reply) => {
      if (!this.#mayRead(request)) {
        if (this.#options.token === undefined) {
          reply.callNotFound();
          return await reply;
        }
        throw new Problem('no_metrics_token', 401, 'This needs the token of SVC_METRICS_TOKEN', {
          hint: 'Send it as Authorization: Bearer <token>.',
          headers: { 'www-authenticate': 'Bearer' },
        });
      }
      return await reply
        .header('cache-control', 'no-store')
        .type('text/plain; version=0.0.4; charset=utf-8')
        .send(this.#current());
    });
  }

  close(): void {
    this.#delay.disable();
  }

  #mayRead(request: FastifyRequest): boolean {
    const { token, mayRead } = this.#options;
    if (mayRead(request)) return true;
    const presented = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? '')?.[1];
    return (
      token !== undefined && presented !== undefined && timingSafeEqual(digest(presented), digest(token))
    );
  }

  #current(): string {
    const now = performance.now();
    if (!this.#text || now - this.#text.madeAt >= TEXT_LIVES_MS) {
      this.#text = { value: this.#metrics.text(), madeAt: now };
      this.#delay.reset();
    }
    return this.#text.value;
  }

  #readings(): void {
    const { isReady, inFlight, pool, poolMax } = this.#options;
    const metrics = this.#metrics;
    metrics.read('http_server_active_requests', 'gauge', 'Requests being answered.', inFlight);
    metrics.read('db_client_connection_count', 'gauge', 'Connections for requests.', () => {
      const { open, idle } = pool();
      return [
        { labels: { pool: 'requests', state: 'idle' }, value: idle },
        { labels: { pool: 'requests', state: 'used' }, value: open - idle },
      ];
    });
    const requests = (value: number) => [{ labels: { pool: 'requests' }, value }];
    metrics.read('db_client_connection_max', 'gauge', 'Most connections for requests.', () =>
      requests(poolMax),
    );
    metrics.read('db_client_connection_pending_requests', 'gauge', 'Waiting for a connection.', () =>
      requests(pool().waiting),
    );
    metrics.read('svc_ready', 'gauge', '1 while /ready says 200.', () => (isReady() ? 1 : 0));
    const build = { version: packageVersion(), node: process.versions.node };
    metrics.read('svc_build_info', 'gauge', 'The version that runs.', () => [{ labels: build, value: 1 }]);
    this.#processReadings();
    this.#options.more?.(metrics);
  }

  /** Named as the usual client library for Node names them. */
  #processReadings(): void {
    const metrics = this.#metrics;
    const startedAt = performance.timeOrigin / 1_000;
    metrics.read('process_start_time_seconds', 'gauge', 'Unix time of the start.', () => startedAt);
    metrics.read('process_cpu_seconds_total', 'counter', 'Processor time used.', () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1_000_000;
    });
    metrics.read('process_resident_memory_bytes', 'gauge', 'Memory of the process.', () =>
      process.memoryUsage.rss(),
    );
    metrics.read(
      'nodejs_heap_size_used_bytes',
      'gauge',
      'Heap in use.',
      () => process.memoryUsage().heapUsed,
    );
    const lag = (nanoseconds: number): number => (Number.isFinite(nanoseconds) ? nanoseconds / 1e9 : 0);
    metrics.read('nodejs_eventloop_lag_p99_seconds', 'gauge', 'Event loop lag since the last text.', () =>
      lag(this.#delay.percentile(99)),
    );
    metrics.read('nodejs_eventloop_lag_max_seconds', 'gauge', 'Event loop lag since the last text.', () =>
      lag(this.#delay.max),
    );
  }
}

/** A method as a label: one of a fixed list. */
function methodLabel(method: string): string {
  return METHODS.has(method) ? method : '_OTHER';
}

/** Of equal length, whatever is presented. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
