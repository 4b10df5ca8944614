// A running PostgreSQL: starting one, finding one that outlived its svc, stopping either. It has a session of its own,
// so Ctrl-C in the terminal reaches svc alone, which drains its requests first.
import type { ChildProcess } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import pg from 'pg';
import { freePort } from '../lib/free-port.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { must } from '../lib/assert.ts';
import { hasCode } from '../lib/error-code.ts';
import type { LogFile } from './log-file.ts';
import { notOurs, portTaken, problemFromOutput, startFailed, stopFailed } from './problem.ts';
import { postmasterFile, readPostmasterFile, type PostmasterFile } from './postmaster-file.ts';
import { isAlive, isTaken, processesIn, worksIn } from './process-table.ts';
import { launch, nameOf, type Program } from './program.ts';
import { until } from './until.ts';

export type Durability = 'durable' | 'throwaway';

export type Postmaster = { readonly pid: number; readonly port: number };

const PORT_ATTEMPTS = 5;
/** Long enough for crash recovery; a server that is not ready by then is stuck. */
const START_WITHIN_MS = 60_000;
/** PostgreSQL's modes of shutdown. */
const SHUTDOWN = {
  fast: { signal: 'SIGINT', withinMs: 10_000 },
  immediate: { signal: 'SIGQUIT', withinMs: 5_000 },
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
];

const THROWAWAY: readonly string[] = [
  'fsync=off',
  'full_page_writes=off',
  'synchronous_commit=off',
  'autovacuum_naptime=1h',
  // Several test files run at once, each with pools of its own.
  'max_connections=400',
  // CREATE DATABASE from a template is cheap when no checkpoint has to reach the disk.
  'max_wal_size=4GB',
  'checkpoint_timeout=1h',
];

export type StartRequest = {
  readonly dataDirectory: string;
  readonly durability: Durability;
  readonly log: LogFile;
};

export async function startPostmaster(program: Program, request: StartRequest): Promise<Postmaster> {
  let said = '';
  for (let attempt = 0; attempt < PORT_ATTEMPTS; attempt += 1) {
    const port = await freePort();
    const child = await spawnPostmaster(program, request, port);
    if (await isReady(child, request.dataDirectory)) return { pid: must(child.pid, 'process id'), port };
    said = await request.log.tail();
    // Somebody may have taken the port since we found it free.
    if (!/could not bind|Address already in use/.test(said)) throw problemFromOutput(said, request.log.path);
  }
  throw portTaken(PORT_ATTEMPTS, said.trim().split('\n').at(-1) ?? '');
}

/** The server that runs in this data directory, whoever started it. Clears away what a dead one left. */
export async function findPostmaster(dataDirectory: string): Promise<PostmasterFile | undefined> {
  const found = await readPostmasterFile(dataDirectory);
  if (found === undefined) return undefined;
  if (await isAlive(found.pid)) {
    const works = await worksIn(found.pid, dataDirectory);
    // macOS tells the program of a process but not its directory, so there the path in the file has to be ours.
    const samePath = process.platform === 'linux' || resolve(found.dataDirectory) === resolve(dataDirectory);
    if (works !== false && samePath) return found;
  }
  await endOrphans(dataDirectory);
  // Another process has the id now, or nobody reaped the dead server. PostgreSQL takes either for a living server and
  // would refuse to start. Otherwise the file stays: PostgreSQL checks the shared memory that it names.
  if (isTaken(found.pid)) await rm(postmasterFile(dataDirectory), { force: true });
  return undefined;
}

/** Waits while a found server still starts or recovers; undefined when it never gets ready. */
export async function whenReady(dataDirectory: string, pid: number): Promise<PostmasterFile | undefined> {
  const answer = await until(START_WITHIN_MS, async () => {
    if (!(await isAlive(pid))) return 'gone';
    const now = await readPostmasterFile(dataDirectory);
    if (now?.pid !== pid || now.status === 'stopping') return 'gone';
    return now.status === 'ready' ? now : undefined;
  });
  return answer === 'gone' ? undefined : answer;
}

export type ServerAnswer =
  | { readonly kind: 'answers'; readonly version: string; readonly startedAtSeconds: number }
  | { readonly kind: 'refuses-password' }
  | { readonly kind: 'silent'; readonly cause: unknown };

export async function askServer(url: string): Promise<ServerAnswer> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 });
  // Without a listener, a connection that breaks while idle would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<{ version: string; started: string }>(
      `select current_setting('server_version') as version,
              floor(extract(epoch from pg_postmaster_start_time()))::text as started`,
    );
    const row = must(rows[0], 'answer of the server');
    return { kind: 'answers', version: row.version, startedAtSeconds: Number(row.started) };
  } catch (cause) {
    return isDatabaseError(cause, 'invalid_password')
      ? { kind: 'refuses-password' }
      : { kind: 'silent', cause };
  } finally {
    await client.end();
  }
}

/** Fast shutdown (open transactions are rolled back, everything is written), then immediate if that takes too long. */
export async function stopPostmaster(
  program: Program,
  dataDirectory: string,
  pid: number,
  durability: Durability,
): Promise<void> {
  for (const mode of durability === 'durable' ? (['fast', 'immediate'] as const) : (['immediate'] as const)) {
    const { signal, withinMs } = SHUTDOWN[mode];
    if (process.platform === 'win32') await askToStop(program, dataDirectory, mode);
    else if (!send(pid, signal)) return;
    if (await until(withinMs, async () => ((await isAlive(pid)) ? undefined : true))) return;
  }
  throw stopFailed(pid);
}

/** Ends server processes whose postmaster was killed. They end by themselves, unless they are busy. */
async function endOrphans(dataDirectory: string): Promise<void> {
  const gone = async (withinMs: number) =>
    until(withinMs, async () => ((await processesIn(dataDirectory)).length === 0 ? true : undefined), 50);
  if (await gone(1000)) return;
  const left = await processesIn(dataDirectory);
  for (const pid of left) send(pid, 'SIGKILL');
  if (!(await gone(5000))) throw stopFailed(left[0] ?? 0);
}

async function spawnPostmaster(program: Program, request: StartRequest, port: number): Promise<ChildProcess> {
  const settings = [...SETTINGS, ...(request.durability === 'throwaway' ? THROWAWAY : []), `port=${port}`];
  const child = await launch(program, {
    name: 'postgres',
    args: [
      '-D',
      await nameOf(request.dataDirectory, program.account),
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
  const ready = await until(START_WITHIN_MS, async () => {
    if (child.exitCode !== null || child.signalCode !== null) return false;
    const found = await readPostmasterFile(dataDirectory);
    return found?.pid === child.pid && found?.status === 'ready' ? true : undefined;
  });
  if (ready !== undefined) return ready;
  child.kill('SIGQUIT');
  throw startFailed(`it was not ready within ${START_WITHIN_MS / 1000} seconds`, undefined);
}

async function askToStop(
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

/** False when there is no such process any more. */
function send(pid: number, signal: NodeJS.Signals): boolean {
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
