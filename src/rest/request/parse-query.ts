// Parses a query string into a Query and its values: reserved parameters, the effective one of repeated parameters,
// and the path before a key.
import { Cache } from '../../lib/cache.ts';
import { Problem } from '../../problem/problem.ts';
import { rangeNotSatisfiable, syntaxError, tooDeep } from '../problem.ts';
import { parseGroup, parseHaving, parseOperation, type Values } from './parse-filter.ts';
import { parseNames, parseOrder } from './parse-order.ts';
import { parseSelect } from './parse-select.ts';
import {
  MAX_LITERAL,
  type At,
  type Condition,
  type Count,
  type Filter,
  type OrderTerm,
  type Parameter,
  type ParsedQuery,
  type Query,
  type SelectItem,
} from './query.ts';
import { Scanner } from './scanner.ts';

/** Target of the query. For a relation, every unknown parameter is a filter; for a routine, the catalog decides. */
type QueryTarget = 'relation' | 'routine-by-get' | 'routine-by-post';

const MAX_PARAMETERS = 1_000;

const ROOT: readonly string[] = [];

// Programs repeat a few select lists and orders.
const SELECTS = new Cache<string, readonly SelectItem[]>(500);
const ORDERS = new Cache<string, readonly OrderTerm[]>(500);

export function parseQuery(text: string, target: QueryTarget): ParsedQuery {
  return new QueryParser(target).parse(text);
}

class QueryParser implements Values {
  readonly #target: QueryTarget;
  readonly #values: string[] = [];
  readonly #conditions: Array<At<Condition>> = [];
  readonly #having: Array<At<readonly Condition[]>> = [];
  readonly #orders: Array<At<readonly OrderTerm[]>> = [];
  #orderPaths: Set<string> | undefined;
  // Created on demand: most requests have none of these.
  #limits: Map<string, At<number>> | undefined;
  #offsets: Map<string, At<number>> | undefined;
  readonly #parameters: Parameter[] = [];
  #select: readonly SelectItem[] | undefined;
  #columns: readonly string[] | undefined;
  #onConflict: readonly string[] | undefined;
  #shape = '';

  constructor(target: QueryTarget) {
    this.#target = target;
  }

  addValue(value: string): number {
    return this.#values.push(value) - 1;
  }

  parse(text: string): ParsedQuery {
    let count = 0;
    let from = 0;
    while (from < text.length) {
      let to = text.indexOf('&', from);
      if (to < 0) to = text.length;
      const part = text.slice(from, to);
      const equals = part.indexOf('=');
      if (equals >= 0) {
        if (++count > MAX_PARAMETERS) throw tooDeep(`at most ${MAX_PARAMETERS} query parameters are allowed`);
        this.#parameter(decode(part.slice(0, equals)), decode(part.slice(equals + 1)));
      }
      from = to + 1;
    }
    const rootLimit = this.#limits?.get('')?.value;
    const rootOffset = this.#offsets?.get('')?.value;
    const limits = this.#embedded('limit', this.#limits);
    const offsets = this.#embedded('offset', this.#offsets);
    const query: Query = {
      select: this.#select ?? [],
      conditions: this.#conditions,
      orders: this.#orders,
      having: this.#having,
      limits,
      offsets,
      columns: this.#columns,
      onConflict: this.#onConflict,
      parameters: this.#parameters,
    };
    return { query, values: this.#values, shape: this.#shape, rootLimit, rootOffset };
  }

  #parameter(key: string, value: string): void {
    refuseNul(key);
    switch (key) {
      case 'select':
        if (this.#select) return;
        refuseNul(value);
        this.#select = cached(SELECTS, value, parseSelect);
        return this.#addShape(key, value);
      case 'columns':
        if (this.#columns) return;
        refuseNul(value);
        this.#columns = parseNames(value, 'columns parameter');
        return this.#addShape(key, value);
      case 'on_conflict':
        if (this.#onConflict) return;
        refuseNul(value);
        this.#onConflict = parseNames(value, 'on_conflict parameter');
        return this.#addShape(key, value);
      case 'apikey':
        // Already read: for links, which cannot carry headers.
        return;
      default:
    }
    // The last segment of the raw text decides. A quoted segment is an ordinary name.
    const dot = key.lastIndexOf('.');
    switch (dot < 0 ? key : key.slice(dot + 1)) {
      case 'order':
        return this.#order(prefix(key, dot), value);
      case 'limit':
        return this.#limit(prefix(key, dot), value);
      case 'offset':
        return this.#offset(prefix(key, dot), value);
      case 'and':
        return this.#logic(key, dot, 'and', value);
      case 'or':
        return this.#logic(key, dot, 'or', value);
      case 'having':
        return this.#havingTerm(prefix(key, dot), value);
      default:
        return this.#filter(key, value);
    }
  }

  #order(path: readonly string[], value: string): void {
    const key = path.join('\0');
    if (this.#orderPaths?.has(key)) return;
    refuseNul(value);
    (this.#orderPaths ??= new Set()).add(key);
    this.#orders.push({ path, value: cached(ORDERS, value, parseOrder) });
    this.#addShape(`${key}\0.order`, value);
  }

  #limit(path: readonly string[], value: string): void {
    const limit = integer('limit', value);
    if (limit < 0) throw rangeNotSatisfiable('Limit should be greater than or equal to zero.');
    (this.#limits ??= new Map()).set(path.join('\0'), { path, value: limit });
  }

  #offset(path: readonly string[], value: string): void {
    (this.#offsets ??= new Map()).set(path.join('\0'), {
      path,
      value: Math.max(0, integer('offset', value)),
    });
  }

  /** Returns the counts of embeds. Those of the root are excluded, because a Range header may reduce them. */
  #embedded(name: string, counts: ReadonlyMap<string, At<number>> | undefined): Array<At<Count>> {
    if (!counts) return [];
    return [...counts.values()].filter(({ path }) => path.length > 0).map((at) => this.#counted(name, at));
  }

  #counted(name: string, { path, value }: At<number>): At<Count> {
    const isLiteral = value <= MAX_LITERAL;
    this.#addShape(`${path.join('\0')}\0.${name}`, isLiteral ? String(value) : '');
    return { path, value: isLiteral ? { literal: value } : { slot: this.addValue(String(value)) } };
  }

  #logic(key: string, dot: number, joiner: 'and' | 'or', value: string): void {
    let path = prefix(key, dot);
    const negated = path.at(-1) === 'not' && (key === `not.${joiner}` || key.endsWith(`.not.${joiner}`));
    if (negated) path = path.slice(0, -1);
    const { group, shape } = parseGroup(value, joiner, negated, this);
    this.#conditions.push({ path, value: group });
    this.#addShape(key, shape);
  }

