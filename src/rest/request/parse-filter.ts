// Parses filters: `operator.value` with its modifiers, lists of values, and logic trees. Each value becomes a slot,
// which is the only way for a caller's value to reach SQL.
import { tooDeep } from '../problem.ts';
import { COMPARE, IS, isOperator, SEARCH, type IsValue } from './operators.ts';
import type { Condition, Filter, Group, Operation, Slot } from './query.ts';
import { Scanner } from './scanner.ts';

/** Collects values. `addValue` returns the slot. */
export type Values = { addValue(value: string): Slot };

/** How a value ends: at the end of the parameter, or at a comma or parenthesis inside a logic tree. */
type Context = 'whole' | 'term';

const MAX_LOGIC_DEPTH = 64;

const QUANTIFIABLE = new Set(['eq', 'gte', 'gt', 'lte', 'lt', 'like', 'ilike', 'match', 'imatch']);
const HAVING_OPERATORS = new Set([
  'eq',
  'neq',
  'gt',
  'gte',
  'lt',
  'lte',
  'in',
  'is',
  'isdistinct',
  'like',
  'ilike',
]);

const WORD = /[a-z]+/y;
const QUANTIFIER = /\((any|all)\)/y;

/** `[not.]operator.value`, the right side of a column filter. */
export function parseOperation(
  scanner: Scanner,
  values: Values,
  context: Context = 'whole',
): Omit<Filter, 'path' | 'kind'> {
  const negated = scanner.eat('not.');
  return { negated, operation: operation(scanner, values, context) };
}

function operation(scanner: Scanner, values: Values, context: Context): Operation {
  const start = scanner.at;
  WORD.lastIndex = start;
  const word = WORD.exec(scanner.text)?.[0] ?? '';
  scanner.at += word.length;

  if (isOperator(COMPARE, word)) {
    let quantifier: 'any' | 'all' | undefined;
    if (scanner.char === '(' && QUANTIFIABLE.has(word)) {
      QUANTIFIER.lastIndex = scanner.at;
      const match = QUANTIFIER.exec(scanner.text);
      if (!match) scanner.fail('"(any)" or "(all)"');
      quantifier = match[1] === 'any' ? 'any' : 'all';
      scanner.at += match[0].length;
    }
    scanner.expect('.');
    const text = value(scanner, context);
    const pattern = word === 'like' || word === 'ilike';
    return {
      kind: 'compare',
      operator: word,
      quantifier,
      slot: values.addValue(pattern ? text.replaceAll('*', '%') : text),
    };
  }

  if (isOperator(SEARCH, word)) {
    let language: string | undefined;
    if (scanner.eat('(')) {
      language = scanner.type();
      scanner.expect(')');
    }
    scanner.expect('.');
    return { kind: 'search', operator: word, language, slot: values.addValue(value(scanner, context)) };
  }

  if (word === 'in' && scanner.eat('.')) return { kind: 'in', slot: values.addValue(list(scanner, context)) };
  if (word === 'is' && scanner.eat('.')) return { kind: 'is', value: isValue(scanner) };
  scanner.at = start;
  return scanner.fail('operator (eq, gt, ...)');
}

function isValue(scanner: Scanner): IsValue {
  const match = /[A-Za-z_]+/y;
  match.lastIndex = scanner.at;
  const word = match.exec(scanner.text)?.[0] ?? '';
  const folded = word.toLowerCase();
  if (!isOperator(IS, folded)) scanner.fail('null, not_null, true, false or unknown');
  scanner.at += word.length;
  return folded;
}

function value(scanner: Scanner, context: Context): string {
  const start = scanner.at;
  if (context === 'whole') {
    scanner.at = scanner.text.length;
    scanner.hole(start);
    return scanner.text.slice(start);
  }
  const text = quotedValue(scanner) ?? bracedValue(scanner) ?? bareValue(scanner);
  scanner.hole(start);
  return text;
}

/** Reads a quoted value. It must extend to the end of its element; otherwise the quote is an ordinary character. */
function quotedValue(scanner: Scanner): string | undefined {
  if (scanner.char !== '"') return undefined;
  const { text } = scanner;
  let value = '';
  for (let at = scanner.at + 1; at < text.length; at++) {
    const char = text.charAt(at);
    if (char === '\\' && at + 1 < text.length) {
      value += text.charAt(++at);
      continue;
    }
    if (char !== '"') {
      value += char;
      continue;
    }
    const next = text.charAt(at + 1);
    if (next !== '' && next !== ',' && next !== ')') return undefined;
    scanner.at = at + 1;
    return value;
  }
  return undefined;
}

