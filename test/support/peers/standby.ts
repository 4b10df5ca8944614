// A streaming replica of a server of this machine: its files are copied while it runs, as pg_basebackup does.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, stat, writeFile, chown, chmod } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { readCommand, type ServerCommand } from './server-command.ts';
import { freePort } from '../../../src/lib/free-port.ts';
import { scaled } from '../run/scaled.ts';

export type Standby = {
  /** The superuser's connection string. */
  readonly url: string;
  /** Runs statements as the superuser, on a new connection. */
  query(text: string): Promise<Array<Record<string, string>>>;
  /** Delay of the replay, in milliseconds. */
  delay(ms: number): Promise<void>;
  /** Stops replaying, until `resume`. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Kills all its processes. */
  kill(): Promise<void>;
  stop(): Promise<void>;
};

/** Copies the server at `primaryUrl`, a superuser's address. */
export async function startStandby(primaryUrl: string): Promise<Standby> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-standby-'));
  await chmod(folder, 0o755);
  const data = join(folder, 'data');
  const { command, uid, gid } = await copyServer(primaryUrl, data);
  const port = await freePort();
  const { hostname, port: primaryPort, username, password } = new URL(primaryUrl);
  const conninfo =
    `host=${hostname} port=${primaryPort} user=${username} password=${decodeURIComponent(password)} ` +
    'application_name=standby';
  const child = spawn(
    command.program,
    [...command.settings, '-D', '.', '-c', `port=${port}`, '-c', `primary_conninfo=${conninfo}`],
    {
      cwd: data,
      env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' },
      stdio: ['ignore', 'ignore', 'pipe'],
      ...(process.getuid?.() === 0 ? { uid, gid } : {}),
    },
  );
  let said = '';
  child.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()));
  const ended = once(child, 'exit');
  const address = new URL(primaryUrl);
  address.port = String(port);
  const url = address.href;
  const query = async (text: string): Promise<Array<Record<string, string>>> => {
    const client = new pg.Client({ connectionString: url });
    client.on('error', () => {});
    await client.connect();
    try {
      return (await client.query<Record<string, string>>(text)).rows;
    } finally {
      await client.end();
    }
  };
  await until(
    async () => {
      if (child.exitCode !== null) throw new Error(`the standby ended:\n${said}`);
      return await query('select pg_is_in_recovery()').then(
        () => true,
        () => false,
      );
    },
    () => `a standby that answers:\n${said}`,
  );
  const alter = async (setting: string): Promise<void> => {
    await query(`alter system set ${setting}`);
    await query('select pg_reload_conf()');
  };
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    await ended;
  };
  return {
    url,
    query,
    delay: (ms) => alter(`recovery_min_apply_delay = '${ms}ms'`),
    async pause() {
      await query('select pg_wal_replay_pause()');
      await until(async () => {
        const [row] = await query('select pg_get_wal_replay_pause_state() as state');
        return row?.['state'] === 'paused';
      });
    },
    async resume() {
      await query('select pg_wal_replay_resume()');
    },
    kill: () => end('SIGQUIT'),
    async stop() {
      await end('SIGQUIT');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function copyServer(
  primaryUrl: string,
  to: string,
): Promise<{ command: ServerCommand; uid: number; gid: number }> {
  const client = new pg.Client({ connectionString: primaryUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ data_directory: string }>('show data_directory');
    const from = rows[0]?.data_directory ?? '';
    await client.query(`select pg_backup_start('standby', true)`);
    // A file that disappears during the copy is written again from the log.
    await promisify(execFile)('cp', ['-a', from, to]).catch(() => {});
    const stopped = await client.query<{ labelfile: string }>('select labelfile from pg_backup_stop(false)');
    const command = await readCommand(from);
    await rm(join(to, 'postmaster.pid'), { force: true });
    const { uid, gid } = await stat(from);
    for (const [name, text] of [
      ['backup_label', stopped.rows[0]?.labelfile ?? ''],
      ['standby.signal', ''],
    ] as const) {
      await writeFile(join(to, name), text);
      await chown(join(to, name), uid, gid);
    }
    return { command, uid, gid };
  } finally {
    await client.end();
  }
}

async function until(
  isSo: () => Promise<boolean>,
  what = (): string => 'a standby that stops replaying',
): Promise<void> {
  const deadline = Date.now() + scaled(60_000);
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`timed out: ${what()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
