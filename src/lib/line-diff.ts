// A line diff of two texts (Myers' greedy algorithm) with some context around each change.

export type DiffLine = {
  readonly sign: ' ' | '+' | '-';
  readonly text: string;
  /** From 1: in the new text, and for `-` in the old one. */
  readonly line: number;
};

/** With more differences the search costs too much: every line is then removed and added. */
const MOST_EDITS = 1_000;

/** Lines farther than `context` from a change are left out. */
export function diffLines(before: string, after: string, context = 3): DiffLine[] {
  const [a, b] = [toLines(before), toLines(after)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const middle = diffMiddle(a.slice(start, a.length - end), b.slice(start, b.length - end)).map((one) => ({
    ...one,
    line: one.line + start,
  }));
  if (middle.length === 0) return [];
  const same = (from: number, to: number): DiffLine[] =>
    b.slice(from, to).map((text, index) => ({ sign: ' ', text, line: from + index + 1 }));
  const afterMiddle = b.length - end;
  return nearChanges(
    [
      ...same(Math.max(0, start - context), start),
      ...middle,
      ...same(afterMiddle, Math.min(b.length, afterMiddle + context)),
    ],
    context,
  );
}

function toLines(text: string): string[] {
  const lines = text.split('\n');
  // A line break ends a line; it does not begin another.
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

function diffMiddle(a: readonly string[], b: readonly string[]): DiffLine[] {
  const trace = searchPath(a, b);
  if (!trace) {
    return [
      ...a.map((text, index): DiffLine => ({ sign: '-', text, line: index + 1 })),
      ...b.map((text, index): DiffLine => ({ sign: '+', text, line: index + 1 })),
    ];
  }
  const lines: DiffLine[] = [];
  let [x, y] = [a.length, b.length];
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const reach = trace[edits] ?? new Map<number, number>();
    const k = x - y;
    const isInsertion = edits > 0 && (k === -edits || (k !== edits && at(reach, k - 1) < at(reach, k + 1)));
    const formerK = isInsertion ? k + 1 : k - 1;
    const formerX = edits === 0 ? 0 : at(reach, formerK);
    const formerY = edits === 0 ? 0 : formerX - formerK;
    while (x > formerX && y > formerY) {
      lines.push({ sign: ' ', text: b[y - 1] ?? '', line: y });
      [x, y] = [x - 1, y - 1];
    }
    if (edits === 0) break;
    if (isInsertion) lines.push({ sign: '+', text: b[y - 1] ?? '', line: y });
    else lines.push({ sign: '-', text: a[x - 1] ?? '', line: x });
    [x, y] = [formerX, formerY];
  }
  return lines.reverse();
}

/** How far each diagonal reaches before the n-th edit, for every n; undefined beyond MOST_EDITS. */
function searchPath(a: readonly string[], b: readonly string[]): Array<Map<number, number>> | undefined {
  const trace: Array<Map<number, number>> = [];
  const reach = new Map<number, number>();
  for (let edits = 0; edits <= Math.min(a.length + b.length, MOST_EDITS); edits += 1) {
    trace.push(new Map(reach));
    for (let k = -edits; k <= edits; k += 2) {
      const isInsertion = k === -edits || (k !== edits && at(reach, k - 1) < at(reach, k + 1));
      let x = edits === 0 ? 0 : isInsertion ? at(reach, k + 1) : at(reach, k - 1) + 1;
      while (x < a.length && x - k < b.length && x - k >= 0 && a[x] === b[x - k]) x += 1;
      reach.set(k, x);
      if (x >= a.length && x - k >= b.length) return trace;
    }
  }
  return undefined;
}

function at(reach: ReadonlyMap<number, number>, k: number): number {
  return reach.get(k) ?? 0;
}

function nearChanges(lines: readonly DiffLine[], context: number): DiffLine[] {
  const changes = lines.flatMap(({ sign }, index) => (sign === ' ' ? [] : [index]));
  const shown = new Set<number>();
  for (const index of changes)
    for (let near = index - context; near <= index + context; near += 1) shown.add(near);
  return lines.filter((_line, index) => shown.has(index));
}
