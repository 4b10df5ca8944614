import { createClient, type RealtimeChannel, type SupabaseClient } from '@supabase/supabase-js';
import { killNode, query, setSynchronous, settled, startNode, switchover } from '../database.ts';
import { failOver } from '../failover.ts';
import { PUBLISHABLE_KEY, SECRET_KEY } from '../instance.ts';
import { DATABASE_MACHINES, type DatabaseMachine } from '../machines.ts';
import { RETRYING, type Scenario, type Stage } from '../scenario.ts';
import { seconds, until } from '../until.ts';

const WORDS = `
  words:
    realtime: true
    rls: [{ operations: [select], using: "true" }]
    fields: [{ name: id, type: integer, primary_key: true }]
`;
/**
 * Maximum time between the first write on the next primary and the first change that a client receives. It includes
 * the pauses of the library.
 */
const LIVE_WITHIN = 10_000;

export const scenario: Scenario = {
  name: 'realtime',
  about: 'another primary under writes: clients of realtime join again by themselves and miss nothing',
  async run(stage) {
    const config = stage.config(WORDS);
    const all = await stage.startThree({ config, database: stage.url(DATABASE_MACHINES) });
    await setSynchronous(true);
    const readers = all.map(({ url }) => new Reader(url));
    stage.afterwards(
      async () => await Promise.all(readers.map(async (reader) => await reader.close())).then(),
    );
    await until('all readers to be subscribed', 60_000, () => readers.every(({ joins }) => joins === 1));
    const writer = new Writer();
    stage.afterwards(() => writer.stop().then());
    await until('changes to come', 30_000, () => readers.every(({ heardAt }) => heardAt.length > 50));
    await round(stage, 'planned', readers, (leader) => switchover(leader));
    await round(stage, 'killed', readers, (leader) => killNode(leader));
    const acknowledged = await writer.stop();
    const rows = await query<{ id: number }>(stage.database, 'select id from words');
    const stored = new Set(rows.map(({ id }) => id));
    const lost = acknowledged.filter((id) => !stored.has(id));
    stage.claim(
      'no acknowledged write is lost',
      lost.length === 0,
      `${lost.length} of ${acknowledged.length}`,
    );
    for (const [at, reader] of readers.entries()) {
      const isSame = (): boolean =>
        reader.rows.size === stored.size && [...stored].every((id) => reader.rows.has(id));
      await until('the reader to have all rows', 30_000, isSame).catch(() => undefined);
      const missing = [...stored].filter((id) => !reader.rows.has(id));
      stage.claim(
        `reader ${at + 1} has all rows, by events and by loading when it was subscribed`,
        isSame(),
        `${missing.length} of ${stored.size} missing, joined ${reader.joins} times`,
      );
      stage.claim(`reader ${at + 1} received nothing twice`, reader.twice === 0, String(reader.twice));
    }
  },
};

async function round(
  stage: Stage,
  name: string,
  readers: readonly Reader[],
  end: (leader: DatabaseMachine) => Promise<void> | void,
): Promise<void> {
  const leader = await settled(true);
  const joins = readers.map((reader) => reader.joins);
  const { startedAt, newPrimaryAt } = await failOver(leader, () => end(leader));
  await until('readers to join again', 60_000, () =>
    readers.every((reader, at) => reader.joins > joins[at]!),
  ).catch(() => undefined);
  const again = readers.every((reader, at) => reader.joins > joins[at]!);
  stage.claim(`${name}: all clients joined again by themselves`, again);
  const firsts = (): number[] => readers.map((reader) => reader.firstHeardAfterJoin(newPrimaryAt));
  await until('changes to come again', 60_000, () => firsts().every(Number.isFinite)).catch(() => undefined);
  const latest = Math.max(...firsts()) - newPrimaryAt;
  stage.note(`${name}: the next primary after ${seconds(newPrimaryAt - startedAt)}`);
  stage.claim(
    `${name}: changes come within 10 s of the next primary`,
    latest <= LIVE_WITHIN,
    seconds(latest),
  );
  startNode(leader);
  await settled(true);
}

/** Loads the rows whenever it is subscribed, and applies the changes that it receives. */
class Reader {
  readonly rows = new Set<number>();
  readonly heardAt: number[] = [];
  joins = 0;
  twice = 0;
  #joinedAt = 0;
  #heard = new Set<number>();
  readonly #client: SupabaseClient;

  constructor(url: string) {
    this.#client = createClient(url, PUBLISHABLE_KEY);
    const channel: RealtimeChannel = this.#client
      .channel('words')
      .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'words' }, (change) => {
        const id = Number(change.new['id']);
        if (this.#heard.has(id)) this.twice += 1;
        this.#heard.add(id);
        this.rows.add(id);
        this.heardAt.push(Date.now());
      });
    channel.subscribe((status: string) => {
      if (status !== 'SUBSCRIBED') return;
      this.joins += 1;
      this.#joinedAt = Date.now();
      void this.#load();
    });
  }

  /** Infinity until there is one. */
  firstHeardAfterJoin(time: number): number {
    if (this.#joinedAt < time) return Number.POSITIVE_INFINITY;
    return this.heardAt.find((at) => at >= this.#joinedAt) ?? Number.POSITIVE_INFINITY;
  }

  async close(): Promise<void> {
    await this.#client.removeAllChannels();
    await this.#client.realtime.disconnect();
  }

  async #load(): Promise<void> {
    await until('the rows', 60_000, async () => {
      const rows: number[] = [];
      for (;;) {
        const { data, error } = await this.#client
          .from('words')
          .select('id')
          .order('id')
          .range(rows.length, rows.length + 999);
        if (error) return false;
        rows.push(...data.map(({ id }) => id as number));
        if (data.length < 1_000) break;
      }
      for (const id of rows) this.rows.add(id);
      return true;
    });
  }
}

/** Writes one row after the other with ascending numbers, even after a failure. */
class Writer {
  readonly #acknowledged: number[] = [];
  #isOver = false;
  readonly #running: Promise<void>;

  constructor() {
    this.#running = this.#run();
  }

  async stop(): Promise<readonly number[]> {
    this.#isOver = true;
    await this.#running;
    return this.#acknowledged;
  }

  async #run(): Promise<void> {
    for (let id = 1; !this.#isOver; id++) {
      const answer = await fetch(`${RETRYING}/rest/v1/words`, {
        method: 'POST',
        headers: { apikey: SECRET_KEY, 'content-type': 'application/json' },
        body: JSON.stringify({ id }),
        signal: AbortSignal.timeout(15_000),
      }).catch(() => undefined);
      if (answer?.status === 201) this.#acknowledged.push(id);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
