// An instance of svc on one of the rig's machines.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { machineAddress, RIG, spawnOn, type AppMachine } from './machines.ts';
import { until } from './until.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/svc.js', import.meta.url));
export const PUBLISHABLE_KEY = 'svc_publishable_cluster_rig_0123456789abcdef0123456789abcdef';
export const SECRET_KEY = 'svc_secret_cluster_rig_fedcba9876543210fedcba9876543210';

export type InstanceOptions = {
  readonly machine: AppMachine;
  /** Path of svc.yaml, or another value of `--config`. */
  readonly config: string;
  readonly database: string;
  readonly arguments?: readonly string[];
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly port?: number;
  /** The command. Default: `serve`. */
  readonly command?: readonly string[];
};

export type Instance = {
  readonly machine: AppMachine;
  readonly url: string;
  readonly child: ChildProcess;
  readonly output: () => string;
  /** Status and body of /ready; status 0 without a response. */
  readonly ready: () => Promise<{ status: number; text: string }>;
  readonly whenReady: (limit?: number) => Promise<void>;
  /** Exit code of the process. */
  readonly exit: () => Promise<number | null>;
  readonly stop: (signal?: NodeJS.Signals) => Promise<number | null>;
};

let started = 0;

export function startInstance(options: InstanceOptions): Instance {
  const { machine, port = 8080 } = options;
  const url = `http://${machineAddress(machine)}:${port}`;
  const file = join(RIG, 'log', `svc-${++started}-${machine}.log`);
  // A rig that keeps running has the files of the last run.
  writeFileSync(file, '');
  const command = options.command ?? ['serve', '--config', options.config, '--port', String(port)];
  const child = spawnOn(
    machine,
    [process.execPath, LAUNCHER, ...command, ...(options.arguments ?? ['--migrate'])],
    {
      output: file,
      env: {
        ...withoutOurs(process.env),
        NO_COLOR: '1',
        SVC_DATABASE_URL: options.database,
        SVC_PUBLISHABLE_KEY: PUBLISHABLE_KEY,
        SVC_SECRET_KEY: SECRET_KEY,
        ...options.env,
      },
    },
  );
  const ended = once(child, 'exit');
  const output = (): string => readFileSync(file, 'utf8');
  const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const exit = async (): Promise<number | null> => {
    if (!isOver()) await ended;
    return child.exitCode;
  };
  const ready: Instance['ready'] = async () => {
    const answer = await fetch(`${url}/ready`, { signal: AbortSignal.timeout(3_000) }).catch(() => undefined);
    return { status: answer?.status ?? 0, text: (await answer?.text().catch(() => '')) ?? '' };
  };
  return {
    machine,
    url,
    child,
    output,
    ready,
    exit,
    async whenReady(limit = 120_000) {
      let last = '';
      await until(`svc on ${machine} to be ready`, limit, async () => {
        if (isOver())
          throw new Error(`svc on ${machine} ended with ${child.exitCode}:\n${lastLines(output())}`);
        const { status, text } = await ready();
        last = `${status} ${text}`;
        return status === 200;
      }).catch((error: unknown) => {
        throw new Error(`${(error as Error).message}; last response of /ready: ${last}`);
      });
    },
    async stop(signal = 'SIGTERM') {
      if (!isOver()) child.kill(signal);
      return await exit();
    },
  };
}

export const lastLines = (text: string, count = 12): string =>
  text.trimEnd().split('\n').slice(-count).join('\n');

/** Removes settings of the user who runs the rig, which must not reach the instances. */
const withoutOurs = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(
    Object.entries(env).filter(([name]) => !name.startsWith('SVC_') && !name.startsWith('PG')),
  );
