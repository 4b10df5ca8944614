// The lines in which two texts differ, with some context around each change.
import { diffArrays } from 'diff';

export type DiffLine = {
  readonly sign: ' ' | '+' | '-';
  readonly text: string;
  /** Line number from 1: in the new text, or for `-` in the old one. */
  readonly line: number;
};

/** Beyond this number of edits the search is too expensive, so every line is removed and added. */
const MAX_EDITS = 1_000;

/** Returns the changed lines in order. Lines farther than `context` from a change are left out. */
export function diffLines(before: string, after: string, context = 3): DiffLine[] {
  return keepNearChanges(listLines(toLines(before), toLines(after)), context);
}

function toLines(text: string): string[] {
  const lines = text.split('\n');
  // A line break ends a line; it does not begin another.
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

function listLines(before: string[], after: string[]): DiffLine[] {
  const parts = diffArrays(before, after, { maxEditLength: MAX_EDITS }) ?? [
    { removed: true, added: false, value: before },
    { removed: false, added: true, value: after },
  ];
  let [beforeLine, afterLine] = [0, 0];
  return parts.flatMap(({ removed, added, value }) =>
    value.map((text): DiffLine => {
      if (!added) beforeLine += 1;
      if (!removed) afterLine += 1;
      const sign = removed ? '-' : added ? '+' : ' ';
      return { sign, text, line: removed ? beforeLine : afterLine };
    }),
  );
}

function keepNearChanges(lines: readonly DiffLine[], context: number): DiffLine[] {
  const near = new Set<number>();
  for (const [index, { sign }] of lines.entries()) {
    if (sign === ' ') continue;
    for (let at = index - context; at <= index + context; at += 1) near.add(at);
  }
  return lines.filter((_line, index) => near.has(index));
}
