// Measures the delay of changes under a high write rate:
//
// node bench/realtime/pressure.ts [--rows 2000] [--seconds 20]
//
// Eight connections insert `--rows` single rows per second at a constant rate. One socket may see every hundredth
// row. Prints the time from the response of the insert until the socket receives the row, in milliseconds, for each
// third of the run. If a reader falls behind, the last third is slower than the first. There is no pass criterion.
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { anonymous, OWN_ENTRIES, print, until, withBench } from '../backend.ts';
import { Subscriber } from './subscriber.ts';

const CONNECTIONS = 8;
const VISIBLE_EVERY = 100;
const OTHER_USER = '00000000-0000-4000-8000-000000000000';

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
  /** Time of the response to the insert, by row id, in `performance.now()`. */
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
          const isSeen = written++ % VISIBLE_EVERY === 0;
          const early = due - performance.now();
          if (early > 1) await new Promise((resolve) => setTimeout(resolve, early));
          const { rows } = await client.query<{ id: string }>({
            name: 'insert',
            text: 'insert into public.entries (owner, text) values ($1, $2) returning id',
            values: [isSeen ? user.id : OTHER_USER, 'a line of text'],
          });
          if (isSeen) answeredAt.set(Number(rows[0]?.id), performance.now());
        }
      }),
    );
  }

  // Warm up, because the code is not yet compiled.
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
  const thirds = [0, 1, 2].map((n) => late.slice(n * third, (n + 1) * third));
  const at = (values: readonly number[], share: number): string =>
    (values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN).toFixed(1);
  const describe = (values: readonly number[]): string => `${at(values, 0.5)} (p99 ${at(values, 0.99)})`;
  print(
    `${Math.round(rate)} rows a second, ${late.length} received of ${answeredAt.size}, load ${loadavg()[0]?.toFixed(1)}; ` +
      `ms from the answer: ${describe(late)}; by thirds ${thirds.map(describe).join(', ')}`,
  );
  subscriber.close();
  await Promise.all(clients.map(async (client) => await client.end()));
});
