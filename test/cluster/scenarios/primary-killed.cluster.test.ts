import { killNode, setSynchronous, settled, startNode } from '../database.ts';
import { failOver, writesAgain } from '../failover.ts';
import { countWrites, Notes, NOTES } from '../load.ts';
import { DATABASE_MACHINES } from '../machines.ts';
import type { Scenario, Stage } from '../scenario.ts';
import { seconds } from '../until.ts';

export const scenario: Scenario = {
  name: 'primary-killed',
  about:
    'kill -9 of the primary and its Patroni: every answer about a write is true, and writes go on with the next one',
  async run(stage) {
    const config = stage.config(NOTES);
    const all = await stage.startThree({ config, database: stage.url(DATABASE_MACHINES) });
    const urls = all.map(({ url }) => url);
    // The usual run omits this case, which the scenario of a silent host covers.
    if (stage.full) await oneKill(stage, urls, 'asynchronous');
    await setSynchronous(true);
    const rounds = stage.size(2, 10);
    for (let round = 1; round <= rounds; round++) await oneKill(stage, urls, `synchronous ${round}`);
  },
};

async function oneKill(stage: Stage, urls: readonly string[], name: string): Promise<void> {
  const synchronous = name !== 'asynchronous';
  const leader = await settled(synchronous);
  const notes = new Notes(stage.folder);
  const load = stage.load({ urls, clients: 24, next: notes.next(6) });
  await load.answered(500);
  const { startedAt, newPrimaryAt } = await failOver(leader, () => killNode(leader));
  const again = (await writesAgain(load, newPrimaryAt)) - newPrimaryAt;
  await load.answered(300);
  await load.stop();
  startNode(leader);
  await settled(synchronous);

  stage.note(`${name}: the next primary after ${seconds(newPrimaryAt - startedAt)}; ${load.summary()}`);
  stage.claim(`${name}: svc takes writes within 2 s of the next primary`, again <= 2_000, seconds(again));
  const account = await countWrites(stage.database, [load]);
  const { acknowledged, lost, refused, refusedYetThere, unknown, unknownAndThere } = account;
  stage.note(`${name}: of ${unknown} writes answered as unknown ${unknownAndThere} are there`);
  if (synchronous) {
    stage.claim(
      `${name}: no acknowledged write is lost`,
      lost.length === 0,
      `${lost.length} of ${acknowledged}`,
    );
  } else
    stage.note(
      `${name}: ${lost.length} of ${acknowledged} acknowledged writes were lost with the old primary`,
    );
  stage.claim(
    `${name}: no write answered as not done is there`,
    refusedYetThere.length === 0,
    `${refusedYetThere.length} of ${refused}`,
  );
  const unexpected = load.failed.filter(({ code, status }) => status !== 503 && code !== 'SVC112');
  stage.claim(
    `${name}: every failure is a 503 or has an unknown outcome`,
    unexpected.length === 0,
    unexpected
      .slice(0, 3)
      .map(({ call, status, code, text }) => `${call.kind} ${status} ${code} ${text}`)
      .join('; '),
  );
}
