// Measures rooms whose members are spread over instances:
//
// node bench/realtime/rooms.ts [--instances 3] [--sockets 1000] [--rooms 100] [--messages 1000] [--seconds 20]
//
// `--sockets` sockets at each instance join rooms in turn. One member of each room sends broadcasts of 300 bytes,
// `--messages` per second in total, without receiving them. Prints lost, duplicate and reordered messages, the CPU
// time per delivery of each instance and of PostgreSQL, and how often connections of svc waited for a flush of the
// write-ahead log: notifying other instances must never need one. There is no pass criterion.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { readCpuMs, readFamilyCpuMs } from '../rest/processes.ts';
import { print, withBench, type Server } from '../backend.ts';
import type { Deliveries } from './room-members.ts';

const CONFIG = `version: 1
project: { name: bench }
server: { timeouts: { shutdown: 1s } }
database: { pool: { max: 5 } }
realtime: { limits: { connections: 100000, joins: 100000, messages: 100000 } }
tables: {}
`;

const { values } = parseArgs({
  options: {
    instances: { type: 'string', default: '3' },
    sockets: { type: 'string', default: '1000' },
    rooms: { type: 'string', default: '100' },
    messages: { type: 'string', default: '1000' },
    seconds: { type: 'string', default: '20' },
  },
});
const seconds = Number(values.seconds);

await withBench(async ({ postgres, startServer }) => {
  const servers: Server[] = [];
  for (let n = 0; n < Number(values.instances); n++) {
    servers.push(await startServer({ name: 'bench', config: CONFIG }));
  }
  const admin = new pg.Client(servers[0]?.databaseUrl);
  await admin.connect();
  const flushes = async (): Promise<number> => {
    const { rows } = await admin.query<{ n: string }>(
      `select sum(fsyncs) as n from pg_stat_io where object = 'wal' and backend_type = 'client backend'`,
    );
    return Number(rows[0]?.n ?? 0);
  };
  const program = fileURLToPath(new URL('room-members.ts', import.meta.url));
  const urls = servers.map(({ url }) => url).join();
  const child = fork(program, [urls, servers[0]?.keys.publishable ?? '', values.sockets, values.rooms]);
  try {
    await once(child, 'message');
    const talk = async (perSecond: number, forSeconds: number): Promise<Deliveries> => {
      child.send({ perSecond, seconds: forSeconds });
      const [deliveries] = (await once(child, 'message')) as [Deliveries];
      return deliveries;
    };
    // Warm up, because the code is not yet compiled.
    await talk(Number(values.messages), 3);
    const used = (): number[] => [...servers.map(({ pid }) => readCpuMs(pid)), readFamilyCpuMs(postgres.pid)];
    const before = { used: used(), flushes: await flushes() };
    const deliveries = await talk(Number(values.messages), seconds);
    const each = used().map((ms, n) =>
      (((ms - (before.used[n] ?? 0)) * 1000) / deliveries.received).toFixed(1),
    );
    print(
      `${servers.length} instances, ${deliveries.sent} messages in ${seconds} s, load ${loadavg()[0]?.toFixed(1)}: ` +
        `${deliveries.received} of ${deliveries.wanted} received, ${deliveries.duplicates} duplicates, ` +
        `${deliveries.misplaced} out of order, ${deliveries.own} received by their sender; ` +
        `ms from sending to receiving: ${deliveries.ms.map((ms) => ms.toFixed(1)).join(', ')} (median, p99, maximum); ` +
        `µs of CPU per delivery: instances ${each.slice(0, -1).join(', ')}, PostgreSQL ${each.at(-1)}; ` +
        `${(await flushes()) - before.flushes} waits for a flush of the log`,
    );
  } finally {
    child.kill('SIGKILL');
    await admin.end();
  }
});
