// The text of a statement as it is shown. Strings can stand in it: a key of JSON that a caller asked for, and whatever
// PostgreSQL keeps in what is no query (a password is one) or in a query that it met anew after a reset.
import { Cache } from '../lib/cache.ts';
import { scanSql } from '../lib/sql/sql-text.ts';

/** Reading a text as tokens takes its time; the page asks for the same ones again and again. */
const shown = new Cache<string, string>(1_000);
const MAY_HAVE_STRINGS = /'|\$\D/;

/** A text that was cut within a string ends before it. */
export function withoutStrings(text: string): string {
  if (!MAY_HAVE_STRINGS.test(text)) return text;
  const known = shown.get(text);
  if (known !== undefined) return known;
  const { tokens, fault } = scanSql(text);
  const rest = tokens.map((token) => (token.kind === 'string' ? "'…'" : token.text)).join('');
  const made = fault === null ? rest : `${rest}…`;
  shown.set(text, made);
  return made;
}
