// Splits SQL text into tokens: enough to check that an expression stays inside its parentheses, to find names in it,
// and to wrap the caller helpers. The server interprets its meaning.

export type Token = {
  readonly kind: 'word' | 'quoted' | 'string' | 'number' | 'comment' | 'space' | 'symbol';
  readonly text: string;
  readonly start: number;
};

type Scan = { readonly tokens: readonly Token[]; readonly fault: string | null };

const PATTERNS: ReadonlyArray<readonly [Token['kind'], RegExp]> = [
  ['space', /\s+/y],
  ['comment', /--[^\n]*/y],
  ['string', /[eE]'(?:[^'\\]|\\[\s\S]|'')*'/y],
  ['string', /(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*'/y],
  ['quoted', /(?:[uU]&)?"(?:[^"]|"")*"/y],
  ['word', /[\p{L}_][\p{L}\p{N}_$]*/uy],
  ['number', /\d[\w.]*|\.\d\w*/y],
];

export function scanSql(text: string): Scan {
  const tokens: Token[] = [];
  let at = 0;
  while (at < text.length) {
    const token = readToken(text, at);
    if (typeof token === 'string') return { tokens, fault: token };
    tokens.push(token);
    at += token.text.length;
  }
  return { tokens, fault: null };
}

function readToken(text: string, at: number): Token | string {
  if (text.startsWith('/*', at)) return readBlockComment(text, at);
  if (text[at] === '$') {
    const quoted = readDollarQuote(text, at);
    if (quoted !== null) return quoted;
  }
  for (const [kind, pattern] of PATTERNS) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match) return { kind, text: match[0], start: at };
  }
  if (text[at] === "'") return 'a string is not closed';
  if (text[at] === '"') return 'a quoted name is not closed';
  return { kind: 'symbol', text: text[at] ?? '', start: at };
}

// Block comments nest in PostgreSQL, unlike in most languages.
function readBlockComment(text: string, at: number): Token | string {
  let depth = 0;
  for (let index = at; index < text.length - 1; index += 1) {
    if (text.startsWith('/*', index)) {
      depth += 1;
      index += 1;
    } else if (text.startsWith('*/', index)) {
      depth -= 1;
      index += 1;
      if (depth === 0) return { kind: 'comment', text: text.slice(at, index + 1), start: at };
    }
  }
  return 'a comment is not closed';
}

const DOLLAR_TAG = /\$(?:[\p{L}_][\p{L}\p{N}_]*)?\$/uy;

function readDollarQuote(text: string, at: number): Token | string | null {
  DOLLAR_TAG.lastIndex = at;
  const tag = DOLLAR_TAG.exec(text)?.[0];
  if (tag === undefined) return null;
  const end = text.indexOf(tag, at + tag.length);
  if (end === -1) return 'a dollar-quoted string is not closed';
  return { kind: 'string', text: text.slice(at, end + tag.length), start: at };
}

/** Returns the reason why this text cannot be an expression (or type) inside parentheses, or null. */
export function expressionFault(text: string): string | null {
  const { tokens, fault } = scanSql(text);
  if (fault !== null) return fault;
  if (text.includes('\0')) return 'it contains a NUL character';
  let depth = 0;
  for (const token of tokens) {
    if (token.kind !== 'symbol') continue;
    if (token.text === ';') return 'it must be one expression, without a semicolon';
    if (token.text === '(') depth += 1;
    if (token.text === ')') depth -= 1;
    if (depth < 0) return 'a closing parenthesis has no opening one';
  }
  if (depth > 0) return 'a parenthesis is not closed';
  if (!tokens.some(isMeaningful)) return 'it is empty';
  return null;
}

export type QualifiedName = {
  readonly schema: string;
  readonly name: string;
  /** A parenthesis follows: a function. Otherwise, a word such as FROM precedes: a table. */
  readonly isCall: boolean;
};

/** Words before the name of a table. */
export const WORDS_BEFORE_TABLES: ReadonlySet<string> = new Set([
  'from',
  'join',
  'into',
  'only',
  'table',
  'update',
  'using',
]);

/** Returns functions and tables that the text names with their schema. */
export function qualifiedNames(text: string): QualifiedName[] {
  const tokens = scanSql(text).tokens.filter(({ kind }) => kind !== 'comment' && kind !== 'space');
  return tokens.flatMap((token, index): QualifiedName[] => {
    const schema = readName(tokens[index - 2]);
    const name = readName(token);
    if (tokens[index - 1]?.text !== '.' || schema === null || name === null) return [];
    const isCall = tokens[index + 1]?.text === '(';
    const isTable = WORDS_BEFORE_TABLES.has(tokens[index - 3]?.text.toLowerCase() ?? '');
    if (!isCall && !isTable) return [];
    // `insert into audit.log (…)`
    return [{ schema, name, isCall: isCall && !isTable }];
  });
}

/** A name as the server folds it; null for anything else. */
function readName(token: Token | undefined): string | null {
  if (token?.kind === 'word') return token.text.toLowerCase();
  return token?.kind === 'quoted' ? token.text.slice(1, -1).replaceAll('""', '"') : null;
}

/** Returns the names and words of the text in lower case, as the server folds them, to find possible dependencies. */
export function sqlWords(text: string): Set<string> {
  const words = new Set<string>();
  for (const token of scanSql(text).tokens) {
    if (token.kind === 'word') words.add(token.text.toLowerCase());
    if (token.kind === 'quoted') words.add(token.text.slice(1, -1).replaceAll('""', '"'));
    // SQL in a string (EXECUTE in plpgsql) names things as well.
    if (token.kind === 'string')
      for (const word of token.text.match(/[\p{L}_][\p{L}\p{N}_$]*/gu) ?? []) words.add(word);
  }
  return words;
}

