// Removes string literals from the statements that the dashboard shows. A literal can contain a JSON key of a caller,
// or a password: PostgreSQL keeps the literals of utility statements, and of queries that it parses again after a
// reset.
import { Cache } from '../lib/cache.ts';
import { scanSql } from '../lib/sql/sql-text.ts';

/** Caches results, because scanning is slow and the page requests the same texts repeatedly. */
const cache = new Cache<string, string>(1_000);
const MAYBE_LITERAL = /'|\$\D/;

/** A text that was truncated within a literal ends before it. */
export function redactLiterals(text: string): string {
  if (!MAYBE_LITERAL.test(text)) return text;
  const cached = cache.get(text);
  if (cached !== undefined) return cached;
  const { tokens, fault } = scanSql(text);
  const rest = tokens.map((token) => (token.kind === 'string' ? "'…'" : token.text)).join('');
  const redacted = fault === null ? rest : `${rest}…`;
  cache.set(text, redacted);
  return redacted;
}
