import { query } from '../database.ts';
import { ask, Notes, NOTES } from '../load.ts';
import type { Scenario } from '../scenario.ts';
import { SLOW, slow } from '../slow.ts';
import { seconds, until } from '../until.ts';

const STATEMENT = 3;

export const scenario: Scenario = {
  name: 'abandoned',
  about:
    'a hundred slow calls whose clients leave: what has not begun never begins, and others are served at once',
  async run(stage) {
    const config = stage.config(NOTES + SLOW, 'database: { pool: { max: 4 } }\n');
    const instance = stage.start({ machine: 'app1', config, database: stage.url() });
    await instance.whenReady();
    const written = await ask(instance.url, new Notes(stage.folder).write());
    stage.claim('a write before', written.status === 201, written.text);

    // Each call has a separate connection. All clients disconnect together, whether or not their calls have begun.
    const calls = Array.from(
      { length: 100 },
      async () => await ask(instance.url, slow(STATEMENT), { patience: 1_500 }),
    );
    // Two of the four connections are reserved for callers without one.
    await until('the slow calls to begin', 10_000, async () => (await running(stage.database)).length >= 2);
    const answers = await Promise.all(calls);
    const goneAt = Date.now();
    stage.claim(
      'all of them have left without an answer',
      answers.every(({ status }) => status === 0),
    );
    const read = await ask(instance.url, { kind: 'read', path: '/rest/v1/notes?select=id' });
    const took = read.endedAt - read.startedAt;
    stage.claim(
      'a read is served with the first free connection',
      read.status === 200 && took < STATEMENT * 1_000 + 2_000,
      `${read.status} after ${seconds(took)}`,
    );
    // A call that begins shortly after the last disconnect was already on its way to the server.
    const late = new Set<string>();
    await until('the last slow statement to end', 30_000, async () => {
      const now = await running(stage.database);
      for (const { pid, began } of now) if (Number(began) > goneAt + 500) late.add(`${pid} ${began}`);
      return now.length === 0;
    });
    stage.claim('no statement of theirs began after they had left', late.size === 0, String(late.size));
  },
};

const running = async (database: string): Promise<Array<{ pid: number; began: string }>> =>
  await query(
    database,
    `select pid, extract(epoch from query_start) * 1000 as began from pg_stat_activity
     where datname = current_database() and state = 'active' and wait_event = 'PgSleep'`,
  );
