// Starts a worker process: its environment, Node flags and four streams.
import { spawn, type ChildProcess } from 'node:child_process';
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { ownModule } from '../../lib/package-files.ts';

/** Variables that Node itself reads at startup; the worker deletes all but TZ before any handler runs. */
const INHERITED = [
  'TZ',
  'LANG',
  'LC_ALL',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'SystemRoot',
];

const WORKER_FILE = ownModule('functions/worker/main');

export type SpawnOptions = {
  readonly runtime: string;
  readonly memoryMb: number;
  /** Working directory of the worker. */
  readonly root: string;
  readonly env: Readonly<Record<string, string | undefined>>;
};

/** The fourth stream, descriptor 3, carries the frames. */
export function spawnWorker({ runtime, memoryMb, root, env: given }: SpawnOptions): ChildProcess {
  const env: Record<string, string> = {};
  for (const name of INHERITED) {
    const value = given[name];
    if (value !== undefined) env[name] = value;
  }
  // Sharing the server's compile cache cuts a worker's start to about a third.
  const cache = getCompileCacheDir();
  if (cache !== undefined) env['NODE_COMPILE_CACHE'] = dirname(cache);
  return spawn(
    runtime,
    [
      `--max-old-space-size=${memoryMb}`,
      '--enable-source-maps',
      '--disable-warning=ExperimentalWarning',
      ...typescriptFlags(),
      WORKER_FILE,
    ],
    {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      // Its own process group: Ctrl-C must reach only the server, which drains before it stops the workers.
      detached: process.platform !== 'win32',
      windowsHide: true,
    },
  );
}

/** Early releases of Node 22 strip types only with this flag. */
function typescriptFlags(): string[] {
  if (process.features.typescript) return [];
  const flag = '--experimental-strip-types';
  return process.allowedNodeEnvironmentFlags.has(flag) ? [flag] : [];
}
