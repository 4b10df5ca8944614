import { query } from '../database.ts';
import { Notes, NOTES, type Load } from '../load.ts';
import type { Scenario, Stage } from '../scenario.ts';
import { SLOW, slow } from '../slow.ts';

const LIMIT = 4;
/** Long enough to keep four connections busy, even on a slow machine. */
const STATEMENT = 0.05;

export const scenario: Scenario = {
  name: 'connection-limit',
  about:
    'the server allows four connections, the pool asks for twenty: no request is refused, ' +
    'and the throughput is that of a pool of four',
  async run(stage) {
    stage.afterwards(async () => await setLimit(-1));
    const wanted = stage.config(NOTES + SLOW);
    const four = stage.config(NOTES + SLOW, `database: { pool: { max: ${LIMIT} } }\n`, 'four.yaml');
    const asked = await rate(stage, four, 'a pool of four');
    await setLimit(LIMIT);
    const limited = await rate(stage, wanted, 'a limit of four');
    stage.note(`${asked.perSecond.toFixed(1)} and ${limited.perSecond.toFixed(1)} calls a second`);
    stage.claim('no request was refused', limited.load.failed.length === 0, limited.load.summary());
    const ratio = limited.perSecond / asked.perSecond;
    stage.claim('the limit costs no more than a tenth', ratio >= 0.9, ratio.toFixed(2));
  },
};

async function rate(stage: Stage, config: string, name: string): Promise<{ load: Load; perSecond: number }> {
  const instance = stage.start({ machine: 'app1', config, database: stage.url() });
  await instance.whenReady();
  const notes = new Notes(stage.folder).next(5);
  // Lets the pool learn the limit before the measurement.
  const first = stage.load({ urls: [instance.url], clients: 24, total: 400, next: notes });
  await first.done;
  stage.claim(`${name}: no request was refused at first`, first.failed.length === 0, first.summary());
  const startedAt = Date.now();
  const total = stage.size(600, 2_000);
  const load = stage.load({ urls: [instance.url], clients: 24, total, next: () => slow(STATEMENT) });
  await load.done;
  const perSecond = load.answers.length / ((Date.now() - startedAt) / 1_000);
  await instance.stop('SIGKILL');
  return { load, perSecond };
}

async function setLimit(limit: number): Promise<void> {
  await query('postgres', `alter role authenticator connection limit ${limit}`);
}
