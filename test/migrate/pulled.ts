// Returns the file that `svc migrate pull` generates from a database.
import { renderPulled } from '../../src/migrate/commands/pull.ts';
import { readHiddenFunctions } from '../../src/migrate/commands/adoption/hidden-functions.ts';
import { readLive } from '../../src/migrate/schema/live/read-live.ts';
import type { World } from './world.ts';

export async function pulled(world: World, schemas: readonly string[] = ['public']): Promise<string> {
  const [live, hidden] = await world.owner.session(
    async (session) => [await readLive(session, schemas), await readHiddenFunctions(session)] as const,
  );
  return renderPulled(live, () => true, { hidden }).replace('version: 1\n', '');
}
