// While the shadow schema exists, `public` is the shadow, and the real schema has a temporary name. Objects that the
// shadow does not contain, such as types of an extension in `public`, are found under the temporary name.
import { quoteIdent } from '../../../postgres/sql.ts';
import { scanSql, type Token } from '../../../lib/sql/sql-text.ts';

/**
 * Replaces the schema of qualified names that the shadow does not contain. Strings and comments are not changed.
 * `waiting`: temporary name of each schema.
 */
export function requalify(
  text: string,
  waiting: ReadonlyMap<string, string>,
  isBuilt: (schema: string, name: string) => boolean,
): string {
  const { tokens, fault } = scanSql(text);
  if (fault !== null) return text;
  const significant = tokens.filter(({ kind }) => kind !== 'space' && kind !== 'comment');
  let result = '';
  let copied = 0;
  significant.forEach((token, index) => {
    const schema = identifierName(token);
    const now = schema === null ? undefined : waiting.get(schema);
    if (schema === null || now === undefined) return;
    if (significant[index - 1]?.text === '.' || significant[index + 1]?.text !== '.') return;
    const name = identifierName(significant[index + 2]);
    const isOperator =
      significant[index - 1]?.text === '(' && identifierName(significant[index - 2]) === 'operator';
    if (
      isOperator
        ? isBuilt(schema, operatorSymbol(significant, index + 2))
        : name === null || isBuilt(schema, name)
    )
      return;
    result += text.slice(copied, token.start) + quoteIdent(now);
    copied = token.start + token.text.length;
  });
  return result + text.slice(copied);
}

/** Returns the symbol of an operator up to the closing parenthesis. */
function operatorSymbol(tokens: readonly Token[], index: number): string {
  const end = tokens.findIndex(({ text }, n) => n >= index && text === ')');
  return tokens
    .slice(index, Math.max(index, end))
    .map(({ text }) => text)
    .join('');
}

function identifierName(token: Token | undefined): string | null {
  if (token?.kind === 'word') return token.text.toLowerCase();
  if (token?.kind === 'quoted' && token.text.startsWith('"'))
    return token.text.slice(1, -1).replaceAll('""', '"');
  return null;
}
