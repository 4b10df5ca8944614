// Files that match a pattern of `include` or `sql`.
import { globSync } from 'tinyglobby';

/** Returns relative paths, sorted. */
export function matching(pattern: string, directory: string): string[] {
  return globSync(pattern, {
    cwd: directory,
    ignore: '**/node_modules/**',
    expandDirectories: false,
    followSymbolicLinks: false,
  }).sort();
}
