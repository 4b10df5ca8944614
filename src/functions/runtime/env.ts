// Which values of `env:` are secret. A value that came from `${SVC_ENV_…}` must not appear in a log line or an error,
// whoever prints it.
import { parse } from 'yaml';
import type { Config } from '../../config/config.ts';
import { SHORTEST_SECRET } from '../../lib/secret-mask.ts';

/** Values that the file takes from the environment; the written text tells them from literals. */
export function secretValues(config: Config): ReadonlySet<string> {
  const secrets = new Set<string>();
  let written: unknown;
  try {
    written = parse(config.source.text, { merge: true, logLevel: 'silent' });
  } catch {
    // A configuration that was not made from text (or not any more): every value counts as secret.
    written = undefined;
  }
  for (const { name, env } of config.functions) {
    for (const [variable, value] of Object.entries(env)) {
      const text = at(written, 'functions', name, 'env', variable);
      const isLiteral = text !== undefined && !(typeof text === 'string' && text.includes('${'));
      if (!isLiteral && value.length >= SHORTEST_SECRET) secrets.add(value);
    }
  }
  return secrets;
}

function at(value: unknown, ...path: readonly string[]): unknown {
  let here = value;
  for (const key of path) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, key)) return undefined;
    here = Object.getOwnPropertyDescriptor(here, key)?.value;
  }
  return here;
}
