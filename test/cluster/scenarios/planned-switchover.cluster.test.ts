import { setSynchronous, settled, switchover } from '../database.ts';
import { failOver } from '../failover.ts';
import { countWrites, Notes, NOTES } from '../load.ts';
import type { Scenario, Stage } from '../scenario.ts';
import { seconds } from '../until.ts';

/** `database.failover_wait`. */
const HOLD = 5_000;

export const scenario: Scenario = {
  name: 'planned-switchover',
  about:
    'another PostgreSQL becomes primary on purpose, without and with a synchronous standby: nothing fails',
  async run(stage) {
    const config = stage.config(NOTES);
    const all = await stage.startThree({ config, database: stage.url() });
    const urls = all.map(({ url }) => url);
    for (let round = 0; round < stage.size(1, 3); round++) await oneSwitchover(stage, urls, false);
    await setSynchronous(true);
    for (let round = 0; round < stage.size(1, 3); round++) await oneSwitchover(stage, urls, true);
  },
};

async function oneSwitchover(stage: Stage, urls: readonly string[], synchronous: boolean): Promise<void> {
  const name = synchronous ? 'synchronous' : 'asynchronous';
  const leader = await settled(synchronous);
  const notes = new Notes(stage.folder);
  const load = stage.load({ urls, clients: 12, next: notes.next(3), pause: 20 });
  await load.answered(300);
  const { startedAt, newPrimaryAt } = await failOver(leader, async () => await switchover(leader));
  await load.answered(300);
  await load.stop();
  const took = newPrimaryAt - startedAt;
  stage.note(`${name}: the switchover took ${seconds(took)}; ${load.summary()}`);
  stage.claim(
    `${name}: no request failed`,
    load.failed.length === 0,
    `${load.failed.length} of ${load.answers.length}`,
  );
  stage.claim(
    `${name}: no answer came later than 5 s and the switchover`,
    load.longest() <= HOLD + took,
    seconds(load.longest()),
  );
  await settled(synchronous);
  const { acknowledged, lost } = await countWrites(stage.database, [load]);
  stage.claim(
    `${name}: no acknowledged write is lost`,
    lost.length === 0,
    `${lost.length} of ${acknowledged}`,
  );
}