  #havingTerm(path: readonly string[], value: string): void {
    const { conditions, shape } = parseHaving(value, this);
    this.#having.push({ path, value: conditions });
    this.#addShape(`${path.join('\0')}\0.having`, shape);
  }

  #filter(key: string, value: string): void {
    if (this.#target === 'routine-by-get') return this.#routineParameter(key, value);
    const { at, shape } = this.#readFilter(key, value);
    this.#conditions.push(at);
    this.#addShape(key, shape);
  }

  #routineParameter(key: string, value: string): void {
    const slot = this.addValue(value);
    let filter: At<Filter> | undefined;
    let shape = '';
    try {
      ({ at: filter, shape } = this.#readFilter(key, value));
    } catch (error) {
      // Not a filter, so it can only be an argument. The plan rejects it if the function has no such argument.
      if (!(error instanceof Problem)) throw error;
    }
    this.#parameters.push({ key, slot, filter });
    this.#addShape(key, shape);
  }

  #readFilter(key: string, value: string): { at: At<Filter>; shape: string } {
    const scanner = new Scanner(value, 'filter');
    const operation = parseOperation(scanner, this);
    scanner.expectEnd();
    const names = new Scanner(key, 'tree path');
    const path: string[] = [];
    let field = names.path();
    while (field.steps.length === 0 && names.eat('.')) {
      path.push(field.column);
      field = names.path();
    }
    names.expectEnd();
    return {
      at: { path: path.length === 0 ? ROOT : path, value: { kind: 'filter', path: field, ...operation } },
      shape: scanner.shape(),
    };
  }

  /**
   * Adds a part to the shape. NUL replaces values and ends each part. It is rejected elsewhere, so shapes cannot
   * collide.
   */
  #addShape(key: string, value: string): void {
    this.#shape += `${key}\0=${value}\0&`;
  }
}

function prefix(key: string, dot: number): readonly string[] {
  if (dot < 0) return ROOT;
  const scanner = new Scanner(key.slice(0, dot), 'tree path');
  const path = [scanner.name()];
  while (scanner.eat('.')) path.push(scanner.name());
  scanner.expectEnd();
  return path;
}

function integer(name: string, value: string): number {
  if (!/^[+-]?\d{1,19}$/.test(value)) {
    throw syntaxError(name, value, 1, `unexpected ${JSON.stringify(value)} expecting an integer`);
  }
  return Math.min(Number(value), Number.MAX_SAFE_INTEGER);
}

function cached<T>(cache: Cache<string, T>, text: string, parse: (text: string) => T): T {
  const known = cache.get(text);
  if (known !== undefined) return known;
  const parsed = parse(text);
  if (text.length <= 2_000) cache.set(text, parsed);
  return parsed;
}

/** Decodes percent-encoding as browsers write it. Invalid UTF-8 becomes U+FFFD instead of an error. */
export function decode(text: string): string {
  const spaced = text.includes('+') ? text.replaceAll('+', ' ') : text;
  if (!spaced.includes('%')) return spaced;
  try {
    return decodeURIComponent(spaced);
  } catch {
    // A malformed percent sign is kept as it is.
    const bytes = Buffer.from(spaced, 'utf8').toString('latin1');
    const unescaped = bytes.replaceAll(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    return Buffer.from(unescaped, 'latin1').toString('utf8');
  }
}

/** Rejects NUL in names, which SQL cannot contain. PostgreSQL rejects it in values. */
function refuseNul(text: string): void {
  const at = text.indexOf('\0');
  if (at >= 0) throw syntaxError('query string', text, at + 1, 'unexpected NUL character');
}
