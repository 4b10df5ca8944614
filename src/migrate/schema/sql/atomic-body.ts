// Bodies that the server reads when the function is made: BEGIN ATOMIC … END, or RETURN. It then knows what they use,
// and lets none of that change. While something does, the function has the same body as text, of which it knows nothing.
import { scanSql, type Token } from '../../../lib/sql/sql-text.ts';

/** As it follows the head of the function. */
export function atomicSql(body: string): string {
  if (isExpression(body)) return body.trim();
  const last = scanSql(body).tokens.findLast(isSolid);
  return `begin atomic\n${body}${last?.text === ';' ? '' : '\n;'}\nend`;
}

/** The same as a body of text. */
export function looseBody(body: string): string {
  let text = '';
  let isFirst = true;
  for (const token of scanSql(body).tokens) {
    const isReturn = isFirst && token.kind === 'word' && token.text.toLowerCase() === 'return';
    text += isReturn ? 'select' : token.text;
    if (isSolid(token)) isFirst = token.text === ';';
  }
  return text;
}

/** The server's print of one, without the words around it. */
export function atomicBody(printed: string): string {
  const block = /^\s*BEGIN ATOMIC\b([^]*)\bEND\s*$/.exec(printed)?.[1];
  return (block ?? printed).trim();
}

/** Why the text cannot be such a body, or null: nothing of it may stand behind the function. */
export function atomicFault(body: string): string | null {
  const { tokens, fault } = scanSql(body);
  if (fault !== null) return fault;
  const solid = tokens.filter(isSolid);
  const ends = solid.some(
    ({ kind, text }, n) =>
      kind === 'word' && text.toLowerCase() === 'end' && (n === 0 || solid[n - 1]?.text === ';'),
  );
  return ends ? 'it is what stands between BEGIN ATOMIC and END, without these' : null;
}

/** A block ends each of its statements with a semicolon, and `return` may be one of them. */
function isExpression(body: string): boolean {
  const solid = scanSql(body).tokens.filter(isSolid);
  return solid[0]?.text.toLowerCase() === 'return' && !solid.some(({ text }) => text === ';');
}

function isSolid({ kind }: Token): boolean {
  return kind !== 'space' && kind !== 'comment';
}
