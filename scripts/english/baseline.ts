// The baseline of `npm run english`: accepted findings per room and rule. Moved files do not change it.

/** Keyed by room and rule, such as `auth opener`. */
export type Counts = Readonly<Record<string, number>>;

const FOLDERS = new Set(['dashboard', 'docs', 'test', 'scripts', 'bench', 'packages', 'examples']);

/** Returns a folder of `src`, another folder of the root, or `root`. */
export function findRoom(path: string): string {
  if (path.startsWith('docs/decisions/')) return 'docs/decisions';
  const [folder = '', room = ''] = path.split('/');
  if (folder === 'src') return room;
  return FOLDERS.has(folder) ? folder : 'root';
}

/** Counts equal keys. The result is in alphabetical order. */
export function countKeys(keys: readonly string[]): Counts {
  const groups = [...Map.groupBy(keys, (key) => key)].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(groups.map(([key, { length }]) => [key, length]));
}

/** Returns one line for each number that differs from the baseline. */
export function compareCounts(counts: Counts, baseline: Counts): readonly string[] {
  const keys = new Set([...Object.keys(counts), ...Object.keys(baseline)]);
  return [...keys].toSorted().flatMap((key) => {
    const [found, accepted] = [counts[key] ?? 0, baseline[key] ?? 0];
    if (found === accepted) return [];
    const command = found > accepted ? `--list ${key.split(' ')[0]}` : '--update';
    return [`${key}: ${found} findings, ${accepted} accepted → npm run english -- ${command}`];
  });
}

/** Returns the baseline with the numbers that have become lower, without zeros. */
export function lowerCounts(counts: Counts, baseline: Counts): Counts {
  const lowered = Object.entries(baseline).map(([key, accepted]) => {
    return [key, Math.min(accepted, counts[key] ?? 0)] as const;
  });
  return Object.fromEntries(lowered.filter(([, number]) => number > 0));
}
