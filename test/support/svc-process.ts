// A real svc process, started from the command line; waits until it serves.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../src/lib/free-port.ts';
import { scaled } from './run/scaled.ts';

export const LAUNCHER = fileURLToPath(new URL('../../bin/svc.js', import.meta.url));

/** SVC_TEST_NODE: another Node to run the product with, for example the oldest supported. */
export const NODE = process.env['SVC_TEST_NODE'] ?? process.execPath;

export type SvcProcess = {
  readonly url: string;
  readonly publishableKey: string;
  readonly secretKey: string;
  readonly child: ChildProcess;
  /** Everything printed so far, both streams. */
  output(): string;
  /** Milliseconds from the spawn to the first 200 of `/health`. */
  readonly readyInMs: number;
  stop(signal?: NodeJS.Signals): Promise<number | null>;
};

export type StartOptions = {
  readonly command: 'dev' | 'serve';
  readonly config: string;
  readonly arguments?: readonly string[];
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly uid?: number;
  /** Path of an installed package. Defaults to this checkout. */
  readonly launcher?: string;
  /** A free one by default. */
  readonly port?: number;
  /** Working directory. */
  readonly cwd?: string;
};

export async function startSvc(options: StartOptions): Promise<SvcProcess> {
  const port = options.port ?? (await freePort());
  const startedAt = performance.now();
  const { child, output } = spawnSvc(
    [options.command, '--config', options.config, '--port', String(port), ...(options.arguments ?? [])],
    // Tests search the log for fields.
    { ...options, env: { SVC_LOG_FORMAT: 'json', ...options.env } },
  );
  const url = `http://localhost:${port}`;
  await untilReady(url, child, output);
  const readyInMs = performance.now() - startedAt;
  return {
    url,
    child,
    output,
    readyInMs,
    publishableKey: options.env?.['SVC_PUBLISHABLE_KEY'] ?? /svc_publishable_\S+/.exec(output())?.[0] ?? '',
    secretKey: options.env?.['SVC_SECRET_KEY'] ?? /svc_secret_\S+/.exec(output())?.[0] ?? '',
    async stop(signal = 'SIGTERM') {
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
      const ended = once(child, 'exit');
      child.kill(signal);
      await ended;
      return child.exitCode;
    },
  };
}

/** Runs a command and waits for its exit. */
export async function runSvc(
  args: readonly string[],
  options: { env?: Readonly<Record<string, string | undefined>>; cwd?: string; launcher?: string } = {},
): Promise<{ code: number | null; output: string }> {
  const { child, output } = spawnSvc(args, options);
  await once(child, 'close');
  return { code: child.exitCode, output: output() };
}

function spawnSvc(
  args: readonly string[],
  options: {
    env?: Readonly<Record<string, string | undefined>> | undefined;
    cwd?: string | undefined;
    uid?: number | undefined;
    launcher?: string | undefined;
  },
): { child: ChildProcess; output: () => string } {
  const {
    SVC_DATABASE_URL: _database,
    SVC_PUBLISHABLE_KEY: _publishable,
    SVC_SECRET_KEY: _secret,
    ...inherited
  } = process.env;
  const child = spawn(NODE, [options.launcher ?? LAUNCHER, ...args], {
    env: { ...inherited, NO_COLOR: '1', ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.uid === undefined ? {} : { uid: options.uid }),
  });
  let text = '';
  child.stdout?.on('data', (chunk: Buffer) => (text += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (text += chunk.toString()));
  return { child, output: () => text };
}

async function untilReady(url: string, child: ChildProcess, output: () => string): Promise<void> {
  const deadline = Date.now() + scaled(120_000);
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`svc ended before it was ready:\n${output()}`);
    }
    // Not `/ready`: its callers count as balancers, and a stop waits for them.
    const ready = await fetch(`${url}/health`).then(
      (response) => response.ok,
      () => false,
    );
    // The banner comes shortly after the first ready answer, and the keys are read from it.
    if (ready && /Try it|"serving"|INFO: serving/.test(output())) return;
    if (Date.now() > deadline) throw new Error(`svc was not ready in time:\n${output()}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