/** Whether this expression certainly has a sub-select. */
export function holdsSubSelect(text: string): boolean {
  const solid = solidTokens(text);
  return solid.some((token, index) => token.text === '(' && tokenWord(solid[index + 1]) === 'select');
}

/**
 * Returns the relations that sub-selects read, each as the parts of its name, or null if it cannot be parsed. The
 * result can contain too many relations, but never too few.
 */
export function relationsIn(text: string): (readonly string[] | null)[] {
  if (!/select|table/i.test(text)) return [];
  const solid = solidTokens(text);
  return fromItems(solid).flatMap((at) => {
    const first = solid[at];
    if (first?.kind !== 'word' && first?.kind !== 'quoted') return [];
    const parts: (string | null)[] = [tokenName(first)];
    let next = at + 1;
    for (; solid[next]?.text === '.'; next += 2) parts.push(tokenName(solid[next + 1]));
    if (solid[next]?.text === '(') return [];
    return [parts.every((part) => part !== null) ? parts : null];
  });
}

function tokenName(token: Token | undefined): string | null {
  if (token?.kind === 'word') return token.text.toLowerCase();
  // With U& in front, the name is spelled with escapes.
  if (token?.kind === 'quoted' && token.text.startsWith('"'))
    return token.text.slice(1, -1).replaceAll('""', '"');
  return null;
}

function solidTokens(text: string): Token[] {
  return scanSql(text).tokens.filter(isMeaningful);
}

function tokenWord(token: Token | undefined): string | null {
  return token?.kind === 'word' ? token.text.toLowerCase() : null;
}

const ENDS_FROM = new Set(
  'select values where group having order limit offset fetch for window union intersect except with'.split(
    ' ',
  ),
);
/** Calls with a FROM between their arguments. */
const WITH_FROM_INSIDE = new Set(['extract', 'substring', 'trim', 'overlay', 'position']);

type Level = { inFrom: boolean; awaits: boolean; readonly isCall: boolean };

/** The numbers of the tokens with which the items of FROM begin. */
function fromItems(solid: readonly Token[]): number[] {
  const items: number[] = [];
  const levels: Level[] = [];
  let level: Level = { inFrom: false, awaits: false, isCall: false };
  solid.forEach((token, index) => {
    const word = tokenWord(token);
    const isKey = solid[index - 1]?.text !== '.';
    if (token.text === '(') {
      levels.push(level);
      const { awaits } = level;
      level.awaits = false;
      const isCall = WITH_FROM_INSIDE.has(tokenWord(solid[index - 1]) ?? '');
      level = { inFrom: awaits, awaits, isCall };
    } else if (token.text === ')') {
      level = levels.pop() ?? { inFrom: false, awaits: false, isCall: false };
    } else if (token.text === ',' && level.inFrom) {
      level.awaits = true;
    } else if (isKey && word === 'from' && !level.isCall && !isDistinctFrom(solid, index)) {
      level.inFrom = true;
      level.awaits = true;
    } else if (isKey && (word === 'join' || word === 'table')) {
      level.inFrom ||= word === 'join';
      level.awaits = true;
    } else if (isKey && word !== null && ENDS_FROM.has(word)) {
      level.inFrom = false;
      level.awaits = false;
    } else if (level.awaits && word !== 'only' && word !== 'lateral') {
      items.push(index);
      level.awaits = false;
    }
  });
  return items;
}

function isDistinctFrom(solid: readonly Token[], index: number): boolean {
  if (tokenWord(solid[index - 1]) !== 'distinct') return false;
  const before = tokenWord(solid[index - 2]);
  return before === 'is' || (before === 'not' && tokenWord(solid[index - 3]) === 'is');
}

const PER_STATEMENT = /^auth\.(?:uid|is_authenticated|is_anonymous|role|jwt|email)\(\)$/i;

/**
 * Replaces `auth.uid()` by `(select auth.uid())`, which PostgreSQL evaluates once per statement instead of once per
 * row. A call right after `select`, or in a FROM clause, stays unchanged.
 */
export function wrapCallerHelpers(text: string): string {
  const { tokens, fault } = scanSql(text);
  if (fault !== null) return text;
  const solid = tokens.filter(isMeaningful);
  const read = new Set(fromItems(solid));
  let result = '';
  let copied = 0;
  for (let index = 0; index + 4 < solid.length; index += 1) {
    const call = solid.slice(index, index + 5);
    const [first, , , , last] = call;
    if (!first || !last) break;
    const before = solid[index - 1]?.text.toLowerCase();
    if (read.has(index) || before === 'select' || before === '.') continue;
    if (!PER_STATEMENT.test(call.map((token) => token.text).join(''))) continue;
    const end = last.start + 1;
    result += `${text.slice(copied, first.start)}(select ${text.slice(first.start, end)})`;
    copied = end;
  }
  return result + text.slice(copied);
}

/** A call that needs no search path. */
export function isConstantTime(text: string): boolean {
  return /^\s*(?:now\(\)|current_date)\s*$/i.test(text);
}

/** The reverse, on the server's printed form, for text that a person will read. */
export function unwrapCallerHelpers(text: string): string {
  return text.replace(/(?<!\b(?:FROM|JOIN|LATERAL) )\( ?SELECT (auth\.(\w+)\(\)) AS \2\)/g, '$1');
}

function isMeaningful(token: Token): boolean {
  return token.kind !== 'space' && token.kind !== 'comment';
}
