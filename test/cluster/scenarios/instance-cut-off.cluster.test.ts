import { primary } from '../database.ts';
import { countWrites, Notes, NOTES } from '../load.ts';
import { cut, healNetwork } from '../machines.ts';
import type { Scenario } from '../scenario.ts';
import { seconds, until } from '../until.ts';
import { ReadyWatch } from '../watch.ts';

export const scenario: Scenario = {
  name: 'instance-cut-off',
  about:
    'one instance no longer reaches the database: it reports this, the others keep serving, and it recovers by itself',
  async run(stage) {
    const config = stage.config(NOTES);
    const [one, two, three] = await stage.startThree({ config, database: stage.url('name') });
    const leader = await primary();
    if (leader === undefined) throw new Error('there is no primary');
    const notes = new Notes(stage.folder);
    const neighbours = stage.load({ urls: [two.url, three.url], clients: 8, next: notes.next(3), pause: 20 });
    const own = stage.load({ urls: [one.url], clients: 4, next: notes.next(3), pause: 20 });
    const ready = new ReadyWatch(one);
    await Promise.all([own.answered(50), neighbours.answered(100)]);
    const cutAt = Date.now();
    cut('app1', leader);
    await until('it to be not ready', 60_000, () => Number.isFinite(ready.first('red', cutAt)));
    const redAt = ready.first('red', cutAt);
    // Long enough for requests to be held and to time out, which takes longer on a busy machine.
    await until(
      'requests that time out',
      60_000,
      () => own.failed.filter((answer) => answer.startedAt > redAt).length >= 8,
    );
    await neighbours.answered(200);
    const healedAt = Date.now();
    healNetwork();
    await until('it to be ready', 60_000, () => Number.isFinite(ready.first('green', healedAt)));
    await until('a write through this instance', 60_000, () =>
      Number.isFinite(own.firstSuccessAfter(healedAt, 'write')),
    );
    await Promise.all([own.answered(50), neighbours.answered(100)]);
    await Promise.all([ready.stop(), own.stop(), neighbours.stop()]);

    stage.note(`the one that is cut off: ${own.summary()}`);
    stage.note(`the others: ${neighbours.summary()}`);
    const red = ready.first('red', cutAt) - cutAt;
    stage.claim('it is not ready within 6 s', red <= 6_000, seconds(red));
    const green = ready.first('green', healedAt) - healedAt;
    stage.claim('it is ready again within 2 s', green <= 2_000, seconds(green));
    stage.claim(
      'its requests are good again within 5 s',
      own.firstSuccessAfter(healedAt, 'write') - healedAt <= 5_000,
    );
    stage.claim('the others fail nothing', neighbours.failed.length === 0, String(neighbours.failed.length));
    const { acknowledged, lost, refused, refusedYetThere } = await countWrites(stage.database, [
      own,
      neighbours,
    ]);
    stage.claim('no acknowledged write is lost', lost.length === 0, `${lost.length} of ${acknowledged}`);
    stage.claim(
      'no write answered as not done is there',
      refusedYetThere.length === 0,
      `${refusedYetThere.length} of ${refused}`,
    );
  },
};