const BRACED = /\{[^{}]*\}/y;

/** Reads `{…}` of one level: an array literal can contain commas without quotes. */
function bracedValue(scanner: Scanner): string | undefined {
  if (scanner.char !== '{') return undefined;
  BRACED.lastIndex = scanner.at;
  const braced = BRACED.exec(scanner.text)?.[0];
  if (braced === undefined) return undefined;
  const next = scanner.text.charAt(scanner.at + braced.length);
  if (next !== '' && next !== ',' && next !== ')') return undefined;
  scanner.at += braced.length;
  return braced;
}

function bareValue(scanner: Scanner): string {
  const { text } = scanner;
  const start = scanner.at;
  let at = start;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === 44 || code === 41) break;
    at++;
  }
  scanner.at = at;
  return text.slice(start, at);
}

/** `(a,"b c",d)` as the text of a PostgreSQL array. */
function list(scanner: Scanner, context: Context): string {
  const start = scanner.at;
  scanner.skipBlanks();
  scanner.expect('(');
  scanner.skipBlanks();
  const elements: string[] = [];
  if (scanner.char !== ')') {
    do {
      elements.push(arrayElement(quotedValue(scanner) ?? bareValue(scanner)));
    } while (scanner.eat(','));
  }
  scanner.expect(')');
  const end = scanner.at;
  scanner.skipBlanks();
  if (context === 'whole') scanner.expectEnd();
  scanner.at = end;
  scanner.hole(start);
  scanner.skipBlanks();
  return `{${elements.join(',')}}`;
}

function arrayElement(text: string): string {
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}

/** `(a.eq.1,or(b.gt.2,c.is.null))`, the value of `and`, `or` and their negations. */
export function parseGroup(
  text: string,
  joiner: Group['joiner'],
  negated: boolean,
  values: Values,
): { group: Group; shape: string } {
  const scanner = new Scanner(text, 'logic tree');
  const terms = groupTerms(scanner, values, 1);
  // Hand-written clients often send one parenthesis too many.
  while (scanner.char === ')' || scanner.char === ' ') scanner.at++;
  scanner.expectEnd();
  return { group: { kind: 'group', negated, joiner, terms }, shape: scanner.shape() };
}

function groupTerms(scanner: Scanner, values: Values, depth: number): Condition[] {
  if (depth > MAX_LOGIC_DEPTH) throw tooDeep(`logic may nest ${MAX_LOGIC_DEPTH} levels deep`);
  scanner.skipBlanks();
  scanner.expect('(');
  const terms = scanner.list(() => groupTerm(scanner, values, depth));
  scanner.expect(')');
  scanner.skipBlanks();
  return terms;
}

const NESTED = /(not\.)?(and|or)\s*\(/y;

function groupTerm(scanner: Scanner, values: Values, depth: number): Condition {
  NESTED.lastIndex = scanner.at;
  const nested = NESTED.exec(scanner.text);
  if (nested) {
    scanner.at += nested[0].length - 1;
    return {
      kind: 'group',
      negated: nested[1] !== undefined,
      joiner: nested[2] === 'or' ? 'or' : 'and',
      terms: groupTerms(scanner, values, depth + 1),
    };
  }
  const path = scanner.path();
  scanner.expect('.');
  return { kind: 'filter', path, ...parseOperation(scanner, values, 'term') };
}

/** Parses `total.gt.100,or(n.eq.1,n.is.null)`: conditions on the aggregates of one select list, joined by AND. */
export function parseHaving(text: string, values: Values): { conditions: Condition[]; shape: string } {
  const scanner = new Scanner(text, 'having');
  scanner.skipBlanks();
  const conditions =
    scanner.char === '(' ? groupTerms(scanner, values, 1) : scanner.list(() => groupTerm(scanner, values, 1));
  scanner.expectEnd();
  for (const condition of conditions) checkHaving(condition, scanner);
  return { conditions, shape: scanner.shape() };
}

function checkHaving(condition: Condition, scanner: Scanner): void {
  if (condition.kind === 'group') {
    for (const term of condition.terms) checkHaving(term, scanner);
    return;
  }
  const { operation, path } = condition;
  const operator = operation.kind === 'compare' ? operation.operator : operation.kind;
  const quantified = operation.kind === 'compare' && operation.quantifier !== undefined;
  if (path.steps.length > 0 || quantified || !HAVING_OPERATORS.has(operator)) {
    scanner.fail(`one of ${[...HAVING_OPERATORS].join(', ')}`);
  }
}
