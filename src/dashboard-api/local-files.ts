// svc.yaml and the sources of functions are files of one machine: what the dashboard writes is served by this instance
// only, so it writes only when there is no other.
import { sql } from '../postgres/sql.ts';
import { LISTENER_NAME } from '../postgres/listen.ts';
import { Problem } from '../problem/problem.ts';
import type { DashboardContext } from './dashboard-context.ts';

/** Instances on this database, counted by their LISTEN connections. `svc dev` counts as one: it watches its files. */
export async function countInstances({ owner, dev }: DashboardContext): Promise<number> {
  if (dev) return 1;
  const [row] = await owner.query<{ count: number }>(
    sql`select count(*)::int as count from pg_catalog.pg_stat_activity
        where datname = current_database() and application_name = ${LISTENER_NAME}`,
  );
  return Math.max(1, row?.count ?? 1);
}

/** Throws when other instances would not see a change of a file. */
export async function assertFilesAreEverybodys(context: DashboardContext): Promise<void> {
  const count = await countInstances(context);
  if (count === 1) return;
  throw new Problem(
    'several_instances',
    409,
    `${count} instances of this service are running, each with files of its own`,
    {
      hint: 'Nothing was changed. Change svc.yaml and the sources where they are kept, and deploy them to every instance.',
    },
  );
}

/** Makes the service load a file that was just written; a failure says that the file itself is written. */
export async function takeWritten({ log }: DashboardContext, take: () => Promise<void>): Promise<void> {
  try {
    await take();
  } catch (cause) {
    log.error({ err: cause }, 'the changed file was written, but not taken');
    throw new Problem('config_not_taken', 500, 'The file was written, but the service could not take it', {
      cause,
      details: cause instanceof Problem ? cause.message : undefined,
      hint: 'What was served before is served on; the log says why.',
    });
  }
}
