// The file that `svc migrate pull` writes of a database.
import { renderPulled } from '../../src/migrate/commands/pull.ts';
import { readLive } from '../../src/migrate/schema/live/read-live.ts';
import type { World } from './world.ts';

export async function pulled(world: World): Promise<string> {
  const live = await world.owner.session((session) => readLive(session, ['public']));
  return renderPulled(live, () => true).replace('version: 1\n', '');
}
