// What a subscriber costs those who write:
//
//   node bench/realtime/inserts.ts [--writers 32] [--seconds 3] [--rounds 4] [--apart]
//
// So many connections insert one row after the other, durably, in turns without svc, with a process in its place that
// throws the write-ahead log away as it comes, with svc but nobody who listens, and with one socket that hears of each
// hundredth row by a policy. Nothing of svc is in their transactions: what throughput loses on a machine with few
// processors is the time of svc and of the WAL sender, so processor time per row of the writers' own backends stands
// beside it. With `--apart` (Linux) the writers and their backends have one processor, and svc and the rest of PostgreSQL
// another, in all turns: what writers lose where there is a processor left for the rest. Prints; gates nothing.
import { execFileSync, fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { must } from '../../src/lib/assert.ts';
import { cpuOf } from '../rest/processes.ts';
import { anonymous, median, print, until, withBench, type Server, OWN_ENTRIES } from '../backend.ts';
import { Subscriber } from './subscriber.ts';
import type { Written } from './writers.ts';

const MODES = ['nothing', 'bare reader', 'stream', 'subscriber'] as const;
type Mode = (typeof MODES)[number];

/** What reads the log. */
type Reader = { readonly pid: number; stop(): Promise<void> };

/** `perSecond`: rows; the others are µs of processor time per row. */
type Sample = {
  readonly perSecond: number;
  readonly backends: number;
  readonly writers: number;
  readonly walSender: number;
  readonly reader: number;
};

const { values } = parseArgs({
  options: {
    writers: { type: 'string', default: '32' },
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '4' },
    apart: { type: 'boolean', default: false },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);

await withBench(async ({ postgres, startServer }) => {
  const start = async (): Promise<Server> => await startServer({ name: 'bench', config: OWN_ENTRIES });
  const first = await start();
  const user = await anonymous(first);
  const owner = new pg.Client({ connectionString: first.databaseUrl });
  await owner.connect();
  await first.stop();
  const program = fileURLToPath(new URL('writers.ts', import.meta.url));
  const child = fork(program, [first.databaseUrl, values.writers, user.id]);
  try {
    const [{ backends }] = (await once(child, 'message')) as [{ backends: number[] }];
    const writers = { child, backends };
    // What it starts from now on has its processor.
    pin(1, [postgres.pid]);
    pin(0, [must(child.pid, 'the writers'), ...backends]);
    const samples = new Map<Mode, Sample[]>(MODES.map((mode) => [mode, []]));
    for (let round = 0; round <= rounds; round++) {
      let server: Server | undefined;
      // Each comes first as often as last.
      for (const mode of round % 2 === 0 ? MODES : MODES.toReversed()) {
        if (mode === 'nothing' || mode === 'bare reader') {
          await server?.stop();
          server = undefined;
        } else server ??= await start();
        const bare = mode === 'bare reader' ? await startBareReader(first.databaseUrl) : undefined;
        const subscriber =
          server && mode === 'subscriber' ? await Subscriber.open(server, 'entries', user.token) : undefined;
        const taken = await sample({ reader: server ?? bare, subscriber, owner, writers });
        subscriber?.close();
        await bare?.stop();
        // In the first round code is not compiled yet.
        if (round > 0) samples.get(mode)?.push(taken);
      }
      await server?.stop();
    }
    report(samples);
  } finally {
    child.kill('SIGKILL');
    await owner.end();
  }
});

async function sample({
  reader,
  subscriber,
  owner,
  writers: { child, backends },
}: {
  reader: Reader | undefined;
  subscriber: Subscriber | undefined;
  owner: pg.Client;
  writers: { child: ChildProcess; backends: readonly number[] };
}): Promise<Sample> {
  const walSender = reader ? await walSenderOf(owner) : undefined;
  if (reader && walSender !== undefined) pin(1, [reader.pid, walSender]);
  const used = (): { backends: number; walSender: number; reader: number } => ({
    backends: backends.reduce((sum, pid) => sum + cpuOf(pid), 0),
    walSender: walSender === undefined ? 0 : cpuOf(walSender),
    reader: reader ? cpuOf(reader.pid) : 0,
  });
  const before = used();
  child.send({ seconds });
  const [written] = (await once(child, 'message')) as [Written];
  if (subscriber) await until(() => subscriber.ids.length >= written.visible);
  const after = used();
  const perRow = (ms: number): number => (ms * 1000) / written.rows;
  return {
    perSecond: written.rows / seconds,
    backends: perRow(after.backends - before.backends),
    writers: perRow(written.cpuMs),
    walSender: perRow(after.walSender - before.walSender),
    reader: perRow(after.reader - before.reader),
  };
}

async function startBareReader(databaseUrl: string): Promise<Reader> {
  const child = fork(fileURLToPath(new URL('reader.ts', import.meta.url)), [databaseUrl]);
  await once(child, 'message');
  return {
    pid: must(child.pid, 'the reader'),
    stop: async () => {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** With all their threads, on this processor only. */
function pin(processor: number, pids: readonly number[]): void {
  if (!values.apart) return;
  for (const pid of pids) execFileSync('taskset', ['-a', '-p', '-c', String(processor), String(pid)]);
}

/** The process of PostgreSQL that the log is read from; it is there once changes are read. */
async function walSenderOf(owner: pg.Client): Promise<number> {
  let pid: number | undefined;
  await until(async () => {
    const { rows } = await owner.query<{ pid: number }>(
      `select pid from pg_stat_replication where state = 'streaming'`,
    );
    pid = rows[0]?.pid;
    return pid !== undefined;
  });
  return pid ?? 0;
}

function report(samples: ReadonlyMap<Mode, readonly Sample[]>): void {
  print(`${values.writers} writers, rounds of ${seconds} s, load ${loadavg()[0]?.toFixed(1)}; µs per row`);
  const ratioTo = (
    other: Mode,
    taken: readonly Sample[],
    read: (one: Sample, without: Sample) => number,
  ): string => {
    const others = samples.get(other) ?? [];
    return median(taken.flatMap((one, n) => (others[n] ? [read(one, others[n])] : []))).toFixed(2);
  };
  const throughput = (one: Sample, without: Sample): number => one.perSecond / without.perSecond;
  for (const [mode, taken] of samples) {
    const middle = (read: (one: Sample) => number): string => median(taken.map(read)).toFixed(1);
    const ratio = (read: (one: Sample, without: Sample) => number): string => ratioTo('nothing', taken, read);
    const ofWriters = (one: Sample): number => one.backends + one.writers;
    const whole = (one: Sample): number => ofWriters(one) + one.walSender + one.reader;
    print(
      `${mode.padEnd(11)} ${Math.round(Number(middle((one) => one.perSecond)))} rows a second, ${ratio(throughput)} of without, ` +
        `${ratioTo('bare reader', taken, throughput)} of a bare reader's, ${ratioTo('stream', taken, throughput)} of the stream's; ` +
        `backends ${middle((one) => one.backends)}, WAL sender ${middle((one) => one.walSender)}, reader ${middle((one) => one.reader)}, ` +
        `writing process ${middle((one) => one.writers)}; ` +
        `with the readers' time given back ${ratio((one, without) => throughput(one, without) * (whole(one) / ofWriters(one)))}; ` +
        `backends ${ratio((one, without) => one.backends / without.backends)} of without`,
    );
  }
}
