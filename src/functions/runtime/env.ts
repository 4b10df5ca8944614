// Values of `env:` and what must be hidden of them. A value that came from `${SVC_ENV_…}` is a secret: it is put
// into no log line and no error, whoever prints it.
import { inspect } from 'node:util';
import { parse } from 'yaml';
import type { Config } from '../../config/config.ts';

/** Shorter values would turn ordinary words into `[redacted]`. */
const SHORTEST_SECRET = 6;
const SHORTEST_LINE = 8;
const CENSORED = '[redacted]';
/** Our secret key and anything that is a signed token. */
const CREDENTIAL = /svc_secret_[\w-]+|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}/g;

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

export function redactor(secrets: Iterable<string>): (text: string) => string {
  const forms = new Set<string>();
  for (const secret of secrets) {
    forms.add(secret);
    // As JSON and as Node's inspect write it inside something larger.
    forms.add(JSON.stringify(secret).slice(1, -1));
    forms.add(inspect(secret, { breakLength: Infinity }).slice(1, -1));
    // A private key is printed line by line, with whatever indentation.
    for (const line of secret.split(/\r?\n/)) if (line.length >= SHORTEST_LINE) forms.add(line);
  }
  // The longest first: one secret may contain another.
  const needles = [...forms].sort((a, b) => b.length - a.length);
  return (text) => {
    let clean = text.replace(CREDENTIAL, CENSORED);
    for (const needle of needles) if (clean.includes(needle)) clean = clean.replaceAll(needle, CENSORED);
    return clean;
  };
}

function at(value: unknown, ...path: readonly string[]): unknown {
  let here = value;
  for (const key of path) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, key)) return undefined;
    here = Object.getOwnPropertyDescriptor(here, key)?.value;
  }
  return here;
}
