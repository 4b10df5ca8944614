// Compares version numbers: `1.10.0` is newer than `1.9.3` and `1.10.0-rc.1`.

/** Returns a negative number if `a` is older, a positive one if it is newer. Ignores a suffix after `+`. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [parse(a), parse(b)];
  for (let at = 0; at < 3; at += 1) {
    const difference = (left.numbers[at] ?? 0) - (right.numbers[at] ?? 0);
    if (difference !== 0) return difference;
  }
  if (left.before === right.before) return 0;
  if (left.before === undefined) return 1;
  if (right.before === undefined) return -1;
  return left.before.localeCompare(right.before, 'en', { numeric: true });
}

function parse(version: string): {
  readonly numbers: readonly number[];
  readonly before: string | undefined;
} {
  const [released = ''] = version.split('+');
  const dash = released.indexOf('-');
  return {
    numbers: (dash < 0 ? released : released.slice(0, dash)).split('.').map(Number),
    before: dash < 0 ? undefined : released.slice(dash + 1),
  };
}
