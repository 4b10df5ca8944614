// Suggests similar names ("Perhaps you meant"), by the share of common letter triples.

/** The most similar candidate that is not equal, if it is at least `minimum` similar (0 to 1). */
export function closest(name: string, candidates: Iterable<string>, minimum: number): string | undefined {
  let best: string | undefined;
  let bestScore = minimum;
  const wanted = triples(name);
  for (const candidate of candidates) {
    if (candidate === name) continue;
    const score = similarity(wanted, triples(candidate));
    if (score < bestScore || (score === bestScore && best !== undefined)) continue;
    best = candidate;
    bestScore = score;
  }
  return best;
}

/** Cosine of the two triple counts, so that length differences weigh little. */
function similarity(a: ReadonlyMap<string, number>, b: ReadonlyMap<string, number>): number {
  let product = 0;
  for (const [triple, count] of a) product += count * (b.get(triple) ?? 0);
  return product / (length(a) * length(b));
}

function length(counts: ReadonlyMap<string, number>): number {
  return Math.sqrt([...counts.values()].reduce((sum, count) => sum + count * count, 0)) || 1;
}

function triples(name: string): ReadonlyMap<string, number> {
  const text = `-${name.toLowerCase()}-`;
  const counts = new Map<string, number>();
  for (const size of [2, 3]) {
    for (let at = 0; at + size <= text.length; at++) {
      const triple = text.slice(at, at + size);
      counts.set(triple, (counts.get(triple) ?? 0) + 1);
    }
  }
  return counts;
}
