// `svc receive`: serves the deployment API on the public port and forwards every other request to the live release.
import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { join } from 'node:path';
import { Problem } from '../problem/problem.ts';
import { Digest } from '../functions/sources/digest.ts';
import { PREFIX, SHA256_HEADER } from './api.ts';
import { Deployment } from './deployment.ts';
import { asksForSocket, Front } from './front.ts';
import { LiveRelease } from './live-release.ts';
import { ProcessRecords } from './process-records.ts';
import { Release, type ReleaseOptions } from './release.ts';
import { ReleaseStore } from './release-store.ts';

export type ReceiverOptions = Pick<
  ReleaseOptions,
  'env' | 'launcher' | 'log' | 'onOutput' | 'trustedProxies'
> & {
  /** Directory of the releases and the state. */
  readonly directory: string;
  readonly token: string;
  /** How long a new release is watched before the previous one is stopped. */
  readonly probationMs?: number | undefined;
  readonly uploadStallMs?: number | undefined;
};

const MIN_TOKEN_LENGTH = 20;
const MAX_ARCHIVE_BYTES = 256 * 1024 * 1024;
/** An upload without data for this long is aborted: it blocks other deployments. */
const UPLOAD_STALL_MS = 60_000;
/** How long a client without the token may keep sending its body. */
const UNAUTHORIZED_BODY_MS = 5_000;

export class Receiver {
  readonly #options: ReceiverOptions;
  readonly #store: ReleaseStore;
  readonly #records: ProcessRecords;
  readonly #live: LiveRelease;
  readonly #front = new Front();
  readonly #server: Server;
  readonly #deployments = new Map<string, Deployment>();
  /** True from the first byte of an upload to the end of its deployment. */
  #busy = false;
  #stopping = false;
  #deploying: Promise<void> = Promise.resolve();

