// `/metrics`: what this process has answered, and how it and its connections are, for Prometheus.
import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { packageVersion } from '../../lib/own-files.ts';
import type { ErrorReports } from '../../log/error-reports.ts';
import { Metrics } from '../../log/metrics.ts';
import { Problem } from '../../problem/problem.ts';
import { DatabaseMetrics } from './database-metrics.ts';
import { ProcessMetrics } from './process-metrics.ts';
import { RequestMetrics } from './request-metrics.ts';
import type { StoredFigures } from './stored-figures.ts';

const SHORTEST_TOKEN = 32;
/** However often it is asked. */
const TEXT_LIVES_MS = 1_000;

/** What is read when somebody asks. */
export type ServedFacts = {
  readonly isReady: () => boolean;
  readonly inFlight: () => number;
  /** Of the file that is served. */
  readonly configHash: () => string | undefined;
  /** Changes of the schema that the file asks for and that are not applied; undefined where nobody has looked. */
  readonly pendingChanges: () => number | undefined;
  readonly catalogAgeMs: () => number;
  readonly isListening: () => boolean;
  readonly stored: StoredFigures;
  readonly errorReports: ErrorReports | undefined;
  /** Numbers of others. */
  readonly more: ReadonlyArray<(metrics: Metrics) => void>;
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
  readonly #metrics = new Metrics();
  readonly requests = new RequestMetrics(this.#metrics);
  readonly database = new DatabaseMetrics(this.#metrics);
  readonly #process = new ProcessMetrics(this.#metrics);
  #stored: StoredFigures | undefined;
  #text: { readonly value: Promise<string>; readonly madeAt: number } | undefined;

  /** Once what is to be read is there. */
  follow(facts: ServedFacts): void {
    const { stored, pendingChanges, configHash } = facts;
    this.#stored = stored;
    const gauge = (name: string, help: string, read: Parameters<Metrics['read']>[3]): void =>
      this.#metrics.read(name, 'gauge', help, read);
    gauge('http_server_active_requests', 'Requests being answered.', facts.inFlight);
    gauge('svc_ready', '1 while /ready says 200.', () => (facts.isReady() ? 1 : 0));
    const build = { version: packageVersion(), node: process.versions.node };
    gauge('svc_build_info', 'The version that runs.', () => [{ labels: build, value: 1 }]);
    gauge('svc_config_info', 'The file that is served.', () => {
      const hash = configHash();
      return hash === undefined ? [] : [{ labels: { hash }, value: 1 }];
    });
    gauge('svc_migration_pending', 'Changes of the schema that are not applied.', () => {
      const pending = pendingChanges();
      return pending === undefined ? [] : pending;
    });
    gauge('svc_catalog_age_seconds', 'Since the catalog was last known to be that of the database.', () => {
      const ageMs = facts.catalogAgeMs();
      return Number.isFinite(ageMs) ? ageMs / 1_000 : [];
    });
    gauge('svc_listen_connected', '1 while changes of the schema are heard of.', () =>
      facts.isListening() ? 1 : 0,
    );
    this.#metrics.read(
      'svc_error_reports_total',
      'counter',
      'Errors for the collector, and what became of them.',
      () => facts.errorReports?.readings() ?? [],
    );
    stored.measure(this.#metrics);
    for (const measure of facts.more) measure(this.#metrics);
  }

  /** On the port of the APIs: for who has the token. `mayRead`: who needs none. */
  registerGuarded(
    app: FastifyInstance,
    token: string | undefined,
    mayRead: (request: FastifyRequest) => boolean,
  ): void {
    app.get('/metrics', async (request, reply) => {
      if (mayRead(request) || hasToken(request, token)) return await this.#send(reply);
      if (token === undefined) {
        reply.callNotFound();
        return await reply;
      }
      throw new Problem('no_metrics_token', 401, 'This needs the token of SVC_METRICS_TOKEN', {
        hint: 'Send it as Authorization: Bearer <token>.',
        headers: { 'www-authenticate': 'Bearer' },
      });
    });
  }

  /** On a port of its own, for whoever reaches it. */
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
    if (!this.#text || now - this.#text.madeAt >= TEXT_LIVES_MS) {
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

/** Of equal length, whatever is presented. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
