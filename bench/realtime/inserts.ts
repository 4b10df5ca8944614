// Measures the cost of subscribers for writers:
//
// node bench/realtime/inserts.ts [--writers 32] [--seconds 3] [--rounds 4] [--apart]
//
// `--writers` connections insert single rows durably. The modes alternate: without svc, with a process that only
// discards the write-ahead log, with svc but no subscriber, and with one socket that receives every hundredth row
// through a policy. svc adds nothing to the transactions: on a machine with few CPUs, throughput drops because svc
// and the WAL sender need CPU time. Therefore the CPU time per row of the writers' backends is printed too. With
// `--apart` (Linux) the writers and their backends run on one CPU, and svc and the rest of PostgreSQL on another:
// this measures the loss of writers when a CPU is available for the rest. Prints figures without a pass criterion.
import { execFileSync, fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { must } from '../../src/lib/assert.ts';
import { readCpuMs } from '../rest/processes.ts';
import { anonymous, median, print, until, withBench, type Server, OWN_ENTRIES } from '../backend.ts';
import { Subscriber } from './subscriber.ts';
import type { Written } from './writers.ts';

const MODES = ['nothing', 'bare reader', 'stream', 'subscriber'] as const;
type Mode = (typeof MODES)[number];

/** A process that reads the write-ahead log. */
type Reader = { readonly pid: number; stop(): Promise<void> };

/** `perSecond`: rows. The others are µs of CPU time per row. */
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
    // Processes that it starts from now on inherit this CPU.
    pin(1, [postgres.pid]);
    pin(0, [must(child.pid, 'the writers'), ...backends]);
    const samples = new Map<Mode, Sample[]>(MODES.map((mode) => [mode, []]));
    for (let round = 0; round <= rounds; round++) {
      let server: Server | undefined;
      // Alternate the order, so that each mode is first equally often.
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
        // Skip the first round, because the code is not yet compiled.
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
  const walSender = reader ? await findWalSender(owner) : undefined;
  if (reader && walSender !== undefined) pin(1, [reader.pid, walSender]);
  const used = (): { backends: number; walSender: number; reader: number } => ({
    backends: backends.reduce((sum, pid) => sum + readCpuMs(pid), 0),
    walSender: walSender === undefined ? 0 : readCpuMs(walSender),
    reader: reader ? readCpuMs(reader.pid) : 0,
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

/** Pins processes with all their threads to one CPU. */
function pin(processor: number, pids: readonly number[]): void {
  if (!values.apart) return;
  for (const pid of pids) execFileSync('taskset', ['-a', '-p', '-c', String(processor), String(pid)]);
}

/** Returns the pid of the WAL sender, which exists once changes are read. */
async function findWalSender(owner: pg.Client): Promise<number> {
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
    otherMode: Mode,
    taken: readonly Sample[],
    read: (sample: Sample, without: Sample) => number,
  ): string => {
    const otherSamples = samples.get(otherMode) ?? [];
    return median(
      taken.flatMap((sample, n) => (otherSamples[n] ? [read(sample, otherSamples[n])] : [])),
    ).toFixed(2);
  };
  const throughput = (sample: Sample, without: Sample): number => sample.perSecond / without.perSecond;
  for (const [mode, taken] of samples) {
    const middle = (read: (sample: Sample) => number): string => median(taken.map(read)).toFixed(1);
    const ratio = (read: (sample: Sample, without: Sample) => number): string =>
      ratioTo('nothing', taken, read);
    const writersCpu = (sample: Sample): number => sample.backends + sample.writers;
    const whole = (sample: Sample): number => writersCpu(sample) + sample.walSender + sample.reader;
    print(
      `${mode.padEnd(11)} ${Math.round(Number(middle((sample) => sample.perSecond)))} rows/s, ${ratio(throughput)} of the throughput without svc, ` +
        `${ratioTo('bare reader', taken, throughput)} of a bare reader's, ` +
        `${ratioTo('stream', taken, throughput)} of the stream's; ` +
        `backends ${middle((sample) => sample.backends)}, WAL sender ${middle((sample) => sample.walSender)}, ` +
        `reader ${middle((sample) => sample.reader)}, ` +
        `writing process ${middle((sample) => sample.writers)}; ` +
        `throughput without the CPU time of readers ${ratio((sample, without) => throughput(sample, without) * (whole(sample) / writersCpu(sample)))}; ` +
        `backends ${ratio((sample, without) => sample.backends / without.backends)} of their time without svc`,
    );
  }
}
