// Rooms whose members are spread over instances:
//
//   node bench/realtime/rooms.ts [--instances 3] [--sockets 1000] [--rooms 100] [--messages 1000] [--seconds 20]
//
// So many sockets at each instance join rooms in turn; one member of each room sends broadcasts of 300 bytes, so many a
// second in all, without hearing them itself. What is lost, what comes twice or in another order than it was sent, the
// processor time of each instance and of PostgreSQL for a delivery, and how often the connections of svc waited for the
// write-ahead log to be on disk: telling other instances needs that never. Prints; gates nothing.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { cpuOf, cpuOfFamily } from '../rest/processes.ts';
import { print, withBench, type Server } from '../backend.ts';
import type { Told } from './room-members.ts';

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
    const talk = async (perSecond: number, forSeconds: number): Promise<Told> => {
      child.send({ perSecond, seconds: forSeconds });
      const [told] = (await once(child, 'message')) as [Told];
      return told;
    };
    // Code is not compiled yet.
    await talk(Number(values.messages), 3);
    const used = (): number[] => [...servers.map(({ pid }) => cpuOf(pid)), cpuOfFamily(postgres.pid)];
    const before = { used: used(), flushes: await flushes() };
    const told = await talk(Number(values.messages), seconds);
    const each = used().map((ms, n) => (((ms - (before.used[n] ?? 0)) * 1000) / told.heard).toFixed(1));
    print(
      `${servers.length} instances, ${told.sent} messages in ${seconds} s, load ${loadavg()[0]?.toFixed(1)}: ` +
        `${told.heard} of ${told.wanted} heard, ${told.twice} twice, ${told.misplaced} out of order, ${told.own} by their sender; ` +
        `ms from being sent: ${told.ms.map((ms) => ms.toFixed(1)).join(', ')} (median, p99, most); ` +
        `µs of processor for a delivery: instances ${each.slice(0, -1).join(', ')}, PostgreSQL ${each.at(-1)}; ` +
        `${(await flushes()) - before.flushes} times the log was waited for`,
    );
  } finally {
    child.kill('SIGKILL');
    await admin.end();
  }
});
