import { Notes, NOTES, countWrites } from '../load.ts';
import { PLAIN, type Scenario } from '../scenario.ts';
import { seconds } from '../until.ts';

export const scenario: Scenario = {
  name: 'rolling-restart',
  about:
    'each of three instances is replaced in turn behind a plain balancer, under 16 clients: no request fails',
  // The usual run has the rollout of another schema, which restarts the instances in the same way.
  onlyFull: true,
  async run(stage) {
    const config = stage.config(NOTES);
    const options = { config, database: stage.url() };
    const all = [...(await stage.startThree(options))];
    const notes = new Notes(stage.folder);
    const total = stage.size(6_000, 20_000);
    const load = stage.load({ urls: [PLAIN], clients: 16, next: notes.next(3), pause: 5 });
    const startedAt = Date.now();
    let rounds = 0;
    do {
      for (const [at, instance] of all.entries()) {
        await instance.stop();
        const next = stage.start({ ...options, machine: instance.machine });
        await next.whenReady();
        await stage.untilBalanced();
        all[at] = next;
      }
      rounds += 1;
    } while (load.answers.length < total);
    await load.stop();
    stage.note(
      `${load.answers.length} requests in ${seconds(Date.now() - startedAt)}, ${rounds} rounds of three`,
    );
    stage.note(load.summary());
    stage.claim(
      'no request failed',
      load.failed.length === 0,
      `${load.failed.length} of ${load.answers.length}`,
    );
    const { acknowledged, lost } = await countWrites(stage.database, [load]);
    stage.claim('no acknowledged write is lost', lost.length === 0, `${lost.length} of ${acknowledged}`);
  },
};
