import type { Instance } from '../instance.ts';
import { countWrites, Notes, NOTES, type Load } from '../load.ts';
import { PLAIN, RETRYING, type Scenario, type Stage } from '../scenario.ts';
import { seconds, until } from '../until.ts';

/** Two failed checks, a second apart, and the moment between them. */
const NOTICED = 4_000;

export const scenario: Scenario = {
  name: 'instance-killed',
  about: 'kill -9 of one instance of three, behind a plain balancer and one that tries again',
  async run(stage) {
    const config = stage.config(NOTES);
    const options = { config, database: stage.url() };
    const all = [...(await stage.startThree(options))];
    for (const balancer of [PLAIN, RETRYING]) {
      const name = balancer === PLAIN ? 'plain' : 'retrying';
      const { load, killedAt } = await killUnderLoad(stage, all[1]!, balancer);
      stage.note(`${name}: ${load.summary()}`);
      const last = load.failed.reduce((latest, { endedAt }) => Math.max(latest, endedAt), killedAt);
      const early = load.failed.filter(({ endedAt }) => endedAt < killedAt).length;
      stage.claim(`${name}: nothing fails before the kill`, early === 0, String(early));
      if (balancer === PLAIN) {
        stage.claim(
          'plain: nothing fails once the balancer has noticed',
          last - killedAt < NOTICED,
          seconds(last - killedAt),
        );
      } else {
        const reads = load.failed.filter(({ call }) => call.kind === 'read').length;
        stage.claim('retrying: no read fails', reads === 0, String(reads));
        const writes = load.failed.length - reads;
        stage.claim(
          'retrying: only writes in flight on that instance fail',
          writes <= 16 / 3 + 2,
          String(writes),
        );
      }
      const { acknowledged, lost } = await countWrites(stage.database, [load]);
      stage.claim(
        `${name}: no acknowledged write is lost`,
        lost.length === 0,
        `${lost.length} of ${acknowledged}`,
      );
      all[1] = stage.start({ ...options, machine: 'app2' });
      await all[1].whenReady();
      await stage.untilBalanced();
    }
  },
};

async function killUnderLoad(
  stage: Stage,
  victim: Instance,
  balancer: string,
): Promise<{ load: Load; killedAt: number }> {
  const notes = new Notes(stage.folder);
  const load = stage.load({ urls: [balancer], clients: 16, next: notes.next(3), pause: 10 });
  await load.answered(300);
  const killedAt = Date.now();
  await victim.stop('SIGKILL');
  await until(
    'answers from the time when the balancer has noticed',
    60_000,
    () => load.count(({ startedAt }) => startedAt > killedAt + NOTICED) >= 300,
  );
  await load.stop();
  return { load, killedAt };
}
