// Texts of policies as the file declares them. The catalog stores a printed form: parentheses around everything,
// casts of literals, and helpers as sub-selects.
import type { Policy } from '../config/config.ts';
import { scanSql, unwrapCallerHelpers } from '../lib/sql/sql-text.ts';

/**
 * Returns the text of the file that is equivalent to the printed condition, or the printed condition without
 * decoration.
 */
export function policyText(printed: string, declared: readonly Policy[]): string {
  const readable = withoutOuterParentheses(unwrapCallerHelpers(printed));
  const target = normalise(readable);
  const texts = declared.flatMap(({ using, withCheck, check }) => [using, withCheck, check]);
  return texts.find((text) => typeof text === 'string' && normalise(text) === target) ?? readable;
}

const BINDING: ReadonlySet<string> = new Set(['and', 'or', 'not', 'is', 'in', '+', '-', '*', '/', '%', '|']);

/** Returns the text without layout differences. Keeps parentheses that can change the binding of operators. */
function normalise(text: string): string {
  const unwrapped = unwrapCallerHelpers(text).replaceAll(/\(\s*select\s+(auth\.\w+\(\))\s*\)/gi, '$1');
  const tokens = scanSql(unwrapped.replaceAll(/::(?:text|character varying)\b/g, ''))
    .tokens.filter(({ kind }) => kind !== 'space' && kind !== 'comment')
    .map(({ kind, text: token }) => (kind === 'word' ? token.toLowerCase() : token));
  const binding = new Set(tokens.filter((token) => BINDING.has(token)));
  return tokens.filter((token) => binding.size > 1 || !'()'.includes(token)).join(' ');
}

function withoutOuterParentheses(text: string): string {
  if (!text.startsWith('(') || !text.endsWith(')')) return text;
  let depth = 0;
  for (let at = 0; at < text.length - 1; at += 1) {
    if (text[at] === '(') depth += 1;
    if (text[at] === ')') depth -= 1;
    if (depth === 0) return text;
  }
  return text.slice(1, -1);
}
