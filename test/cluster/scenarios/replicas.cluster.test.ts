import { killNode, query, settled } from '../database.ts';
import { ask, Notes, NOTES, type Call } from '../load.ts';
import { DATABASE_MACHINES, type DatabaseMachine } from '../machines.ts';
import type { Scenario, Stage } from '../scenario.ts';
import { until } from '../until.ts';

const WHERE = `
rpc:
  answered_by_replica:
    language: sql
    volatility: stable
    returns: { type: boolean }
    body: select pg_is_in_recovery()
`;

/** Counts the answers of replicas. */
class Counted {
  byReplica = 0;
  all = 0;
  readonly call: Call = {
    kind: 'read',
    path: '/rest/v1/rpc/answered_by_replica',
    wrong: (text) => {
      this.all += 1;
      if (text === 'true') this.byReplica += 1;
      return undefined;
    },
  };
}

export const scenario: Scenario = {
  name: 'replicas',
  about: 'what one instance writes another reads from a replica: never older, however late the replica is',
  async run(stage) {
    const leader = await settled();
    const followers = DATABASE_MACHINES.filter((machine) => machine !== leader);
    stage.afterwards(async () => {
      for (const machine of DATABASE_MACHINES) await delayReplay(machine, 0);
    });
    const options = {
      config: stage.config(NOTES + WHERE),
      database: stage.url(DATABASE_MACHINES),
      env: { SVC_DATABASE_READ_URL: stage.url(DATABASE_MACHINES) },
    };
    const a = stage.start({ ...options, machine: 'app1' });
    await a.whenReady();
    const b = stage.start({ ...options, machine: 'app2' });
    await b.whenReady();
    await until('reads to go to a replica', 30_000, async () => {
      const counted = new Counted();
      await Promise.all([ask(a.url, counted.call), ask(b.url, counted.call)]);
      return counted.byReplica === 2;
    });

    await readsWithoutWriters(stage, b.url);
    await readAfterWrite(stage, a.url, b.url, 'replicas on time');
    for (const machine of followers) await delayReplay(machine, 200);
    await readAfterWrite(stage, a.url, b.url, 'replicas 200 ms late');
    for (const machine of followers) await delayReplay(machine, 0);

    const written = await ask(a.url, new Notes(stage.folder).write());
    stage.claim('a last write', written.status === 201);
    killNode(leader);
    const reads = stage.load({
      urls: [b.url],
      clients: 4,
      total: 20,
      next: () => ({ kind: 'read', path: '/rest/v1/notes?select=id&limit=1' }),
    });
    await reads.done;
    stage.claim('the primary is away: reads go on', reads.failed.length === 0, reads.summary());
  },
};

async function readsWithoutWriters(stage: Stage, url: string): Promise<void> {
  const counted = new Counted();
  const load = stage.load({ urls: [url], clients: 16, total: 1_000, next: () => counted.call });
  await load.done;
  stage.claim('with no writers nothing fails', load.failed.length === 0, load.summary());
  stage.claim(
    'with no writers at least nine of ten reads are answered by a replica',
    counted.byReplica >= counted.all * 0.9,
    `${counted.byReplica} of ${counted.all}`,
  );
}

/** 16 writers. Each note is read through the other instance as soon as its write is acknowledged. */
async function readAfterWrite(stage: Stage, writeAt: string, readAt: string, name: string): Promise<void> {
  const notes = new Notes(stage.folder);
  const written: string[] = [];
  const load = stage.load({
    urls: [writeAt, readAt],
    clients: 32,
    total: stage.size(1_000, 5_000) * 2,
    // Even clients write at one instance, and odd clients read the last note at the other.
    next: (_, client) => {
      const last = notes.acknowledged.at(-1);
      if (client % 2 === 0 || last === undefined) return notes.write();
      written.push(last);
      return notes.readNote(last);
    },
  });
  await load.done;
  stage.note(`${name}: ${load.summary()}`);
  stage.claim(
    `${name}: no read is older than what was acknowledged`,
    load.wrong.length === 0,
    `${load.wrong.length} of ${written.length}; ${load.wrong[0]?.wrong ?? ''}`,
  );
  const failed = load.failed.length - load.wrong.length;
  stage.claim(`${name}: nothing fails`, failed === 0, String(failed));
}

/** How long after its commit a replica replays a transaction, in milliseconds. */
async function delayReplay(machine: DatabaseMachine, milliseconds: number): Promise<void> {
  await query('postgres', `alter system set recovery_min_apply_delay = ${milliseconds}`, [], machine);
  await query('postgres', 'select pg_reload_conf()', [], machine);
}
