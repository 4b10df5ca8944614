import { primary, settled } from '../database.ts';
import { failOver, writesAgain } from '../failover.ts';
import type { Instance } from '../instance.ts';
import { countWrites, Notes, NOTES, type Load } from '../load.ts';
import { DATABASE_MACHINES, healNetwork, moveName, silence, type DatabaseMachine } from '../machines.ts';
import type { Scenario, Stage } from '../scenario.ts';
import { seconds, until } from '../until.ts';
import { ReadyWatch } from '../watch.ts';

/** How an instance finds the database, and the time from which it can. */
type Finder = { readonly name: string; readonly load: Load; readonly ready: ReadyWatch; from: number };

export const scenario: Scenario = {
  name: 'host-silent',
  about:
    "the primary's host vanishes under full load without a word: found again by several hosts and by a moved name",
  async run(stage) {
    const config = stage.config(NOTES);
    for (let round = 0; round < stage.size(1, 3); round++) await oneSilence(stage, config);
  },
};

async function oneSilence(stage: Stage, config: string): Promise<void> {
  const leader = await settled();
  moveName(leader);
  const byHosts = stage.start({ machine: 'app1', config, database: stage.url(DATABASE_MACHINES) });
  await byHosts.whenReady();
  const byName = stage.start({ machine: 'app2', config, database: stage.url('name') });
  await byName.whenReady();
  const notes = new Notes(stage.folder);
  const finders = [find('several hosts', byHosts), find('a name that is moved', byName)] as const;
  function find(name: string, instance: Instance): Finder {
    // More clients than connections, so that each connection is in use and none is found dead while idle.
    const load = stage.load({ urls: [instance.url], clients: 24, next: notes.next(5) });
    return { name, load, ready: new ReadyWatch(instance), from: Number.NaN };
  }
  await Promise.all(finders.map(async ({ load }) => await load.answered(500)));

  const { startedAt, newPrimaryAt } = await failOver(leader, () => silence(leader));
  finders[0].from = newPrimaryAt;
  const dataByHosts = writesAgain(finders[0].load, newPrimaryAt);
  // The name is moved once the service is seen to be down, as an operator would do it.
  await until('the instance by name to be not ready', 60_000, () =>
    Number.isFinite(finders[1].ready.first('red', startedAt)),
  );
  moveName(await newPrimary(leader));
  finders[1].from = Date.now();
  const again = [await dataByHosts, await writesAgain(finders[1].load, finders[1].from)];
  await Promise.all(finders.map(async ({ load }) => await load.answered(300)));
  await Promise.all(finders.map(async ({ load, ready }) => await Promise.all([load.stop(), ready.stop()])));

  stage.note(`the next primary after ${seconds(newPrimaryAt - startedAt)}`);
  for (const [at, finder] of finders.entries()) judge(stage, finder, startedAt, again[at]!);
  healNetwork();
  await settled();
  const { acknowledged, lost, refused, refusedYetThere } = await countWrites(
    stage.database,
    finders.map(({ load }) => load),
  );
  stage.note(`${lost.length} of ${acknowledged} acknowledged writes were lost with the old primary`);
  stage.claim(
    'no write answered as not done is there',
    refusedYetThere.length === 0,
    `${refusedYetThere.length} of ${refused}`,
  );
  await Promise.all([byHosts.stop(), byName.stop()]);
}

function judge(stage: Stage, { name, load, ready, from }: Finder, startedAt: number, again: number): void {
  stage.note(`${name}: ${load.summary()}`);
  stage.claim(`${name}: data is good within 15 s`, again - from <= 15_000, seconds(again - from));
  const lie = ready.longestLie(load, startedAt, again);
  stage.claim(
    `${name}: never ready for longer than 6 s while no request succeeds`,
    lie <= 6_000,
    seconds(lie),
  );
  const unexpected = load.failed.filter(
    ({ status, code, wrong }) =>
      wrong === undefined && status !== 503 && code !== 'SVC112' && code !== 'PGRST003',
  ).length;
  stage.claim(
    `${name}: every failure reports that the database is unavailable`,
    unexpected === 0,
    String(unexpected),
  );
  // Until then a standby may answer reads, even one that had not received everything when the primary
  // vanished.
  const old = load.wrong.filter(({ startedAt: asked }) => asked > again);
  stage.claim(
    `${name}: once data is good no read is older than what was acknowledged`,
    old.length === 0,
    `${old.length}, ${load.wrong.length} before; ${load.wrong
      .map((answer) => `${seconds(answer.startedAt - startedAt)} ${answer.wrong}`)
      .slice(0, 5)
      .join('; ')}`,
  );
}

const newPrimary = async (old: DatabaseMachine): Promise<DatabaseMachine> =>
  await until('the next primary by its name', 30_000, async () => {
    const now = await primary();
    return now !== undefined && now !== old ? now : undefined;
  });
