import { query } from '../database.ts';
import { ask, Notes, notesTable } from '../load.ts';
import { machineAddress, DATABASE_MACHINES } from '../machines.ts';
import type { Scenario, Stage } from '../scenario.ts';
import { SLOW, slow } from '../slow.ts';
import { seconds, until } from '../until.ts';

const TABLES = ['notes', 'letters', 'cards'];
const MISCONFIGURED = 78;
const STATEMENT_TIMEOUT = 3_000;

export const scenario: Scenario = {
  name: 'pooler',
  about:
    'two instances behind PgBouncer in transaction mode with four connections: right rows, deadlines, locks',
  async run(stage) {
    const tables = TABLES.map((name) => notesTable(name)).join('');
    const config = stage.config(tables + SLOW, 'server: { timeouts: { db_query: 3s } }\n');
    await refusedWithoutDirect(stage, config);
    await killedWhileProvisioning(stage, config);

    const options = { config, database: stage.url('pooler'), env: direct(stage) };
    const both = [stage.start({ ...options, machine: 'app1' }), stage.start({ ...options, machine: 'app2' })];
    for (const instance of both) await instance.whenReady();
    const locks = new LockWatch(stage.database);
    await mixedLoad(
      stage,
      both.map(({ url }) => url),
    );
    await locks.stop();
    stage.claim(
      'no session of the pooler holds a lock between two transactions',
      locks.seen.length === 0,
      locks.seen.slice(0, 3).join('; '),
    );

    const answer = await ask(both[0]!.url, slow(15));
    const took = answer.endedAt - answer.startedAt;
    stage.claim(
      'a statement that takes too long is ended by db_query',
      answer.code === '57014' && took < STATEMENT_TIMEOUT + 2_000,
      `${answer.status} ${answer.code} after ${seconds(took)}`,
    );
  },
};

const direct = (stage: Stage): Record<string, string> => ({
  SVC_DATABASE_DIRECT_URL: stage.url(DATABASE_MACHINES),
});

async function refusedWithoutDirect(stage: Stage, config: string): Promise<void> {
  const instance = stage.start({ machine: 'app1', config, database: stage.url('pooler') });
  const code = await instance.exit();
  stage.claim(
    'without a direct address the start is refused by its name',
    code === MISCONFIGURED && instance.output().includes('SVC_DATABASE_DIRECT_URL'),
    `exit code ${code}`,
  );
}

async function killedWhileProvisioning(stage: Stage, config: string): Promise<void> {
  const options = { config, database: stage.url('pooler'), env: direct(stage) };
  const first = stage.start({ ...options, machine: 'app1' });
  await until('the first start to hold a lock', 60_000, async () => (await locksHeld(stage.database)) > 0);
  await first.stop('SIGKILL');
  const killedAt = Date.now();
  const second = stage.start({ ...options, machine: 'app2' });
  await until('the locks of the killed one to be gone', 30_000, async () => {
    const held = await query<{ held: string }>(
      stage.database,
      `select count(*) as held from pg_locks join pg_stat_activity using (pid)
       where locktype = 'advisory' and client_addr = '${machineAddress('app1')}'`,
    );
    return held[0]?.held === '0';
  });
  const gone = Date.now() - killedAt;
  stage.claim('the locks of a killed start are gone at once', gone < 3_000, seconds(gone));
  await second.whenReady();
  stage.note(`the second start was ready ${seconds(Date.now() - killedAt)} after the kill`);
  await second.stop();
}

const locksHeld = async (database: string): Promise<number> =>
  Number(
    (
      await query<{ held: string }>(
        'postgres',
        `select count(*) as held from pg_locks join pg_database on pg_database.oid = pg_locks.database
         where locktype = 'advisory' and datname = $1`,
        [database],
      )
    )[0]?.held,
  );

async function mixedLoad(stage: Stage, urls: readonly string[]): Promise<void> {
  const notes = TABLES.map((name) => new Notes(stage.folder, name));
  const next = notes.map((table) => table.next(3));
  const load = stage.load({
    urls,
    clients: 24,
    total: stage.size(3_000, 10_000),
    next: (number) => {
      if (number % 50 === 49) return slow(0.1);
      return next[number % TABLES.length]!(Math.floor(number / TABLES.length));
    },
  });
  await load.done;
  stage.note(load.summary());
  stage.claim('no answer is wrong', load.wrong.length === 0, load.wrong[0]?.wrong);
  stage.claim(
    'no request failed',
    load.failed.length === 0,
    `${load.failed.length} of ${load.answers.length}`,
  );
  for (const [at, table] of TABLES.entries()) {
    const written = notes[at]!.acknowledged;
    const rows = await query<{ id: string }>(stage.database, `select id from ${table}`);
    const there = new Set(rows.map(({ id }) => id));
    const lost = written.filter((id) => !there.has(id)).length;
    stage.claim(
      `${table}: exactly the acknowledged writes are there`,
      lost === 0 && there.size === written.length,
      `${there.size} of ${written.length}`,
    );
  }
}

/** Advisory locks of sessions that come through the pooler and are in no transaction. */
class LockWatch {
  readonly seen: string[] = [];
  #stopped = false;
  readonly #done: Promise<void>;

  constructor(database: string) {
    this.#done = (async () => {
      while (!this.#stopped) {
        const held = await query<{ text: string }>(
          database,
          `select usename || ': ' || query as text from pg_locks join pg_stat_activity using (pid)
           where locktype = 'advisory' and state = 'idle' and client_addr = '${machineAddress('lb')}'`,
        );
        this.seen.push(...held.map(({ text }) => text));
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    })();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#done;
  }
}
