// Atomic bodies: BEGIN ATOMIC … END, or RETURN. The server parses them on creation, records their dependencies and
// rejects changes of these objects. During such a change, the function has the same body as a string, which has no
// dependencies.
import { scanSql, type Token } from '../../../lib/sql/sql-text.ts';

/** Returns the body as SQL that follows the head of the function. */
export function atomicSql(body: string): string {
  if (isExpression(body)) return body.trim();
  const last = scanSql(body).tokens.findLast(isSolid);
  return `begin atomic\n${body}${last?.text === ';' ? '' : '\n;'}\nend`;
}

/** Returns the same body for a function whose body is a string. */
export function textBody(body: string): string {
  let text = '';
  let isFirst = true;
  for (const token of scanSql(body).tokens) {
    const isReturn = isFirst && token.kind === 'word' && token.text.toLowerCase() === 'return';
    text += isReturn ? 'select' : token.text;
    if (isSolid(token)) isFirst = token.text === ';';
  }
  return text;
}

/** Returns the body from the printed form, without BEGIN ATOMIC and END. */
export function atomicBody(printed: string): string {
  const block = /^\s*BEGIN ATOMIC\b([^]*)\bEND\s*$/.exec(printed)?.[1];
  return (block ?? printed).trim();
}

/**
 * Returns why the text cannot be an atomic body, or null. An END in the text would run the rest as further statements.
 */
export function atomicFault(body: string): string | null {
  const { tokens, fault } = scanSql(body);
  if (fault !== null) return fault;
  const solid = tokens.filter(isSolid);
  const ends = solid.some(
    ({ kind, text }, n) =>
      kind === 'word' && text.toLowerCase() === 'end' && (n === 0 || solid[n - 1]?.text === ';'),
  );
  return ends ? 'write only the statements between BEGIN ATOMIC and END, without these words' : null;
}

/** Returns whether the body is a single RETURN. In a block, RETURN is a statement that ends with a semicolon. */
function isExpression(body: string): boolean {
  const solid = scanSql(body).tokens.filter(isSolid);
  return solid[0]?.text.toLowerCase() === 'return' && !solid.some(({ text }) => text === ';');
}

function isSolid({ kind }: Token): boolean {
  return kind !== 'space' && kind !== 'comment';
}
