// Which values of `env:` are secret: those that came from `${SVC_ENV_…}`. They are redacted from logs and errors.
import { parse } from 'yaml';
import type { Config } from '../../config/config.ts';
import { SHORTEST_SECRET } from '../../lib/secret-mask.ts';

/** Compares with the file's text, because the parsed configuration no longer tells references from literals. */
export function secretValues(config: Config): ReadonlySet<string> {
  const secrets = new Set<string>();
  let written: unknown;
  try {
    written = parse(config.source.text, { merge: true, logLevel: 'silent' });
  } catch {
    // Without parseable text, every value counts as secret.
    written = undefined;
  }
  for (const { name, env } of config.functions) {
    for (const [variable, value] of Object.entries(env)) {
      const text = valueAt(written, 'functions', name, 'env', variable);
      const isLiteral = text !== undefined && !(typeof text === 'string' && text.includes('${'));
      if (!isLiteral && value.length >= SHORTEST_SECRET) secrets.add(value);
    }
  }
  return secrets;
}

function valueAt(value: unknown, ...path: readonly string[]): unknown {
  let current = value;
  for (const key of path) {
    if (typeof current !== 'object' || current === null || !Object.hasOwn(current, key)) return undefined;
    current = Object.getOwnPropertyDescriptor(current, key)?.value;
  }
  return current;
}
