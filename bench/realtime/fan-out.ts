// Compares the cost of sockets and deliveries with a floor that only writes a finished frame to each socket:
//
// node bench/realtime/fan-out.ts [--sockets 10000] [--broadcasts 10] [--rounds 4] [--before folder]
//
// Opens `--sockets` sockets at each server, which join one topic. In each round every server in turn receives
// broadcasts of 150 bytes for all of its sockets. Memory and CPU time are those of the server process, read from
// /proc. `--before`: another checkout, measured in the same rounds. Prints figures without a pass criterion.
import { fork, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { loadavg } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readCpuMs, readMemory } from '../rest/processes.ts';
import { median, print, until, withBench } from '../backend.ts';

type Target = { readonly name: string; readonly url: string; readonly pid: number; readonly key: string };
/** Controls sockets in a separate process (see listeners.ts). Resolves with the number of received messages. */
type Listeners = (command: 'begin' | 'received' | 'end') => Promise<number>;
type Sample = { readonly lost: number; readonly perSecond: number; readonly cpuUs: number };

/** Broadcasts are sent at a constant rate, so that the offered load is known. */
const DELIVERIES_PER_SECOND = 40_000;
const CONFIG = `version: 1
project: { name: bench }
server: { timeouts: { shutdown: 1s } }
realtime: { limits: { connections: 100000, joins: 100000, messages: 100000 } }
tables: {}
`;

const { values } = parseArgs({
  options: {
    sockets: { type: 'string', default: '10000' },
    broadcasts: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '4' },
    before: { type: 'string' },
  },
});
const sockets = Number(values.sockets);
const broadcasts = Number(values.broadcasts);
const rounds = Number(values.rounds);
const children: ChildProcess[] = [];

await withBench(async ({ startServer }) => {
  try {
    const svc = await startServer({ name: 'bench', config: CONFIG });
    const targets: Target[] = [
      { ...svc, name: 'svc', key: svc.keys.publishable },
      { ...(await startFloor()), name: 'floor', key: '' },
    ];
    if (values.before !== undefined) {
      const before = await startServer({ name: 'before', config: CONFIG, checkout: values.before });
      targets.push({ ...before, name: 'before', key: before.keys.publishable });
    }
    await measure(targets);
  } finally {
    for (const child of children) child.kill('SIGKILL');
  }
});

async function measure(targets: readonly Target[]): Promise<void> {
  const listeners = new Map<Target, Listeners>();
  for (const target of targets) {
    await send(target, 0);
    const empty = readMemory(target.pid).rssMb;
    listeners.set(target, await openListeners(target));
    const more = Math.round(readMemory(target.pid).rssMb - empty);
    print(`${target.name}: ${sockets} sockets take ${more} MB over ${Math.round(empty)} MB`);
  }
  const samples = new Map<Target, Sample[]>(targets.map((target) => [target, []]));
  for (let round = 0; round <= rounds; round++) {
    // Alternate the order, so that each server is first equally often.
    for (const target of round % 2 === 0 ? targets : targets.toReversed()) {
      const ask = listeners.get(target);
      if (!ask) continue;
      const measured = await sample(target, ask);
      // Skip the first round, because the code is not yet compiled.
      if (round > 0) samples.get(target)?.push(measured);
    }
  }
  print(`\n${sockets * broadcasts * rounds} deliveries offered to each, load ${loadavg()[0]?.toFixed(1)}`);
  const [, floor] = targets;
  const cpu = (target: Target | undefined): number[] =>
    (target && samples.get(target)?.map(({ cpuUs }) => cpuUs)) ?? [];
  for (const target of targets) {
    const measured = samples.get(target) ?? [];
    const lost = measured.reduce((sum, { lost: count }) => sum + count, 0);
    const perSecond = Math.round(median(measured.map((value) => value.perSecond)));
    const ratios = cpu(target).map((value, round) => value / (cpu(floor)[round] ?? Number.NaN));
    print(
      `${target.name.padEnd(7)} ${lost} lost, ${perSecond} per second, µs of CPU each: ` +
        `${cpu(target)
          .map((value) => value.toFixed(1))
          .join(' ')}, median ${median(cpu(target)).toFixed(1)}; ` +
        `of the floor's ${median(ratios).toFixed(2)}`,
    );
  }
}

async function sample(target: Target, ask: Listeners): Promise<Sample> {
  await ask('begin');
  const cpu = readCpuMs(target.pid);
  const startedAt = performance.now();
  for (let n = 0; n < broadcasts; n++) {
    const due = startedAt + (n * sockets * 1000) / DELIVERIES_PER_SECOND;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
    await send(target, n);
  }
  const wanted = sockets * broadcasts;
  await until(async () => (await ask('received')) >= wanted, 20_000).catch(() => undefined);
  const seconds = (performance.now() - startedAt) / 1000;
  const cpuMs = readCpuMs(target.pid) - cpu;
  const received = await ask('end');
  return { lost: wanted - received, perSecond: received / seconds, cpuUs: (cpuMs * 1000) / received };
}

async function openListeners({ url, key }: Target): Promise<Listeners> {
  const program = fileURLToPath(new URL('listeners.ts', import.meta.url));
  const child = fork(program, [url, key, String(sockets)]);
  children.push(child);
  await once(child, 'message');
  return async (command) => {
    child.send(command);
    const [reply] = (await once(child, 'message')) as [{ received: number }];
    return reply.received;
  };
}

async function startFloor(): Promise<{ url: string; pid: number }> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('floor.ts', import.meta.url))], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  const [url] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  return { url, pid: child.pid ?? 0 };
}

async function send({ url, key }: Target, n: number): Promise<void> {
  const answer = await fetch(`${url}/realtime/v1/api/broadcast/bench/events/x`, {
    method: 'POST',
    headers: { apikey: key, 'content-type': 'application/json' },
    body: JSON.stringify({ n, text: 'x'.repeat(60) }),
  });
  if (answer.status !== 202) throw new Error(`a broadcast was answered ${answer.status}`);
}
