// Restarts a server of this machine with other settings.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { readCommand } from './server-command.ts';
import { scaled } from '../run/scaled.ts';

/**
 * Kills the server at `url`, a superuser's address, and starts it with these settings in addition to its
 * own.
 */
export async function restartServer(
  url: string,
  settings: readonly string[],
): Promise<{ stop(): Promise<void> }> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  const { rows } = await client.query<{ data_directory: string }>('show data_directory');
  await client.end();
  const data = rows[0]?.data_directory ?? '';
  const { program, words } = await readCommand(data);
  const pid = Number((await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n', 1)[0]);
  const { uid, gid } = await stat(data);
  process.kill(pid, 'SIGINT');
  await until(async () => !(await exists(join(data, 'postmaster.pid'))));
  const child = spawn(program, [...words, ...settings.flatMap((setting) => ['-c', setting])], {
    cwd: data,
    env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' },
    stdio: 'ignore',
    ...(process.getuid?.() === 0 ? { uid, gid } : {}),
  });
  const ended = once(child, 'exit');
  await until(async () => {
    if (child.exitCode !== null) throw new Error('the server ended');
    const again = new pg.Client({ connectionString: url });
    again.on('error', () => {});
    return await again.connect().then(
      async () => {
        await again.end();
        return true;
      },
      () => false,
    );
  });
  return {
    async stop() {
      child.kill('SIGQUIT');
      await ended;
    },
  };
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  );
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + scaled(60_000);
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error('the server does not start again');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
