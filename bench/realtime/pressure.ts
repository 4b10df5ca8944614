// How late a change comes while many are written:
//
//   node bench/realtime/pressure.ts [--rows 2000] [--seconds 20]
//
// So many single rows are inserted in a second, evenly, by eight connections; one socket may see each hundredth of them.
// From the answer to the insert until the socket has it, in milliseconds, over each third of the time: a reader that falls
// behind has a last third that is later than the first. Prints; gates nothing.
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { anonymous, OWN_ENTRIES, print, until, withBench } from '../backend.ts';
import { Subscriber } from './subscriber.ts';

const CONNECTIONS = 8;
const EACH = 100;
const NOBODY = '00000000-0000-4000-8000-000000000000';

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '2000' },
    seconds: { type: 'string', default: '20' },
  },
});
const perSecond = Number(values.rows);
const seconds = Number(values.seconds);

await withBench(async ({ startServer }) => {
  const server = await startServer({ name: 'bench', config: OWN_ENTRIES });
  const user = await anonymous(server);
  const subscriber = await Subscriber.open(server, 'entries', user.token);
  const clients = Array.from({ length: CONNECTIONS }, () => new pg.Client(server.databaseUrl));
  await Promise.all(clients.map(async (client) => await client.connect()));
  /** By `performance.now()`, by id: when the answer to the insert came. */
  const answeredAt = new Map<number, number>();
  let written = 0;

  async function write(forSeconds: number): Promise<void> {
    const startedAt = performance.now();
    const first = written;
    await Promise.all(
      clients.map(async (client) => {
        for (;;) {
          const due = startedAt + ((written - first) * 1000) / perSecond;
          if (due > startedAt + forSeconds * 1000) return;
          const isSeen = written++ % EACH === 0;
          const early = due - performance.now();
          if (early > 1) await new Promise((resolve) => setTimeout(resolve, early));
          const { rows } = await client.query<{ id: string }>({
            name: 'insert',
            text: 'insert into public.entries (owner, text) values ($1, $2) returning id',
            values: [isSeen ? user.id : NOBODY, 'a line of text that somebody wrote'],
          });
          if (isSeen) answeredAt.set(Number(rows[0]?.id), performance.now());
        }
      }),
    );
  }

  // Code is not compiled yet.
  await write(3);
  await until(() => subscriber.ids.length === answeredAt.size);
  answeredAt.clear();
  subscriber.forget();
  const before = { written, at: performance.now() };
  await write(seconds);
  const rate = ((written - before.written) * 1000) / (performance.now() - before.at);
  await until(() => subscriber.ids.length === answeredAt.size);
  const late = subscriber.ids.map((id, n) => (subscriber.times[n] ?? 0) - (answeredAt.get(id) ?? Number.NaN));
  const third = Math.ceil(late.length / 3);
  const at = (some: readonly number[], share: number): string =>
    (some.toSorted((a, b) => a - b)[Math.floor(some.length * share)] ?? Number.NaN).toFixed(1);
  const told = (some: readonly number[]): string => `${at(some, 0.5)} (p99 ${at(some, 0.99)})`;
  print(
    `${Math.round(rate)} rows a second, ${late.length} heard of ${answeredAt.size}, load ${loadavg()[0]?.toFixed(1)}; ` +
      `ms from the answer: ${told(late)}; by thirds ${[0, 1, 2].map((n) => told(late.slice(n * third, (n + 1) * third))).join(', ')}`,
  );
  subscriber.close();
  await Promise.all(clients.map(async (client) => await client.end()));
});
