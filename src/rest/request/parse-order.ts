// Order terms and the name lists of `columns` and `on_conflict`.
import type { OrderTerm } from './query.ts';
import { Scanner } from './scanner.ts';

export function parseOrder(text: string): readonly OrderTerm[] {
  const scanner = new Scanner(text, 'order');
  const terms = scanner.list(() => orderTerm(scanner));
  scanner.expectEnd();
  return terms;
}

function orderTerm(scanner: Scanner): OrderTerm {
  let relation: string | undefined;
  let path = scanner.path();
  if (path.steps.length === 0 && scanner.eat('(')) {
    relation = path.column;
    path = scanner.path();
    scanner.expect(')');
  }
  const direction = scanner.eat('.asc') ? 'asc' : scanner.eat('.desc') ? 'desc' : undefined;
  const nulls = scanner.eat('.nullsfirst') ? 'first' : scanner.eat('.nullslast') ? 'last' : undefined;
  scanner.skipBlanks();
  if (!scanner.done && scanner.char !== ',') scanner.fail('".asc", ".desc", ".nullsfirst" or ".nullslast"');
  return { relation, path, direction, nulls };
}

export function parseNames(text: string, part: string): readonly string[] {
  const scanner = new Scanner(text, part);
  const names = scanner.list(() => scanner.name());
  scanner.expectEnd();
  return names;
}
