// A real PgBouncer (a Debian package) in front of the tests' PostgreSQL; without it the tests are skipped
// with a reason.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../../src/lib/free-port.ts';
import { accepts } from '../accepts.ts';

export type PgBouncer = {
  /** The address with its host and port replaced by the pooler's. */
  through(url: string): string;
  stop(): Promise<void>;
};

export type PgBouncerOptions = {
  readonly mode: 'transaction' | 'session' | 'statement';
  /** Connection strings of the roles that connect through it. */
  readonly users: readonly string[];
  readonly poolSize: number;
  /** Ignore the start-up parameter `options` instead of refusing it. */
  readonly ignoresOptions?: boolean;
  /** Minimum version of PgBouncer that tracks prepared statements; 0 turns tracking off. */
  readonly maxPreparedStatements?: number;
  /** More lines of its section `[pgbouncer]`. */
  readonly settings?: readonly string[];
};

const runs = (path: string): boolean => spawnSync(path, ['--version']).status === 0;

const INSTALLED = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', '/opt/homebrew/bin/pgbouncer'].find(runs);

/** Why it is not available; CI sets `required` where it is installed. */
export const withoutPgBouncer: string | undefined =
  INSTALLED === undefined ? 'PgBouncer is not installed (apt-get install pgbouncer)' : undefined;

if (withoutPgBouncer !== undefined && process.env['SVC_TEST_PGBOUNCER'] === 'required') {
  throw new Error(withoutPgBouncer);
}

/** Since 1.21 it tracks prepared statements per session. A distribution's package may be older. */
const TRACKING = [process.env['SVC_TEST_PGBOUNCER_TRACKING'] ?? '', INSTALLED ?? ''].find(
  (path) => path !== '' && runs(path) && readVersion(path) >= 121,
);

/** Reason for a missing PgBouncer that tracks prepared statements. */
export const withoutTracking: string | undefined =
  TRACKING === undefined
    ? 'no PgBouncer here tracks prepared statements: name one of 1.21 or newer in SVC_TEST_PGBOUNCER_TRACKING'
    : undefined;

function readVersion(program: string): number {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
  const [, major = '0', minor = '0'] = /PgBouncer (\d+)\.(\d+)/.exec(stdout) ?? [];
  return Number(major) * 100 + Number(minor);
}

const NOBODY = 65_534;

export async function startPgBouncer(options: PgBouncerOptions): Promise<PgBouncer> {
  const tracks = options.maxPreparedStatements !== undefined;
  const program = tracks ? TRACKING : INSTALLED;
  if (program === undefined) throw new Error(tracks ? withoutTracking : withoutPgBouncer);
  const users = options.users.map((text) => new URL(text));
  const server = users[0];
  if (!server) throw new Error('no user may connect');
  const quoted = (text: string): string => `"${decodeURIComponent(text).replaceAll('"', '""')}"`;
  return await run(program, {
    users: users.map(({ username, password }) => `${quoted(username)} ${quoted(password)}\n`).join(''),
    ini: ({ port, userFile }) => `[databases]
* = host=${server.hostname} port=${server.port || '5432'}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${userFile}
pool_mode = ${options.mode}
default_pool_size = ${options.poolSize}
max_client_conn = 500
${options.ignoresOptions === true ? 'ignore_startup_parameters = options' : ''}
${tracks ? `max_prepared_statements = ${options.maxPreparedStatements}` : ''}
${(options.settings ?? []).join('\n')}
`,
  });
}

export type PgBouncerFiles = {
  readonly users: string;
  ini(at: { readonly port: number; readonly userFile: string }): string;
};

/** Starts the installed PgBouncer with separate files. */
export async function startPgBouncerWith(files: PgBouncerFiles): Promise<PgBouncer> {
  if (INSTALLED === undefined) throw new Error(withoutPgBouncer);
  return await run(INSTALLED, files);
}

async function run(program: string, files: PgBouncerFiles): Promise<PgBouncer> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-pgbouncer-'));
  const port = await freePort();
  const userFile = join(folder, 'userlist.txt');
  writeFileSync(userFile, files.users);
  writeFileSync(join(folder, 'pgbouncer.ini'), files.ini({ port, userFile }));
  chmodSync(folder, 0o755);
  // It refuses to run as root.
  const isRoot = process.getuid?.() === 0;
  const child = spawn(program, [join(folder, 'pgbouncer.ini')], {
    stdio: ['ignore', 'ignore', 'pipe'],
    ...(isRoot ? { uid: NOBODY, gid: NOBODY } : {}),
  });
  let output = '';
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  while (!(await accepts(port))) {
    if (child.exitCode !== null) throw new Error(`PgBouncer ended:\n${output}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return {
    through(url) {
      const address = new URL(url);
      address.host = `127.0.0.1:${port}`;
      return address.href;
    },
    async stop() {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
