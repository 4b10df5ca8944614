// Variables that the file names and this machine does not have, where only their names matter.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Environment } from './environment.ts';

/** The environment, with a stand-in for each unset variable of that name that a local svc.yaml refers to. */
export function withStandIns(config: string | undefined, env: Environment, names: RegExp): Environment {
  let text: string;
  try {
    text = readFileSync(resolve(config ?? 'svc.yaml'), 'utf8');
  } catch {
    // Not there, or not a file: the loader says so better.
    return env;
  }
  const filled: Record<string, string | undefined> = { ...env };
  for (const [, name = ''] of text.matchAll(/\$\{([A-Za-z_]\w*)\}/g)) {
    if (names.test(name)) filled[name] ??= 'set-where-it-runs';
  }
  return filled;
}
