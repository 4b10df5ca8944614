// The self-hosted receiver of `svc deploy`: takes an upload, builds it, starts it beside the live release, and
// gives it the traffic only when it is ready. The former release stays up until the new one has proved itself,
// so that going back is a matter of an instant.
import { createHash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import { createWriteStream, existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../log/log.ts';
import { Problem } from '../problem/problem.ts';
import type { Environment } from '../functions/sources/install.ts';
import { PREFIX, SHA256_HEADER, type DeploymentStatus } from './api.ts';
import { Front } from './front.ts';
import { Release } from './release.ts';

export type ReceiverOptions = {
  /** State: releases and which one is live. */
  readonly directory: string;
  readonly token: string;
  readonly env: Environment;
  readonly launcher: string;
  readonly log: Log;
  /** The log of the releases, as they write it. */
  readonly onOutput: (text: string) => void;
  /** How long a new release is watched before the former one is let go. */
  readonly probationMs?: number | undefined;
  readonly uploadStallMs?: number | undefined;
};

type Progress = {
  readonly id: string;
  status: DeploymentStatus;
  message: string | undefined;
  readonly log: string[];
};

type State = { readonly projectId: string; readonly live: string | undefined };

const SHORTEST_TOKEN = 20;
const MAX_ARCHIVE_BYTES = 256 * 1024 * 1024;
const PROBATION_MS = 10_000;
const PROBE_MS = 500;
/** Consecutive failed probes that end a probation. */
const TOLERATED_FAILURES = 4;
const KEPT_RELEASES = 5;
/** An upload that brings nothing for so long is given up: others wait for it. */
const UPLOAD_STALL_MS = 60_000;
const STRANGERS_BODY_MS = 5_000;
const RESTART_DELAYS_MS = [0, 500, 1_000, 2_000, 5_000];

export class Receiver {
  readonly #options: ReceiverOptions;
  readonly #front = new Front();
  readonly #server: Server;
  readonly #deployments = new Map<string, Progress>();
  #state: State;
  #live: Release | undefined;
  #busy = false;
  #stopping = false;
  #work: Promise<void> = Promise.resolve();

  private constructor(options: ReceiverOptions, state: State) {
    this.#options = options;
    this.#state = state;
    this.#server = createServer((request, response) => this.#onRequest(request, response));
    // Uploads of functions may be long; the service behind has its own limits.
    this.#server.requestTimeout = 0;
  }

  static async open(options: ReceiverOptions): Promise<Receiver> {
    if (options.token.length < SHORTEST_TOKEN) {
      throw new Problem('weak_token', 500, 'SVC_DEPLOY_TOKEN is missing or too short', {
        hint: `It is the key to this server: ${SHORTEST_TOKEN} characters at least, for example from \`openssl rand -hex 32\`.`,
      });
    }
    await mkdir(join(options.directory, 'releases'), { recursive: true, mode: 0o700 });
    const file = join(options.directory, 'state.json');
    const state = existsSync(file) ? parseState(readFileSync(file, 'utf8')) : undefined;
    const receiver = new Receiver(
      options,
      state ?? { projectId: `prj_${randomBytes(8).toString('hex')}`, live: undefined },
    );
    if (!state) await receiver.#save();
    await receiver.#forgetUploads();
    return receiver;
  }

  get projectId(): string {
    return this.#state.projectId;
  }

  get liveRelease(): string | undefined {
    return this.#live?.id;
  }

  async listen(port: number, host: string): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, resolve);
    });
    if (this.#state.live !== undefined) {
      const release = this.#release(this.#state.live, () => {});
      try {
        await release.start();
        this.#use(release);
      } catch (error) {
        // After a reboot the database may be later than this.
        this.#options.log.error({ err: error, release: release.id }, 'the live release does not start');
        this.#live = release;
        this.#work = this.#restart(release);
      }
    }
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : port;
  }

  async close(): Promise<void> {
    this.#stopping = true;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    await this.#live?.stop();
    await this.#work;
    this.#server.closeAllConnections();
    await closed;
    this.#front.close();
  }

  #onRequest(request: IncomingMessage, response: ServerResponse): void {
    const path = (request.url ?? '').split('?')[0] ?? '';
    if (path !== PREFIX && !path.startsWith(`${PREFIX}/`)) {
      this.#front.pass(request, response, this.#live?.running ? this.#live.port : undefined);
      return;
    }
    this.#answer(request, path.slice(PREFIX.length)).then(
      ([status, body]) => sendJson(response, status, body),
      (error: unknown) => {
        request.resume();
        if (error instanceof Problem && error.status === 401) {
          // A stranger may not hold a connection for as long as they go on sending.
          response.setHeader('connection', 'close');
          setTimeout(() => request.destroy(), STRANGERS_BODY_MS).unref();
        }
        if (error instanceof Problem) {
          sendJson(response, error.status, { code: error.code, message: error.message, hint: error.hint });
          return;
        }
        this.#options.log.error({ err: error }, 'fault');
        sendJson(response, 500, { code: 'internal_error', message: 'Internal server error' });
      },
    );
  }

  async #answer(request: IncomingMessage, path: string): Promise<[number, object]> {
    if (!this.#isAllowed(request.headers.authorization)) {
      throw new Problem('unauthorized', 401, 'The deploy token is missing or wrong');
    }
    if (path === '/projects' && request.method === 'POST') {
      return [201, { project_id: this.#state.projectId }];
    }
    const [, project, kind, id] = /^\/projects\/([^/]+)\/(deployments)(?:\/([^/]+))?$/.exec(path) ?? [];
    if (kind === undefined) throw new Problem('not_found', 404, 'No such path');
    if (project !== this.#state.projectId) {
      throw new Problem('project_not_found', 404, `This server is not the home of project ${project}`, {
        hint: 'Remove project.cloud.project_id from the file to deploy it here as a new one.',
      });
    }
    if (id === undefined && request.method === 'POST') return [202, await this.#accept(request)];
    const progress = id === undefined ? undefined : this.#deployments.get(id);
    if (!progress) throw new Problem('deployment_not_found', 404, 'No such deployment');
    const { status, message, log } = progress;
    return [200, { deployment_id: progress.id, status, message, log, live: this.#live?.id }];
  }

  async #accept(request: IncomingMessage): Promise<object> {
    if (this.#busy || this.#stopping) {
      throw new Problem('deployment_running', 409, 'Another deployment is under way', {
        hint: 'Try again when it has ended.',
      });
    }
    this.#busy = true;
    const id = `${new Date().toISOString().replace(/\D/g, '').slice(0, 14)}-${randomUUID().slice(0, 8)}`;
    const archive = join(this.#options.directory, 'releases', `${id}.tgz`);
    try {
      await this.#receive(request, archive);
    } catch (error) {
      this.#busy = false;
      await rm(archive, { force: true });
      throw error;
    }
    const progress: Progress = { id, status: 'building', message: undefined, log: [] };
    this.#deployments.set(id, progress);
    this.#work = this.#deploy(progress, archive).finally(() => (this.#busy = false));
    return { deployment_id: id, status: progress.status };
  }

  async #receive(request: IncomingMessage, archive: string): Promise<void> {
    const hash = createHash('sha256');
    let bytes = 0;
    const count = async function* (source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const chunk of source) {
        bytes += chunk.length;
        if (bytes > MAX_ARCHIVE_BYTES) throw new Problem('too_large', 413, 'The archive is too large');
        hash.update(chunk);
        yield chunk;
      }
    };
    const stallMs = this.#options.uploadStallMs ?? UPLOAD_STALL_MS;
    request.setTimeout(stallMs, () => request.destroy(new Error('the upload stalled')));
    await pipeline(request, count, createWriteStream(archive, { mode: 0o600 }));
    request.setTimeout(0);
    if (hash.digest('hex') !== request.headers[SHA256_HEADER]) {
      throw new Problem('hash_mismatch', 400, `The archive is not what ${SHA256_HEADER} says`);
    }
  }

  /** Never throws: what happens is in the progress. */
  async #deploy(progress: Progress, archive: string): Promise<void> {
    const { log } = this.#options;
    const say = (line: string): void => {
      progress.log.push(line);
      log.info({ release: progress.id }, line);
    };
    const release = this.#release(progress.id, say);
    const former = this.#live;
    try {
      await release.build(archive);
      progress.status = 'starting';
      say('starting the release beside the live one');
      await release.start();
      progress.status = 'watching';
      this.#use(release);
      say('ready; it has the traffic now');
      await this.#watch(release);
      await this.#setLive(release.id);
      progress.status = 'live';
      say('live');
      await former?.stop();
      await this.#forget();
    } catch (error) {
      if (former?.running && this.#live !== former) {
        this.#live = former;
        say(`back to release ${former.id}`);
      }
      const problem = error instanceof Problem ? error : undefined;
      if (!problem) log.error({ err: error, release: progress.id }, 'fault');
      if (problem?.details) for (const line of problem.details.split('\n').slice(-40)) say(line);
      progress.message =
        problem?.message ?? 'The deployment failed for a reason that is in the log of the server';
      say(`failed: ${progress.message}`);
      if (this.#live === release) this.#live = former;
      await release.remove();
      progress.status = 'failed';
    } finally {
      await rm(archive, { force: true });
    }
    // It may have ended while this was under way.
    if (this.#live && !this.#live.running && !this.#stopping) this.#restartLater(this.#live);
  }

  async #watch(release: Release): Promise<void> {
    const until = performance.now() + (this.#options.probationMs ?? PROBATION_MS);
    let failures = 0;
    while (performance.now() < until && !this.#stopping) {
      await delay(PROBE_MS);
      failures = (await release.isReady()) ? 0 : failures + 1;
      if (!release.running || failures >= TOLERATED_FAILURES) {
        throw new Problem('unhealthy', 500, 'The release did not stay healthy', { details: release.output });
      }
    }
  }

  #release(id: string, onLine: (line: string) => void): Release {
    const { directory, env, launcher, log, onOutput } = this.#options;
    return new Release({
      id,
      directory: join(directory, 'releases', id),
      env,
      launcher,
      log,
      onLine,
      onOutput,
    });
  }

  /** Sends the traffic there, and starts it again should it ever end by itself. */
  #use(release: Release): void {
    this.#live = release;
    release.whenEnded(() => {
      if (this.#stopping || this.#live !== release || this.#busy) return;
      this.#restartLater(release);
    });
  }

  #restartLater(release: Release): void {
    const before = this.#work;
    this.#work = Promise.all([before, this.#restart(release)]).then(() => {});
  }

  async #restart(release: Release): Promise<void> {
    for (let attempt = 0; !this.#stopping && this.#live === release && !release.running; attempt++) {
      const wait = RESTART_DELAYS_MS[Math.min(attempt, RESTART_DELAYS_MS.length - 1)] ?? 0;
      this.#options.log.error(
        { release: release.id, waitMs: wait },
        'the live release ended; starting it again',
      );
      await delay(wait);
      if (this.#stopping || this.#live !== release || release.running) return;
      try {
        await release.start();
        // Another one may have been deployed meanwhile.
        if (this.#live === release) this.#use(release);
        else await release.stop();
        return;
      } catch (error) {
        this.#options.log.error({ err: error, release: release.id }, 'it does not start');
      }
    }
  }

  async #setLive(id: string): Promise<void> {
    this.#state = { ...this.#state, live: id };
    await this.#save();
  }

  async #save(): Promise<void> {
    const file = join(this.#options.directory, 'state.json');
    await writeFile(`${file}.tmp`, `${JSON.stringify(this.#state)}\n`, { mode: 0o600 });
    await rename(`${file}.tmp`, file);
  }

  /** Names begin with their time, so the oldest sort first. */
  async #forget(): Promise<void> {
    const folder = join(this.#options.directory, 'releases');
    const names = (await readdir(folder)).filter(
      (name) => name !== this.#state.live && !name.endsWith('.tgz'),
    );
    const old = names.sort((a, b) => a.localeCompare(b)).slice(0, -KEPT_RELEASES);
    for (const name of old) await rm(join(folder, name), { recursive: true, force: true });
  }

  /** What a receiver that was killed left of uploads. */
  async #forgetUploads(): Promise<void> {
    const folder = join(this.#options.directory, 'releases');
    for (const name of await readdir(folder)) {
      if (name.endsWith('.tgz')) await rm(join(folder, name), { force: true });
    }
  }

  #isAllowed(authorization: string | undefined): boolean {
    const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
    return timingSafeEqual(digest(authorization ?? ''), digest(`Bearer ${this.#options.token}`));
  }
}

function parseState(text: string): State | undefined {
  const state: unknown = JSON.parse(text);
  if (typeof state !== 'object' || state === null || !('projectId' in state)) return undefined;
  const live = 'live' in state && typeof state.live === 'string' ? state.live : undefined;
  return { projectId: String(state.projectId), live };
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
