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

const MOST_NAMED = 5;

/** Throws when other instances would not see a change of a file. */
export async function assertSingleInstance(context: DashboardContext): Promise<void> {
  if (context.dev) return;
  const others = (await readInstancesAlive(context.owner)).filter((one) => one !== context.instance);
  if (others.length === 0) return;
  const named = `${others.slice(0, MOST_NAMED).join(', ')}${others.length > MOST_NAMED ? ' …' : ''}`;
  throw new Problem(
    'not_alone',
    409,
    `This instance (${context.instance ?? 'unnamed'}) is not alone: ${named} would not see the change, each has its own files`,
    {
      hint: 'Nothing was changed. Change svc.yaml and the sources in your repository and deploy them to every instance; or share the file: svc config push, then start every instance with --config database.',
    },
  );
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
