// Inside the shadow schema, `public` is the new one. What only the database has, such as the types and functions of an
// extension in `public`, is found there under the schema's name of the moment.
import { quoteIdent } from '../../postgres/sql.ts';
import { scanSql, type Token } from '../../lib/sql/sql-text.ts';

/**
 * Replaces the schema of names that the shadow does not build. Strings and comments stay as they are.
 * `waiting`: the name that each schema has meanwhile.
 */
export function requalify(
  text: string,
  waiting: ReadonlyMap<string, string>,
  isBuilt: (schema: string, name: string) => boolean,
): string {
  const { tokens, fault } = scanSql(text);
  if (fault !== null) return text;
  const solid = tokens.filter(({ kind }) => kind !== 'space' && kind !== 'comment');
  let result = '';
  let copied = 0;
  solid.forEach((token, index) => {
    const schema = nameOf(token);
    const now = schema === null ? undefined : waiting.get(schema);
    if (schema === null || now === undefined) return;
    if (solid[index - 1]?.text === '.' || solid[index + 1]?.text !== '.') return;
    const name = nameOf(solid[index + 2]);
    const isOperator = solid[index - 1]?.text === '(' && nameOf(solid[index - 2]) === 'operator';
    if (isOperator ? isBuilt(schema, signsFrom(solid, index + 2)) : name === null || isBuilt(schema, name))
      return;
    result += text.slice(copied, token.start) + quoteIdent(now);
    copied = token.start + token.text.length;
  });
  return result + text.slice(copied);
}

/** An operator, sign by sign, up to the bracket behind it. */
function signsFrom(tokens: readonly Token[], index: number): string {
  const end = tokens.findIndex(({ text }, n) => n >= index && text === ')');
  return tokens
    .slice(index, Math.max(index, end))
    .map(({ text }) => text)
    .join('');
}

function nameOf(token: Token | undefined): string | null {
  if (token?.kind === 'word') return token.text.toLowerCase();
  if (token?.kind === 'quoted' && token.text.startsWith('"'))
    return token.text.slice(1, -1).replaceAll('""', '"');
  return null;
}
