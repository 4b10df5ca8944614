// Measures the cost of metrics for a read by primary key (W1): pairs of servers of one build on one database, one of
// them with metrics and a scrape every second, measured in turns. Prints the CPU time per request as medians, and
// their ratio.
//
//   node bench/rest/metrics.ts [--pairs 4] [--rounds 5] [--seconds 3] [--connections 16]
//
// Needs Linux (/proc) and wrk.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { type Server, withBench } from '../backend.ts';
import type { Workload } from './dataset.ts';
import { runLoad, writeScript } from './load.ts';
import { readCpuMs } from './processes.ts';

const { values } = parseArgs({
  options: {
    pairs: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
    connections: { type: 'string', default: '16' },
  },
});
const seconds = Number(values.seconds);
const connections = Number(values.connections);

const TOKEN = 'token-of-the-bench-0123456789abcdef';
/** More frequent than Prometheus's default. */
const SCRAPE_INTERVAL_MS = 1_000;
const CONFIG = `version: 1
project: { name: bench }
tables:
  posts:
    rls: [{ operations: [select], using: published }]
    fields:
      - { name: id, type: bigint, primary_key: true, identity: by_default }
      - { name: title, type: text }
      - { name: published, type: boolean, required: true, default: true }
`;
const ROWS = `insert into posts (title) select 'Post ' || n from generate_series(1, 90000) n; analyze posts`;
const W1: Workload = {
  id: 'W1',
  title: 'one row by key',
  goal: 0,
  method: 'GET',
  request: (number) => ({ path: `/posts?id=eq.${(number % 90_000) + 1}` }),
};

type Target = { readonly server: Server; readonly script: string; readonly us: number[] };

const without: number[] = [];
const withMetrics: number[] = [];
const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
try {
  await withBench(async ({ startServer }) => {
    const start = (env: Record<string, string> = {}) =>
      startServer({ name: 'metrics', config: CONFIG, env: { SVC_LOG_LEVEL: 'warn', ...env } });
    // A process that migrates has a different heap than one that only serves.
    const first = await start();
    await fill(first.databaseUrl);
    await first.stop();
    for (let pair = 0; pair < Number(values.pairs); pair += 1) {
      const plain = createTarget(await start(), without);
      const counted = createTarget(await start({ SVC_METRICS_TOKEN: TOKEN }), withMetrics);
      const scrapes = setInterval(() => void scrape(counted.server.url), SCRAPE_INTERVAL_MS);
      for (const { server, script } of [plain, counted]) await runLoad(server.url, script, connections, 3);
      for (let round = 0; round < Number(values.rounds); round += 1)
        for (const target of round % 2 === 0 ? [plain, counted] : [counted, plain]) await sample(target);
      clearInterval(scrapes);
      await Promise.all([plain.server.stop(), counted.server.stop()]);
    }
  });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
const [before, after] = [median(without), median(withMetrics)];
process.stdout.write(
  `without ${before.toFixed(1)} µs, with ${after.toFixed(1)} µs of server CPU per request: ` +
    `${(after / before).toFixed(3)}\n`,
);

function createTarget(server: Server, us: number[]): Target {
  const headers = { apikey: server.keys.publishable };
  return {
    server,
    script: writeScript(folder, { name: String(server.pid), basePath: '/rest/v1', workload: W1, headers }),
    us,
  };
}

async function sample({ server, script, us }: Target): Promise<void> {
  const before = readCpuMs(server.pid);
  const { requests, errors } = await runLoad(server.url, script, connections, seconds);
  if (errors > 0) throw new Error(`${errors} requests failed`);
  us.push(((readCpuMs(server.pid) - before) * 1000) / requests);
}

async function scrape(url: string): Promise<void> {
  const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } });
  if (!answer.ok) throw new Error(`/metrics answered ${answer.status}`);
  await answer.text();
}

async function fill(databaseUrl: string): Promise<void> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  await client.query(ROWS);
  await client.end();
}

function median(samples: readonly number[]): number {
  return samples.toSorted((a, b) => a - b)[Math.floor(samples.length / 2)] ?? 0;
}
