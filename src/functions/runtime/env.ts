// Which values of `env:` are secret: those that came from `${SVC_ENV_…}`. They are redacted from logs and errors.
import { parse } from 'yaml';
import type { Config } from '../../config/config.ts';
import { valueAt } from '../../config/check/validate.ts';
import { MIN_SECRET_CHARS } from '../../lib/secret-mask.ts';

/**
 * Compares with the text of the file, because the parsed configuration does not distinguish references from literals.
 */
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
      const text = valueAt(written, ['functions', name, 'env', variable]);
      const isLiteral = text !== undefined && !(typeof text === 'string' && text.includes('${'));
      if (!isLiteral && value.length >= MIN_SECRET_CHARS) secrets.add(value);
    }
  }
  return secrets;
}
