// A generation: one version of the code and declarations, served by one set of workers.
import { availableParallelism } from 'node:os';
import type { CodeFunction, Config } from '../config/config.ts';
import { Problem } from '../problem/problem.ts';
import { secretValues } from './runtime/env.ts';
import { fingerprint } from './sources/dev-sources.ts';
import type { Environment } from './sources/install.ts';

const MAX_WORKERS = 4;
const DEFAULT_MEMORY_MB = 512;

/** `envJson` is encoded once, because `env` is sent with every request. */
export type ServedFunction = { readonly fn: CodeFunction; readonly envJson: string };

export type Generation = {
  readonly functions: ReadonlyMap<string, ServedFunction>;
  /** Values to redact from logs and errors. */
  readonly secrets: readonly string[];
  /** Two generations with the same key can share workers. */
  readonly key: string;
};

export const NO_FUNCTIONS: Generation = { functions: new Map(), secrets: [], key: '' };

/** Per-request settings (env, timeout, auth_required) are not in the key: changing them needs no new workers. */
export async function readGeneration(config: Config, root: string): Promise<Generation> {
  const { functions } = config;
  const secrets = [...secretValues(config)].sort();
  const files = functions.map(({ name, file }) => ({ name, file }));
  return {
    functions: new Map(functions.map((fn) => [fn.name, { fn, envJson: JSON.stringify(fn.env) }])),
    secrets,
    key: JSON.stringify([root, files, secrets, await fingerprint(root, functions)]),
  };
}

/** Returns the value of SVC_FUNCTIONS_WORKERS, by default and at most min(4, CPUs). */
export function workersFrom(env: Environment): number {
  const max = Math.min(MAX_WORKERS, availableParallelism());
  const hint = 'It must be a whole number, 1 or more.';
  return Math.min(wholeNumber(env, 'SVC_FUNCTIONS_WORKERS', 1, 'bad_workers', hint) ?? max, max);
}

/** JavaScript heap limit of one worker, in megabytes. */
export function memoryFrom(env: Environment): number {
  const hint = 'It must be a whole number of megabytes, 32 or more.';
  return wholeNumber(env, 'SVC_FUNCTIONS_MEMORY_MB', 32, 'bad_memory', hint) ?? DEFAULT_MEMORY_MB;
}

function wholeNumber(
  env: Environment,
  name: string,
  min: number,
  code: string,
  hint: string,
): number | undefined {
  const text = env[name];
  if (!text) return undefined;
  const value = Number(text);
  if (Number.isInteger(value) && value >= min) return value;
  throw new Problem(code, 500, `${name} is ${JSON.stringify(text)}`, { hint });
}
