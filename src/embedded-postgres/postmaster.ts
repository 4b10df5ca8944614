// Starts and stops a PostgreSQL server, and finds one that outlived its svc. The server gets its own session, so
// that Ctrl-C reaches only svc, which drains its requests first.
import type { ChildProcess } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { freePort } from '../lib/free-port.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { must } from '../lib/assert.ts';
import { hasCode } from '../lib/error-code.ts';
import { EMBEDDED_SETTING } from './embedded-setting.ts';
import type { LogFile } from './log-file.ts';
import { notOurs, portTaken, problemFromOutput, startFailed, stopFailed } from './problem.ts';
import { postmasterFile, readPostmasterFile, type PostmasterFile } from './postmaster-file.ts';
import { isAlive, pidExists, processesIn, isPostgresIn } from './process-table.ts';
import { launch, dataDirectoryArgument, type Program } from './program.ts';

export type Durability = 'durable' | 'throwaway';

export type Postmaster = { readonly pid: number; readonly port: number; readonly child: ChildProcess };

const PORT_ATTEMPTS = 5;
/** Includes crash recovery. */
const START_TIMEOUT_MS = 60_000;
/** PostgreSQL's shutdown modes. */
const SHUTDOWN = {
  fast: { signal: 'SIGINT', timeoutMs: 10_000 },
  immediate: { signal: 'SIGQUIT', timeoutMs: 5_000 },
} as const;

const SETTINGS: readonly string[] = [
  'listen_addresses=127.0.0.1',
  'unix_socket_directories=',
  'max_connections=100',
  'shared_buffers=64MB',
  'min_wal_size=32MB',
  'max_wal_size=512MB',
  'wal_level=logical',
  'jit=off',
  'timezone=UTC',
  'log_timezone=UTC',
  'log_checkpoints=off',
  'logging_collector=off',
  'log_line_prefix=%m [%p] %q%u@%d ',
  `${EMBEDDED_SETTING}=on`,
];

const THROWAWAY: readonly string[] = [
  'fsync=off',
  'full_page_writes=off',
  'synchronous_commit=off',
  'autovacuum_naptime=1h',
  // Several test files run at once, each with its own pools.
  'max_connections=400',
  // CREATE DATABASE from a template is cheap if no checkpoint is flushed.
  'max_wal_size=4GB',
  'checkpoint_timeout=1h',
];

export type StartRequest = {
  readonly dataDirectory: string;
  readonly durability: Durability;
  readonly log: LogFile;
};

export async function startPostmaster(program: Program, request: StartRequest): Promise<Postmaster> {
  let output = '';
  for (let attempt = 0; attempt < PORT_ATTEMPTS; attempt += 1) {
    const port = await freePort();
    const child = await spawnPostmaster(program, request, port);
    if (await isReady(child, request.dataDirectory))
      return { pid: must(child.pid, 'process id'), port, child };
    output = await request.log.tail();
    // Another process may have taken the port since we found it free.
    if (!/could not bind|Address already in use/.test(output))
      throw problemFromOutput(output, request.log.path);
  }
  throw portTaken(PORT_ATTEMPTS, output.trim().split('\n').at(-1) ?? '');
}

/**
 * Returns the server that runs in this data directory, also one started by another process. Removes the files of a
 * dead server.
 */
export async function findPostmaster(dataDirectory: string): Promise<PostmasterFile | undefined> {
  const found = await readPostmasterFile(dataDirectory);
  if (found === undefined) return undefined;
  if (await isAlive(found.pid)) {
    const isPostgres = await isPostgresIn(found.pid, dataDirectory);
    // macOS does not show a process's directory, so there the path in the file must match.
    const samePath = process.platform === 'linux' || resolve(found.dataDirectory) === resolve(dataDirectory);
    if (isPostgres !== false && samePath) return found;
  }
  await clearRuins(dataDirectory, found.pid);
  return undefined;
}

/** Removes what is left of a server that was killed, and would keep the next one from starting. */
export async function clearRuins(dataDirectory: string, pid: number): Promise<void> {
  await endOrphans(dataDirectory);
  // The id was reused, or the dead server was not reaped. PostgreSQL would take either for a running server and refuse
  // to start. Otherwise keep the file: PostgreSQL checks the shared memory segment named in it.
  if (pidExists(pid)) await rm(postmasterFile(dataDirectory), { force: true });
}

