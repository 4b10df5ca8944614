// Guards for writing svc.yaml and sources of functions. These files belong to one machine, so the dashboard writes
// them only if there is no other instance.
import { readInstancesAlive } from '../postgres/instances.ts';
import { Problem } from '../problem/problem.ts';
import type { DashboardContext } from './dashboard-context.ts';

/** Returns the number of instances on this database. `svc dev` counts as one, because it watches its files. */
export async function countInstances({ owner, dev }: DashboardContext): Promise<number> {
  if (dev) return 1;
  return Math.max(1, (await readInstancesAlive(owner)).length);
}

const MAX_LISTED_INSTANCES = 5;

/** Throws `not_alone` if other instances would miss a change of a local file. */
export async function assertSingleInstance(context: DashboardContext): Promise<void> {
  if (context.dev) return;
  const others = (await readInstancesAlive(context.owner)).filter((id) => id !== context.instance);
  if (others.length === 0) return;
  const rest = others.length > MAX_LISTED_INSTANCES ? ' …' : '';
  const listed = `${others.slice(0, MAX_LISTED_INSTANCES).join(', ')}${rest}`;
  throw new Problem(
    'not_alone',
    409,
    `This instance (${context.instance ?? 'unnamed'}) is not alone: ${listed} would not see the change, ` +
      'each has its own files',
    {
      hint:
        'Nothing was changed. Change svc.yaml and the sources in your repository and deploy them to every instance; ' +
        'or share the file: svc config push, then start every instance with --config database.',
    },
  );
}

/** Loads a file that was just written. Throws `config_not_taken` if loading fails. */
export async function loadWrittenFile({ log }: DashboardContext, load: () => Promise<void>): Promise<void> {
  try {
    await load();
  } catch (cause) {
    if (cause instanceof Problem && cause.code === 'function_not_loaded') throw cause;
    log.error({ err: cause }, 'the changed file was written, but could not be loaded');
    throw new Problem('config_not_taken', 500, 'The file was written, but the service could not load it', {
      cause,
      details: cause instanceof Problem ? cause.message : undefined,
      hint: 'The previous version stays in service. See the log for the reason.',
    });
  }
}
