// Metrics of statements and connections.
import type { Histogram, Metrics, Reading } from '../../log/metrics.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';

/** Bucket bounds in seconds: those of the OpenTelemetry conventions for databases, and one more. */
const BOUNDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 10];

/** Reads and writes of requests, and the product's statements by purpose. */
export type Operation = 'read' | 'write' | 'auth' | 'storage' | 'meta';

export type PoolSize = { readonly open: number; readonly idle: number; readonly waiting: number };
export type MeasuredPool = { readonly size: PoolSize; readonly max: number };

export class DatabaseMetrics {
  readonly #metrics: Metrics;
  readonly #operations: Histogram;
  readonly #waits: Histogram;

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
    this.#operations = metrics.histogram(
      'db_client_operation_duration_seconds',
      'Duration of statements at the database.',
      BOUNDS,
    );
    this.#waits = metrics.histogram(
      'db_client_connection_wait_time_seconds',
      'Time between the request for a connection and the start of the statement.',
      BOUNDS,
    );
  }

  /** Records a statement, or several statements that were sent together. */
  ran(operation: Operation, ms: number, error?: unknown): void {
    const type = error === undefined ? '' : errorType(error);
    this.#operations.observe(`${operation} ${type}`, ms / 1_000, () => ({
      db_operation_name: operation,
      ...(type !== '' && { error_type: type }),
    }));
  }

  /** Records how long a request's statement waited for a connection. */
  waited(ms: number): void {
    this.#waits.observe('', ms / 1_000, () => ({ pool: 'requests' }));
  }

  watch(pools: Readonly<Record<string, MeasuredPool>>): void {
    const each = (read: (pool: MeasuredPool) => number): Reading[] =>
      Object.entries(pools).map(([pool, measured]) => ({ labels: { pool }, value: read(measured) }));
    this.#metrics.read('db_client_connection_count', 'gauge', 'Open connections.', () =>
      Object.entries(pools).flatMap(([pool, { size }]) => [
        { labels: { pool, state: 'idle' }, value: size.idle },
        { labels: { pool, state: 'used' }, value: size.open - size.idle },
      ]),
    );
    this.#metrics.read('db_client_connection_max', 'gauge', 'Maximum number of open connections.', () =>
      each(({ max }) => max),
    );
    this.#metrics.read(
      'db_client_connection_pending_requests',
      'gauge',
      'Statements that wait for a connection.',
      () => each(({ size }) => size.waiting),
    );
  }
}

/**
 * Returns the class of PostgreSQL's code. A user's SQL function may raise any code, so the full code is
 * unbounded.
 */
function errorType(error: unknown): string {
  return isDatabaseError(error) ? error.code.slice(0, 2) : 'connection';
}