export type ProbeResult =
  | { readonly kind: 'ok' }
  | { readonly kind: 'wrong-password' }
  | { readonly kind: 'no-answer'; readonly cause: unknown };

export async function probeServer(url: string): Promise<ProbeResult> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 });
  // Without a listener, a connection error while idle would crash the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    return { kind: 'ok' };
  } catch (cause) {
    return isDatabaseError(cause, 'invalid_password')
      ? { kind: 'wrong-password' }
      : { kind: 'no-answer', cause };
  } finally {
    await client.end();
  }
}

/** Fast shutdown (rolls open transactions back, writes a checkpoint), then immediate if that takes too long. */
export async function stopPostmaster(
  program: Program,
  dataDirectory: string,
  pid: number,
  durability: Durability,
): Promise<void> {
  for (const mode of durability === 'durable' ? (['fast', 'immediate'] as const) : (['immediate'] as const)) {
    const { signal, timeoutMs } = SHUTDOWN[mode];
    if (process.platform === 'win32') await requestStop(program, dataDirectory, mode);
    else if (!sendSignal(pid, signal)) return;
    if (await pollUntil(timeoutMs, async () => ((await isAlive(pid)) ? undefined : true))) return;
  }
  throw stopFailed(pid);
}

/** Kills backends whose postmaster was killed. They exit by themselves, unless they are busy. */
async function endOrphans(dataDirectory: string): Promise<void> {
  const gone = async (timeoutMs: number) =>
    pollUntil(
      timeoutMs,
      async () => ((await processesIn(dataDirectory)).length === 0 ? true : undefined),
      50,
    );
  if (await gone(1000)) return;
  const orphans = await processesIn(dataDirectory);
  for (const pid of orphans) sendSignal(pid, 'SIGKILL');
  if (!(await gone(5000))) throw stopFailed(orphans[0] ?? 0);
}

async function spawnPostmaster(program: Program, request: StartRequest, port: number): Promise<ChildProcess> {
  const settings = [...SETTINGS, ...(request.durability === 'throwaway' ? THROWAWAY : []), `port=${port}`];
  const child = await launch(program, {
    name: 'postgres',
    args: [
      '-D',
      await dataDirectoryArgument(request.dataDirectory, program.account),
      ...settings.flatMap((setting) => ['-c', setting]),
    ],
    cwd: request.dataDirectory,
    stdio: ['ignore', request.log.fd, request.log.fd],
    detached: true,
  });
  child.unref();
  return child;
}

async function isReady(child: ChildProcess, dataDirectory: string): Promise<boolean> {
  const ready = await pollUntil(START_TIMEOUT_MS, async () => {
    if (child.exitCode !== null || child.signalCode !== null) return false;
    const found = await readPostmasterFile(dataDirectory);
    return found?.pid === child.pid && found?.status === 'ready' ? true : undefined;
  });
  if (ready !== undefined) return ready;
  child.kill('SIGQUIT');
  throw startFailed(`it was not ready within ${START_TIMEOUT_MS / 1000} seconds`, undefined);
}

async function requestStop(
  program: Program,
  dataDirectory: string,
  mode: keyof typeof SHUTDOWN,
): Promise<void> {
  const child = await launch(program, {
    name: 'pg_ctl',
    args: ['stop', '-D', dataDirectory, '-m', mode, '--no-wait'],
    cwd: dataDirectory,
    stdio: 'ignore',
  });
  await new Promise<void>((done) => child.once('exit', () => done()));
}

/** False if the process no longer exists. */
function sendSignal(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch (error) {
    if (hasCode(error, 'ESRCH')) return false;
    if (hasCode(error, 'EPERM')) {
      throw notOurs(`process ${pid}`, -1, process.getuid?.() ?? -1);
    }
    throw error;
  }
}

/** Polls until there is a result; undefined after the timeout. */
export async function pollUntil<T>(
  timeoutMs: number,
  check: () => Promise<T | undefined>,
  intervalMs = 10,
): Promise<T | undefined> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const result = await check();
    if (result !== undefined) return result;
    if (performance.now() >= deadline) return undefined;
    await delay(intervalMs);
  }
}
