// Takes secrets out of text that is shown or logged.
import { inspect } from 'node:util';

/** Shorter values occur in ordinary words. */
export const SHORTEST_SECRET = 6;
export const REDACTED = '[redacted]';
/** Our secret key and anything that is a signed token. */
const CREDENTIAL = /svc_secret_[\w-]+|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}/g;

/** Each secret with what is shown in its place, for example the `${VARIABLE}` that it came from. */
export function secretMask(
  secrets: Iterable<readonly [secret: string, shown: string]>,
): (text: string) => string {
  const shownBySpelling = new Map<string, string>();
  for (const [secret, shown] of secrets) {
    for (const spelling of spellings(secret)) {
      if (spelling.trim().length >= SHORTEST_SECRET) shownBySpelling.set(spelling, shown);
    }
  }
  // The longest first: one secret may contain another.
  const replacements = [...shownBySpelling].sort(([a], [b]) => b.length - a.length);
  return (text) => {
    let clean = text;
    for (const [spelling, shown] of replacements) {
      if (clean.includes(spelling)) clean = clean.replaceAll(spelling, () => shown);
    }
    return clean;
  };
}

/** Also hides credentials that nobody named: the service's own secret keys, and signed tokens. */
export function redactor(secrets: Iterable<string>): (text: string) => string {
  const mask = secretMask(Array.from(secrets, (secret) => [secret, REDACTED] as const));
  return (text) => mask(text.replace(CREDENTIAL, REDACTED));
}

/** How a secret is written inside other text: JSON, Node's `inspect`, an SQL string, a key printed line by line. */
function spellings(secret: string): string[] {
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    inspect(secret, { breakLength: Infinity }).slice(1, -1),
    secret.replaceAll("'", "''"),
    ...secret.split(/\r?\n/),
  ];
}