  private constructor(options: ReceiverOptions, store: ReleaseStore, records: ProcessRecords) {
    this.#options = options;
    this.#store = store;
    this.#records = records;
    this.#live = new LiveRelease(options.log);
    this.#server = createServer({ shouldUpgradeCallback: asksForSocket }, (request, response) =>
      this.#onRequest(request, response),
    );
    this.#server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) =>
      this.#front.passSocket(request, socket, head, this.#live.target),
    );
    // Uploads may take long; the release enforces its own limits.
    this.#server.requestTimeout = 0;
  }

  static async open(options: ReceiverOptions): Promise<Receiver> {
    if (options.token.length < MIN_TOKEN_LENGTH) {
      throw new Problem('weak_token', 500, 'SVC_DEPLOY_TOKEN is missing or too short', {
        hint:
          `It controls this server. Use at least ${MIN_TOKEN_LENGTH} characters, ` +
          'for example the output of `openssl rand -hex 32`.',
      });
    }
    const store = await ReleaseStore.open(options.directory);
    return new Receiver(options, store, await ProcessRecords.open(options.directory));
  }

  get projectId(): string {
    return this.#store.projectId;
  }

  get liveRelease(): string | undefined {
    return this.#live.release?.id;
  }

  async listen(port: number, host: string): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, resolve);
    });
    await this.#records.endLeftOver(this.#options.log);
    if (this.#store.live !== undefined) await this.#startLive(this.#store.live);
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : port;
  }

  async close(): Promise<void> {
    this.#stopping = true;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    await this.#live.stop();
    // A deployment in progress fails now, and may have rolled back to the previous release: stop that too.
    await this.#deploying;
    await this.#live.stop();
    this.#server.closeAllConnections();
    await closed;
    this.#front.close();
    await this.#records.close();
  }

  async #startLive(id: string): Promise<void> {
    const release = this.#release(id, () => {});
    try {
      await release.start();
    } catch (error) {
      // Not fatal: after a reboot the database may start later than this.
      this.#options.log.error({ err: error, release: id }, 'the live release did not start');
    }
    this.#live.release = release;
    this.#live.restartIfEnded();
  }

  #onRequest(request: IncomingMessage, response: ServerResponse): void {
    const path = (request.url ?? '').split('?')[0] ?? '';
    if (path !== PREFIX && !path.startsWith(`${PREFIX}/`)) {
      this.#front.pass(request, response, this.#live.target);
      return;
    }
    this.#answer(request, path.slice(PREFIX.length)).then(
      ([status, body]) => sendJson(response, status, body),
      (error: unknown) => this.#answerError(request, response, error),
    );
  }

  #answerError(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    request.resume();
    if (!(error instanceof Problem)) {
      this.#options.log.error({ err: error }, 'fault');
      sendJson(response, 500, { code: 'internal_error', message: 'Internal server error' });
      return;
    }
    const { status, code, message, hint } = error;
    if (status === 401) {
      response.setHeader('connection', 'close');
      setTimeout(() => request.destroy(), UNAUTHORIZED_BODY_MS).unref();
    }
    sendJson(response, status, { code, message, hint });
  }

  async #answer(request: IncomingMessage, path: string): Promise<[number, object]> {
    if (!this.#isAuthorized(request.headers.authorization)) {
      throw new Problem('unauthorized', 401, 'The deploy token is missing or wrong');
    }
    if (path === '/projects' && request.method === 'POST') return [201, { project_id: this.projectId }];
    const [, project, kind, id] = /^\/projects\/([^/]+)\/(deployments)(?:\/([^/]+))?$/.exec(path) ?? [];
    if (kind === undefined) throw new Problem('not_found', 404, 'No such path');
    if (project !== this.projectId) {
      throw new Problem('project_not_found', 404, `Project ${project} is not on this server`, {
        hint: 'To deploy it here as a new project, remove project.cloud.project_id from svc.yaml.',
      });
    }
    if (id === undefined && request.method === 'POST') return [202, await this.#accept(request)];
    const deployment = id === undefined ? undefined : this.#deployments.get(id);
    if (!deployment) throw new Problem('deployment_not_found', 404, 'No such deployment');
    const { status, message, lines: log } = deployment;
    return [200, { deployment_id: id, status, message, log, live: this.liveRelease }];
  }

  async #accept(request: IncomingMessage): Promise<object> {
    if (this.#busy || this.#stopping) {
      throw new Problem('deployment_running', 409, 'Another deployment is in progress', {
        hint: 'Try again when it has ended.',
      });
    }
    this.#busy = true;
    const id = `${new Date().toISOString().replace(/\D/g, '').slice(0, 14)}-${randomUUID().slice(0, 8)}`;
    const archive = this.#store.uploadFile(id);
    try {
      await this.#receive(request, archive);
    } catch (error) {
      this.#busy = false;
      await rm(archive, { force: true });
      throw error;
    }
    const deployment = new Deployment({
      id,
      release: (onLine) => this.#release(id, onLine),
      live: this.#live,
      store: this.#store,
      log: this.#options.log,
      probationMs: this.#options.probationMs,
    });
    this.#deployments.set(id, deployment);
    this.#deploying = this.#live.during(() => deployment.run(archive)).finally(() => (this.#busy = false));
    return { deployment_id: id, status: deployment.status };
  }

  async #receive(request: IncomingMessage, archive: string): Promise<void> {
    const digest = new Digest((bytes) => {
      if (bytes > MAX_ARCHIVE_BYTES) throw new Problem('too_large', 413, 'The archive is too large');
    });
    const stallMs = this.#options.uploadStallMs ?? UPLOAD_STALL_MS;
    request.setTimeout(stallMs, () => request.destroy(new Error('the upload stalled')));
    await pipeline(request, digest.through, createWriteStream(archive, { mode: 0o600 }));
    request.setTimeout(0);
    if (digest.sha256() !== request.headers[SHA256_HEADER]) {
      const message = `The SHA-256 of the archive is not the one in ${SHA256_HEADER}`;
      throw new Problem('hash_mismatch', 400, message);
    }
  }

  #release(id: string, onLine: (line: string) => void): Release {
    const { env, launcher, log, onOutput, trustedProxies } = this.#options;
    const records = this.#records;
    const directory = this.#store.releaseFolder(id);
    const onExit = (): void => this.#live.restartIfEnded();
    return new Release({
      id,
      directory,
      dataDirectory: join(this.#options.directory, 'data'),
      env,
      trustedProxies,
      records,
      launcher,
      log,
      onLine,
      onOutput,
      onExit,
    });
  }

  #isAuthorized(authorization: string | undefined): boolean {
    const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
    return timingSafeEqual(digest(authorization ?? ''), digest(`Bearer ${this.#options.token}`));
  }
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
