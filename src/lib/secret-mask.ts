// Takes secrets out of text that is shown or logged.
import { inspect } from 'node:util';

/** Shorter values occur in ordinary words. */
export const MIN_SECRET_CHARS = 6;
export const REDACTED = '[redacted]';
/** The product's secret key, and any signed token. */
const CREDENTIAL = /svc_secret_[\w-]+|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}/g;

/** Masks secrets. Each one has its replacement, for example the `${VARIABLE}` that contained it. */
export function secretMask(
  secrets: Iterable<readonly [secret: string, shown: string]>,
): (text: string) => string {
  const shownBySpelling = new Map<string, string>();
  for (const [secret, shown] of secrets) {
    for (const spelling of spellings(secret)) {
      if (spelling.trim().length >= MIN_SECRET_CHARS) shownBySpelling.set(spelling, shown);
    }
  }
  // Longest first, because one secret may contain another.
  const replacements = [...shownBySpelling].sort(([a], [b]) => b.length - a.length);
  return (text) => {
    let clean = text;
    for (const [spelling, shown] of replacements) {
      if (clean.includes(spelling)) clean = clean.replaceAll(spelling, () => shown);
    }
    return clean;
  };
}

/** Hides the given secrets, and also the service's secret keys and signed tokens. */
export function redactor(secrets: Iterable<string>): (text: string) => string {
  const mask = secretMask(Array.from(secrets, (secret) => [secret, REDACTED] as const));
  return (text) => mask(text.replace(CREDENTIAL, REDACTED));
}

/**
 * Returns the forms of a secret inside other text: JSON, Node's `inspect`, an SQL string, a key printed line by line.
 */
function spellings(secret: string): string[] {
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    inspect(secret, { breakLength: Infinity }).slice(1, -1),
    secret.replaceAll("'", "''"),
    ...secret.split(/\r?\n/),
  ];
}
