// One release: its archive is unpacked, its functions are bundled, and a `svc serve` process runs it on a loopback
// port.
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { makeStamp, readStamp, writeStamp } from './build-stamp.ts';
import type { Config } from '../config/config.ts';
import { AddressList } from '../lib/ip-address.ts';
import { freePort } from '../lib/free-port.ts';
import { editText } from '../config/edit/edit.ts';
import { loadConfig } from '../config/load.ts';
import { renderMistakes } from '../config/mistakes/report.ts';
import type { Log } from '../log/log.ts';
import { Problem } from '../problem/problem.ts';
import { unpack } from '../functions/sources/archive.ts';
import { buildBundle } from '../functions/sources/bundle.ts';
import { storeBundle } from '../functions/sources/bundle-store.ts';
import type { Environment } from '../functions/sources/install.ts';

import type { FrontTarget } from './front.ts';
import type { ProcessRecords } from './process-records.ts';

export type ReleaseOptions = {
  readonly id: string;
  readonly directory: string;
  /** Directory for the files of all releases, unless svc.yaml names an absolute directory or S3. */
  readonly dataDirectory: string;
  /** Environment of `svc serve`. */
  readonly env: Environment;
  /** Proxies before the receiver, where the file does not name them. */
  readonly trustedProxies: readonly string[];
  readonly records: ProcessRecords;
  /** Path of svc's own launcher. */
  readonly launcher: string;
  readonly log: Log;
  readonly onLine: (line: string) => void;
  /** Receives the output of the process. */
  readonly onOutput: (text: string) => void;
  /** Called when the process exits, for any reason. */
  readonly onExit: () => void;
};

const PROBE_MS = 250;
const READY_TIMEOUT_MS = 180_000;
const KEPT_OUTPUT = 8_000;
const BUNDLE = 'functions.tgz';

export class Release {
  readonly id: string;
  readonly #options: ReleaseOptions;
  #child: ChildProcess | undefined;
  #output = '';
  #port = 0;
  /** Another one for each start. */
  #secret = '';
  #trusted = new AddressList([]);

  constructor(options: ReleaseOptions) {
    this.id = options.id;
    this.#options = options;
  }

  get running(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Target of requests after the start. */
  get target(): FrontTarget {
    return { port: this.#port, secret: this.#secret, trusted: this.#trusted };
  }

  /** The end of its output, for the user. */
  get output(): string {
    return this.#output.trim();
  }

  /** Unpacks the archive and builds a verified bundle. */
  async build(archive: string): Promise<void> {
    const { directory, env, log, onLine } = this.#options;
    await rm(directory, { recursive: true, force: true });
    await mkdir(directory, { recursive: true });
    await unpack(createReadStream(archive), directory);
    const file = join(directory, 'svc.yaml');
    if (!existsSync(file)) throw new Problem('no_config', 400, 'The archive has no svc.yaml');
    const text = readFileSync(file, 'utf8');
    const loaded = loadConfig({ name: 'svc.yaml', directory, text }, { variables: env });
    if (!loaded.ok) {
      throw new Problem('bad_config', 422, 'The configuration is not valid on this server', {
        details: renderMistakes(loaded.mistakes, { file: 'svc.yaml', text, color: false }),
      });
    }
    // An older client sends none.
    if (!readStamp(directory)) await writeStamp(directory, await makeStamp(directory));
    const { functions, providers } = loaded.config;
    if (functions.length === 0) return;
    const { length } = functions;
    onLine(`installing and bundling ${length} ${length === 1 ? 'function' : 'functions'}`);
    const built = await buildBundle({ directory, functions, env, log });
    try {
      const place = { directory, provider: providers.storage };
      const pointer = await storeBundle(built.archive, built.sha256, BUNDLE, place);
      writeFileSync(file, editText(text, [{ kind: 'set', path: ['functions_bundle'], value: pointer }]));
    } finally {
      await built.close();
    }
  }

  /**
   * Starts the release and waits until it is ready. A failure leaves nothing running. A release whose file was
   * superseded by a newer one fails as a deployment, but serves if it was live before the server restarted.
   */
  async start(superseded: 'refuse' | 'serve' = 'serve'): Promise<void> {
    const { id, directory, dataDirectory, launcher, trustedProxies, records, onOutput, onExit } =
      this.#options;
    // A number that is the same for every release orders none of them.
    const { SVC_DEPLOY_SEQ: _number, ...env } = this.#options.env;
    this.#port = await freePort();
    this.#secret = randomBytes(32).toString('hex');
    const config = this.#loadConfig();
    this.#trusted = new AddressList(config?.server.trustedProxies ?? trustedProxies);
    this.#output = '';
    if (config) await this.#moveFilesOut(config);
    const child = spawn(
      process.execPath,
      [
        launcher,
        'serve',
        '--migrate',
        '--superseded',
        superseded,
        '--config',
        join(directory, 'svc.yaml'),
        '--data-directory',
        dataDirectory,
        '--host',
        '127.0.0.1',
        '--port',
        String(this.#port),
        // Even a killed receiver closes the pipe; without it the release would be unreachable.
        '--until-stdin-ends',
      ],
      {
        cwd: directory,
        env: { ...env, SVC_TRUSTED_PROXIES: trustedProxies.join(','), SVC_FRONT_SECRET: this.#secret },
        stdio: ['pipe', 'pipe', 'pipe'],
      },
    );
    this.#child = child;
    child.once('exit', onExit);
    child.once('exit', () => void records.remove(id));
    if (child.pid !== undefined) await records.add(id, child.pid);
    child.stdin.on('error', () => {});
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8');
      stream.on('data', (text: string) => {
        this.#output = (this.#output + text).slice(-KEPT_OUTPUT);
        onOutput(text);
      });
    }
    const deadline = performance.now() + READY_TIMEOUT_MS;
    while (this.running && performance.now() < deadline) {
      if (await this.isReady()) return;
      await delay(PROBE_MS);
    }
    const reason = this.running
      ? `was not ready within ${READY_TIMEOUT_MS / 1000} s`
      : 'ended before it was ready';
    await this.stop();
    throw new Problem('not_ready', 500, `The release ${reason}`, { details: this.output });
  }

  /** Former versions kept them in the directory of the release, which goes with it. */
  async #moveFilesOut({ providers: { storage } }: Config): Promise<void> {
    const { directory, dataDirectory } = this.#options;
    if (storage.type !== 'local' || isAbsolute(storage.path)) return;
    const from = join(directory, storage.path);
    const to = join(dataDirectory, storage.path);
    if (!existsSync(from) || existsSync(to)) return;
    await mkdir(dirname(to), { recursive: true, mode: 0o700 });
    await rename(from, to);
  }

  /** Returns undefined for an invalid file. The start then reports the reason. */
  #loadConfig(): Config | undefined {
    const { directory, env } = this.#options;
    const text = readFileSync(join(directory, 'svc.yaml'), 'utf8');
    const loaded = loadConfig({ name: 'svc.yaml', directory, text }, { variables: env });
    return loaded.ok ? loaded.config : undefined;
  }

  async isReady(): Promise<boolean> {
    try {
      const response = await fetch(`http://127.0.0.1:${this.#port}/ready`, {
        signal: AbortSignal.timeout(2_000),
      });
      await response.arrayBuffer();
      return response.ok;
    } catch {
      // Not listening (yet).
      return false;
    }
  }

  /** Drains and stops it. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (!child || !this.running) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  }

  async remove(): Promise<void> {
    await this.stop();
    await rm(this.#options.directory, { recursive: true, force: true });
  }
}
