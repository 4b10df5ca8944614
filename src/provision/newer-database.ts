// A database that a newer svc has prepared. Its steps serve the minor version before theirs, too, so an older program goes
// on with it; a step that asks for more says from which version on, and the program that is older than that does not start.
import { packageVersion } from '../lib/own-files.ts';
import { compareVersions } from './version.ts';
import { Problem } from '../problem/problem.ts';

export type AppliedStep = { readonly id: string; readonly min_version: string | null };

/** Throws `database_is_newer`. */
export function assertNotNewer(applied: readonly AppliedStep[], own = packageVersion()): void {
  const asked = applied.flatMap(({ min_version }) => min_version ?? []);
  const needed = asked.toSorted(compareVersions).at(-1);
  if (needed === undefined || compareVersions(own, needed) >= 0) return;
  throw new Problem(
    'database_is_newer',
    500,
    `A newer svc has prepared this database: it needs ${needed} or newer, and this is ${own}. Nothing was changed.`,
    {
      hint: `Use svc ${needed} or newer. To go back for good, restore a backup that was made before the upgrade into a new database.`,
    },
  );
}
