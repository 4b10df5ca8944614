// The select grammar: columns, aliases, casts, JSON paths, aggregates, embeds and spreads at any depth.
import { Scanner } from './scanner.ts';
import { tooDeep } from '../problem.ts';
import { AGGREGATES, type AggregateName } from './operators.ts';
import type { Embed, SelectItem } from './query.ts';

const MAX_DEPTH = 10;
const MAX_EMBEDS = 100;

const AGGREGATE = new RegExp(`\\.(${AGGREGATES.join('|')})\\(\\)`, 'y');

export function parseSelect(text: string): readonly SelectItem[] {
  const scanner = new Scanner(text, 'select parameter');
  scanner.skipBlanks();
  const items = scanner.done ? [] : new SelectParser(scanner).list(1);
  scanner.skipBlanks();
  scanner.expectEnd();
  return items;
}

class SelectParser {
  readonly #scanner: Scanner;
  #embeds = 0;

  constructor(scanner: Scanner) {
    this.#scanner = scanner;
  }

  list(depth: number): SelectItem[] {
    return this.#scanner.list(() => this.#item(depth));
  }

  #item(depth: number): SelectItem {
    const scanner = this.#scanner;
    if (scanner.eat('...')) return this.#embed('spread', undefined, scanner.name(), depth);
    if (scanner.eat('*')) return { kind: 'star' };
    let alias: string | undefined;
    let start = scanner.at;
    let path = scanner.path();
    // `a:b` names an alias, `a::b` a cast.
    if (scanner.char === ':' && !scanner.startsWith('::') && path.steps.length === 0) {
      scanner.eat(':');
      alias = path.column;
      scanner.skipBlanks();
      start = scanner.at;
      path = scanner.path();
    }
    if (path.steps.length === 0) {
      if (scanner.char === '!') return this.#embed('embed', alias, path.column, depth);
      if (scanner.char === '(') {
        const isCount = scanner.text.slice(start, scanner.at).trim() === 'count';
        if (!isCount) return this.#embed('embed', alias, path.column, depth);
        scanner.expect('()');
        return { kind: 'count', alias, cast: this.#cast() };
      }
    }
    const cast = this.#cast();
    const name = this.#aggregate();
    const aggregate = name && { name, cast: this.#cast() };
    return { kind: 'field', alias, path, cast, aggregate };
  }

  #embed(kind: Embed['kind'], alias: string | undefined, target: string, depth: number): Embed {
    const scanner = this.#scanner;
    if (depth > MAX_DEPTH) throw tooDeep(`embeds may nest ${MAX_DEPTH} levels deep`);
    if (++this.#embeds > MAX_EMBEDS) throw tooDeep(`at most ${MAX_EMBEDS} embeds are allowed`);
    let hint: string | undefined;
    let join: Embed['join'] | undefined;
    while (scanner.eat('!')) {
      const wasQuoted = scanner.char === '"';
      const modifier = scanner.name();
      // Whole words only: `!left_fk` is a hint.
      if (!wasQuoted && join === undefined && (modifier === 'inner' || modifier === 'left')) join = modifier;
      else if (hint === undefined) hint = modifier;
      else scanner.fail('"("');
    }
    scanner.expect('(');
    scanner.skipBlanks();
    const select = scanner.char === ')' ? [] : this.list(depth + 1);
    scanner.expect(')');
    return { kind, alias, target, hint, join: join ?? 'left', select };
  }

  #cast(): string | undefined {
    return this.#scanner.eat('::') ? this.#scanner.type() : undefined;
  }

  #aggregate(): AggregateName | undefined {
    const scanner = this.#scanner;
    AGGREGATE.lastIndex = scanner.at;
    const match = AGGREGATE.exec(scanner.text);
    if (!match) return undefined;
    scanner.at += match[0].length;
    return AGGREGATES.find((name) => name === match[1]);
  }
}
