// Finds the closest known word for a typing error ("Did you mean").

/** The time to compare grows with the product of both lengths. */
const MAX_WORD_CHARS = 100;

export function closest(word: string, known: readonly string[]): string | undefined {
  if (word.length > MAX_WORD_CHARS) return undefined;
  let best: string | undefined;
  let bestDistance = Infinity;
  for (const candidate of known) {
    // A third of the letters may differ; in a short word, one letter.
    const tolerance = Math.max(1, Math.floor(Math.max(word.length, candidate.length) / 3));
    if (Math.abs(word.length - candidate.length) > tolerance || candidate.length > MAX_WORD_CHARS) continue;
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    const alike = distance <= tolerance && distance < Math.max(word.length, candidate.length);
    if (alike && distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const line = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1] ? 0 : 1;
      let best = Math.min(
        (last[column] ?? 0) + 1,
        (line[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + same,
      );
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1])
        best = Math.min(best, (beforeLast[column - 2] ?? 0) + 1);
      line.push(best);
    }
    [beforeLast, last] = [last, line];
  }
  return last[b.length] ?? 0;
}
