// Client of the deployment API, between `svc deploy` and a managed cloud or `svc receive`:
//   POST /deploy/v1/projects                             → { project_id }
//   POST /deploy/v1/projects/<id>/deployments  (archive) → { deployment_id, status }
//   GET  /deploy/v1/projects/<id>/deployments/<id>       → { deployment_id, status, message, log }
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { Problem } from '../problem/problem.ts';

export const PREFIX = '/deploy/v1';
export const SHA256_HEADER = 'x-svc-sha256';
const POLL_MS = 500;
const REQUEST_TIMEOUT_MS = 30_000;
const UPLOAD_TIMEOUT_MS = 600_000;

const STATUSES = ['building', 'starting', 'watching', 'live', 'failed'] as const;
export type DeploymentStatus = (typeof STATUSES)[number];

export type Deployment = {
  readonly id: string;
  readonly status: DeploymentStatus;
  /** Why it failed. */
  readonly message: string | undefined;
  /** Progress lines for the user. */
  readonly log: readonly string[];
  /** Id of the live release, if any. */
  readonly live: string | undefined;
};

export class DeployClient {
  readonly #base: string;
  readonly #token: string;

  constructor(base: string, token: string) {
    const url = new URL(base);
    if (url.protocol === 'http:' && !/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)) {
      const message = `The deploy token would be sent to ${url.origin} unencrypted`;
      throw new Problem('insecure_deploy', 500, message, { hint: 'Use https://.' });
    }
    this.#base = base.replace(/\/+$/, '') + PREFIX;
    this.#token = token;
  }

  async createProject(name: string | undefined): Promise<string> {
    const answer = await this.#send('POST', '/projects', JSON.stringify({ name: name ?? null }));
    return field(answer, 'project_id');
  }

  async upload(projectId: string, archive: string, sha256: string): Promise<string> {
    const { size } = await stat(archive);
    const path = `/projects/${encodeURIComponent(projectId)}/deployments`;
    const headers = { 'content-length': String(size), [SHA256_HEADER]: sha256 };
    const answer = await this.#send('POST', path, createReadStream(archive), headers);
    return field(answer, 'deployment_id');
  }

  async read(projectId: string, deploymentId: string): Promise<Deployment> {
    const path = `/projects/${encodeURIComponent(projectId)}/deployments/${encodeURIComponent(deploymentId)}`;
    const answer = await this.#send('GET', path);
    const status = STATUSES.find((known) => known === field(answer, 'status'));
    if (!status) throw unexpected('it has no status');
    const { message, log, live }: { message?: unknown; log?: unknown; live?: unknown } = answer;
    return {
      id: deploymentId,
      status,
      message: typeof message === 'string' ? message : undefined,
      log: Array.isArray(log) ? log.map(String) : [],
      live: typeof live === 'string' ? live : undefined,
    };
  }

  /** Polls until the deployment is live or failed. */
  async follow(projectId: string, deploymentId: string, onLine: (line: string) => void): Promise<Deployment> {
    let shown = 0;
    for (;;) {
      const deployment = await this.read(projectId, deploymentId);
      for (const line of deployment.log.slice(shown)) onLine(line);
      shown = deployment.log.length;
      if (deployment.status === 'live' || deployment.status === 'failed') return deployment;
      await delay(POLL_MS);
    }
  }

  async #send(
    method: string,
    path: string,
    body?: string | Readable,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<object> {
    let response: Response;
    try {
      response = await fetch(this.#base + path, {
        method,
        headers: {
          ...(body && { 'content-type': typeof body === 'string' ? 'application/json' : 'application/gzip' }),
          ...headers,
          authorization: `Bearer ${this.#token}`,
        },
        // A redirect could leak the token to another host.
        redirect: 'error',
        signal: AbortSignal.timeout(body instanceof Readable ? UPLOAD_TIMEOUT_MS : REQUEST_TIMEOUT_MS),
        ...(body instanceof Readable
          ? { body: Readable.toWeb(body), duplex: 'half' as const }
          : { body: body ?? null }),
      });
    } catch (cause) {
      // fetch wraps the system error.
      const reason = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
      throw new Problem('deploy_unreachable', 502, `${new URL(this.#base).origin} cannot be reached`, {
        cause,
        details: reason instanceof Error ? reason.message : undefined,
        hint: 'Check --to, and that `svc receive` is running there.',
      });
    }
    const text = await response.text();
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch (cause) {
      throw unexpected(`status ${response.status}, not JSON`, cause);
    }
    if (typeof answer !== 'object' || answer === null) throw unexpected(`status ${response.status}`);
    if (response.ok) return answer;
    const { code, message, hint }: { code?: unknown; message?: unknown; hint?: unknown } = answer;
    throw new Problem(
      typeof code === 'string' ? code : 'deploy_refused',
      response.status,
      typeof message === 'string' ? message : `The server answered ${response.status}`,
      { hint: typeof hint === 'string' ? hint : undefined },
    );
  }
}

function field(answer: object, name: string): string {
  const value: unknown = Object.getOwnPropertyDescriptor(answer, name)?.value;
  if (typeof value !== 'string' || value === '') throw unexpected(`it has no ${name}`);
  return value;
}

function unexpected(reason: string, cause?: unknown): Problem {
  return new Problem(
    'deploy_answer',
    502,
    `The server's response is not from the deployment API: ${reason}`,
    {
      cause,
      hint: 'Check that --to is a server that runs `svc receive`.',
    },
  );
}
