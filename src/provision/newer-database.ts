// Detects a database that was prepared by a newer svc. By default a step is compatible with the previous minor version
// of svc. After a step with `min_version`, older versions do not start.
import { packageVersion } from '../lib/package-files.ts';
import { compareVersions } from './version.ts';
import { Problem } from '../problem/problem.ts';

export type AppliedStep = { readonly id: string; readonly min_version: string | null };

/** Throws `database_is_newer` if an applied step needs a newer svc. */
export function assertNotNewer(applied: readonly AppliedStep[], own = packageVersion()): void {
  const required = applied.flatMap(({ min_version }) => min_version ?? []);
  const needed = required.toSorted(compareVersions).at(-1);
  if (needed === undefined || compareVersions(own, needed) >= 0) return;
  throw new Problem(
    'database_is_newer',
    500,
    `A newer svc has prepared this database: it needs ${needed} or newer, and this is ${own}. Nothing was changed.`,
    {
      hint:
        `Use svc ${needed} or newer. To go back permanently, restore a backup from before the upgrade into a new ` +
        'database.',
    },
  );
}
