// `/metrics` for Prometheus: the responses of this process, its state and its connections.
import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { packageVersion } from '../../lib/package-files.ts';
import type { ErrorReports } from '../../log/error-reports.ts';
import { Metrics } from '../../log/metrics.ts';
import { Problem } from '../../problem/problem.ts';
import { DatabaseMetrics } from './database-metrics.ts';
import { ProcessMetrics } from './process-metrics.ts';
import { RequestMetrics } from './request-metrics.ts';
import type { StoredFigures } from './stored-figures.ts';

const MIN_TOKEN_LENGTH = 32;
/** Minimum age of the text before it is built again. */
const METRICS_CACHE_MS = 1_000;

/** Values that are read when the metrics are requested. */
export type ServedFacts = {
  readonly isReady: () => boolean;
  readonly inFlight: () => number;
  /** Hash of the served file. */
  readonly configHash: () => string | undefined;
  /** Number of schema changes of the file that are not applied. Undefined: not known. */
  readonly pendingChanges: () => number | undefined;
  readonly catalogAgeMs: () => number;
  readonly isListening: () => boolean;
  readonly stored: StoredFigures;
  readonly errorReports: ErrorReports | undefined;
  /** Adds the metrics of other parts. */
  readonly more: ReadonlyArray<(metrics: Metrics) => void>;
};

/** Returns SVC_METRICS_TOKEN, or undefined if it is not set. */
export function metricsToken(env: Readonly<Record<string, string | undefined>>): string | undefined {
  const token = env['SVC_METRICS_TOKEN'] ?? '';
  if (token === '') return undefined;
  if (token.length >= MIN_TOKEN_LENGTH) return token;
  throw new Problem(
    'bad_metrics_token',
    500,
    `SVC_METRICS_TOKEN has fewer than ${MIN_TOKEN_LENGTH} characters`,
    {
      hint: 'Create one with: openssl rand -hex 32',
    },
  );
}

export class ServerMetrics {
  readonly #metrics = new Metrics();
  readonly requests = new RequestMetrics(this.#metrics);
  readonly database = new DatabaseMetrics(this.#metrics);
  readonly #process = new ProcessMetrics(this.#metrics);
  #stored: StoredFigures | undefined;
  #text: { readonly value: Promise<string>; readonly madeAt: number } | undefined;

  /** Registers the values. Called when their sources exist. */
  follow(facts: ServedFacts): void {
    const { stored, pendingChanges, configHash } = facts;
    this.#stored = stored;
    const gauge = (name: string, help: string, read: Parameters<Metrics['read']>[3]): void =>
      this.#metrics.read(name, 'gauge', help, read);
    gauge('http_server_active_requests', 'Requests in progress.', facts.inFlight);
    gauge('svc_ready', '1 while /ready responds with 200.', () => (facts.isReady() ? 1 : 0));
    const build = { version: packageVersion(), node: process.versions.node };
    gauge('svc_build_info', 'Running version of svc.', () => [{ labels: build, value: 1 }]);
    gauge('svc_config_info', 'Hash of the served configuration.', () => {
      const hash = configHash();
      return hash === undefined ? [] : [{ labels: { hash }, value: 1 }];
    });
    gauge('svc_migration_pending', 'Schema changes of the file that are not applied.', () => {
      const pending = pendingChanges();
      return pending === undefined ? [] : pending;
    });
    gauge(
      'svc_catalog_age_seconds',
      'Time since the cached catalog was last known to match the database.',
      () => {
        const ageMs = facts.catalogAgeMs();
        return Number.isFinite(ageMs) ? ageMs / 1_000 : [];
      },
    );
    gauge(
      'svc_listen_connected',
      '1 while the connection that receives notifications of schema changes is open.',
      () => (facts.isListening() ? 1 : 0),
    );
    this.#metrics.read(
      'svc_error_reports_total',
      'counter',
      'Errors for the collector, by outcome.',
      () => facts.errorReports?.readings() ?? [],
    );
    stored.measure(this.#metrics);
    for (const measure of facts.more) measure(this.#metrics);
  }

  /** Serves metrics on the port of the APIs, with the token. `canRead`: clients that need no token. */
  registerGuarded(
    app: FastifyInstance,
    token: string | undefined,
    canRead: (request: FastifyRequest) => boolean,
  ): void {
    app.get('/metrics', async (request, reply) => {
      if (canRead(request) || hasToken(request, token)) return await this.#send(reply);
      if (token === undefined) {
        reply.callNotFound();
        return await reply;
      }
      throw new Problem('no_metrics_token', 401, 'This path needs the token of SVC_METRICS_TOKEN', {
        hint: 'Send it as Authorization: Bearer <token>.',
        headers: { 'www-authenticate': 'Bearer' },
      });
    });
  }

  /** Serves metrics without authentication, on the admin port only. */
  register(app: FastifyInstance): void {
    app.get('/metrics', async (_request, reply) => await this.#send(reply));
  }

  close(): void {
    this.#process.close();
  }

  async #send(reply: FastifyReply): Promise<FastifyReply> {
    return await reply
      .header('cache-control', 'no-store')
      .type('text/plain; version=0.0.4; charset=utf-8')
      .send(await this.#current());
  }

  async #current(): Promise<string> {
    const now = performance.now();
    if (!this.#text || now - this.#text.madeAt >= METRICS_CACHE_MS) {
      this.#text = { value: this.#make(), madeAt: now };
    }
    return await this.#text.value;
  }

  async #make(): Promise<string> {
    await this.#stored?.refresh();
    const text = this.#metrics.text();
    this.#process.reset();
    return text;
  }
}

function hasToken({ headers }: FastifyRequest, token: string | undefined): boolean {
  const presented = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  return token !== undefined && presented !== undefined && timingSafeEqual(digest(presented), digest(token));
}

/** Returns a digest, so that the compared values have equal lengths. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
