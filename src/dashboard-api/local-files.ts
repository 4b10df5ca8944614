// svc.yaml and the sources of functions are files of one machine: what the dashboard writes is served by this instance
// only, so it writes only when there is no other.
import { readInstancesAlive } from '../postgres/presence.ts';
import { Problem } from '../problem/problem.ts';
import type { DashboardContext } from './dashboard-context.ts';

/** Instances on this database. `svc dev` counts as one: it watches its files. */
export async function countInstances({ owner, dev }: DashboardContext): Promise<number> {
  if (dev) return 1;
  return Math.max(1, (await readInstancesAlive(owner)).length);
}

/** Throws when other instances would not see a change of a file. */
export async function assertSingleInstance(context: DashboardContext): Promise<void> {
  const count = await countInstances(context);
  if (count === 1) return;
  const message = `${count} instances of this service are running, each with its own files`;
  throw new Problem('several_instances', 409, message, {
    hint: 'Nothing was changed. Change svc.yaml and the sources in your repository, and deploy them to every instance.',
  });
}

/** Makes the service load a file that was just written. */
export async function loadWrittenFile({ log }: DashboardContext, load: () => Promise<void>): Promise<void> {
  try {
    await load();
  } catch (cause) {
    log.error({ err: cause }, 'the changed file was written, but could not be loaded');
    throw new Problem('config_not_taken', 500, 'The file was written, but the service could not load it', {
      cause,
      details: cause instanceof Problem ? cause.message : undefined,
      hint: 'The previous version stays in service. See the log for the reason.',
    });
  }
}
