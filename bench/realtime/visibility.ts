// Measures the cost of visibility checks for changed rows:
//
// node bench/realtime/visibility.ts [--groups 100] [--changes 100] [--rounds 10]
//
// `--groups` users subscribe to one table whose policy shows each user only their own rows. In each round one
// transaction inserts `--changes` rows for each of them. Prints the CPU time of svc and PostgreSQL, and the time from
// the commit until the last delivery, per user and row. There is no pass criterion.
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { readCpuMs, readFamilyCpuMs } from '../rest/processes.ts';
import { anonymous, median, print, until, withBench, OWN_ENTRIES } from '../backend.ts';
import { Subscriber } from './subscriber.ts';

type Sample = { readonly svc: number; readonly postgres: number; readonly elapsed: number };

const { values } = parseArgs({
  options: {
    groups: { type: 'string', default: '100' },
    changes: { type: 'string', default: '100' },
    rounds: { type: 'string', default: '10' },
  },
});
const groups = Number(values.groups);
const changes = Number(values.changes);
const rounds = Number(values.rounds);

await withBench(async ({ postgres, startServer }) => {
  const server = await startServer({ name: 'bench', config: OWN_ENTRIES });
  const owners: string[] = [];
  const subscribers: Subscriber[] = [];
  for (let n = 0; n < groups; n++) {
    const { id, token } = await anonymous(server);
    owners.push(id);
    subscribers.push(await Subscriber.open(server, 'entries', token));
  }
  const client = new pg.Client({ connectionString: server.databaseUrl });
  await client.connect();
  const received = (): number => subscribers.reduce((sum, { ids }) => sum + ids.length, 0);
  const samples: Sample[] = [];
  // Skip the first rounds, because the code is not yet compiled.
  for (let round = -3; round < rounds; round++) {
    const before = {
      svc: readCpuMs(server.pid),
      postgres: readFamilyCpuMs(postgres.pid),
      received: received(),
    };
    await client.query(
      `insert into public.entries (owner, text)
        select ($1::uuid[])[1 + n % $2::integer], 'a line of text' from generate_series(1, $3::integer) n`,
      [owners, groups, changes],
    );
    const committedAt = performance.now();
    await until(() => received() - before.received >= changes);
    const lastAt = Math.max(...subscribers.map(({ lastReceivedAt }) => lastReceivedAt));
    const each = (ms: number): number => (ms * 1000) / (groups * changes);
    if (round < 0) continue;
    samples.push({
      svc: each(readCpuMs(server.pid) - before.svc),
      postgres: each(readFamilyCpuMs(postgres.pid) - before.postgres),
      elapsed: each(lastAt - committedAt),
    });
  }
  const mean = (read: (sample: Sample) => number): string =>
    (samples.reduce((sum, sample) => sum + read(sample), 0) / samples.length).toFixed(1);
  print(
    `${groups} groups, ${changes} changes, load ${loadavg()[0]?.toFixed(1)}; µs per group and change: ` +
      `svc ${mean(({ svc }) => svc)} + PostgreSQL ${mean((sample) => sample.postgres)} of CPU, ` +
      `elapsed ${median(samples.map(({ elapsed }) => elapsed)).toFixed(1)}`,
  );
  for (const subscriber of subscribers) subscriber.close();
  await client.end();
});
