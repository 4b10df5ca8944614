// Our data API and the real PostgREST (its JWT cache on) side by side in one run on the same database:
// interleaved rounds, medians, ratios; CPU per request of the server and of Postgres apart.
//
//   node bench/rest/main.ts [--only W1,W3] [--connections 1,16,64,256] [--seconds 3] [--rounds 3]
//
// Needs Linux (/proc) and wrk. Nothing here is a gate: machines differ, ratios of one run tell something.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.ts';
import { silentLog } from '../../src/log/log.ts';
import { startPostgrest } from '../../test/support/postgrest.ts';
import { KEYS } from '../../test/support/rest-world.ts';
import { WORKLOADS, type Workload } from './dataset.ts';
import { runLoad, writeScript, type Load } from './load.ts';
import { cpuOf, cpuOfFamily, memoryOf } from './processes.ts';

type Sample = Load & { readonly serverUs: number; readonly postgresUs: number; readonly memoryMb: number };
type Target = {
  readonly name: string;
  readonly url: string;
  readonly basePath: string;
  readonly pid: number;
  readonly headers: Readonly<Record<string, string>>;
};

// As the product starts itself: a young generation that fits the cache is collected more often and costs less memory.
const V8_FLAGS = ['--max-semi-space-size=8'];

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    connections: { type: 'string', default: '1,16,64,256' },
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '3' },
  },
});
const wanted = values.only?.split(',');
const workloads = WORKLOADS.filter((one) => !wanted || wanted.includes(one.id));
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);

const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
const postgres = await startEmbeddedPostgres({ dir: join(folder, '.svc'), log: silentLog });
try {
  const databaseUrl = await createDatabase(postgres.url);
  const ours = await startOurs(databaseUrl);
  const theirs = await startPostgrest(ours.authenticatorUrl, {
    PGRST_DB_POOL: '20',
    PGRST_JWT_CACHE_MAX_LIFETIME: '3600',
    PGRST_DB_TX_END: 'commit',
  });
  try {
    const authorization = `Bearer ${ours.token}`;
    const targets: readonly [Target, Target] = [
      {
        name: 'svc',
        url: ours.url,
        basePath: '/rest/v1',
        pid: ours.pid,
        headers: { authorization, apikey: KEYS.publishable },
      },
      { name: 'postgrest', url: theirs.url, basePath: '', pid: theirs.pid, headers: { authorization } },
    ];
    await compareAnswers(targets);
    for (const connections of values.connections.split(',').map(Number)) {
      await measure(targets, connections);
    }
  } finally {
    await theirs.stop();
    ours.stop();
  }
} finally {
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function measure(targets: readonly [Target, Target], connections: number): Promise<void> {
  print(`\n${connections} connections (ratio of throughput, higher is better; CPU in µs per request)`);
  print(
    'workload                             ratio  goal   req/s svc/prest    p50 ms      p99 ms      srv µs      pg µs       MB        errors',
  );
  for (const workload of workloads) {
    const samples: [Sample[], Sample[]] = [[], []];
    for (let round = 0; round < rounds; round++) {
      for (const [index, target] of targets.entries()) {
        samples[index === 0 ? 0 : 1].push(await sample(target, workload, connections));
      }
    }
    const [a, b] = samples.map(median) as [Sample, Sample];
    const pair = (read: (one: Sample) => number, digits = 0): string =>
      `${read(a).toFixed(digits)}/${read(b).toFixed(digits)}`.padEnd(11);
    print(
      [
        `${workload.id} ${workload.title}`.padEnd(36),
        (a.requestsPerSecond / b.requestsPerSecond).toFixed(2).padEnd(6),
        String(workload.goal).padEnd(6),
        pair((one) => one.requestsPerSecond).padEnd(17),
        pair((one) => one.p50Ms, 1),
        pair((one) => one.p99Ms, 1),
        pair((one) => one.serverUs),
        pair((one) => one.postgresUs),
        pair((one) => one.memoryMb),
        pair((one) => one.errors),
      ].join(' '),
    );
  }
}

async function sample(target: Target, workload: Workload, connections: number): Promise<Sample> {
  const prefer = workload.id === 'W7' ? { prefer: 'count=exact' } : {};
  const type = workload.body ? { 'content-type': 'application/json' } : {};
  const script = writeScript(folder, target.name, target.basePath, workload, {
    ...target.headers,
    ...prefer,
    ...type,
  });
  await runLoad(target.url, script, connections, 1);
  const server = cpuOf(target.pid);
  const database = cpuOfFamily(postgres.pid);
  const load = await runLoad(target.url, script, connections, seconds);
  return {
    ...load,
    serverUs: ((cpuOf(target.pid) - server) * 1000) / load.requests,
    postgresUs: ((cpuOfFamily(postgres.pid) - database) * 1000) / load.requests,
    memoryMb: memoryOf(target.pid),
  };
}

/** The sample in the middle by throughput. */
function median(samples: Sample[]): Sample {
  const sorted = samples.toSorted((a, b) => a.requestsPerSecond - b.requestsPerSecond);
  return sorted[Math.floor(sorted.length / 2)]!;
}

/** Fast and wrong is not fast. */
async function compareAnswers(targets: readonly [Target, Target]): Promise<void> {
  const paths = [
    '/posts?id=eq.5',
    '/posts?select=id,title&category=eq.3&order=created_at.desc&limit=20',
    '/posts?select=id,title,users(id,name),comments(id,body)&category=eq.7&order=created_at.desc&limit=20&comments.limit=3&comments.order=created_at.desc',
    '/posts?order=id&limit=1000',
    '/rpc/add_up?a=1&b=2',
  ];
  for (const path of paths) {
    const [a, b] = await Promise.all(
      targets.map(async ({ url, basePath, headers }) => {
        const answer = await fetch(`${url}${basePath}${path}`, { headers });
        if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
        return JSON.stringify(sortKeys(await answer.json()));
      }),
    );
    if (a !== b) throw new Error(`${path}: the answers differ`);
  }
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sortKeys(inner)]),
  );
}

async function createDatabase(serverUrl: string): Promise<string> {
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  await client.query('create database bench');
  await client.end();
  const url = new URL(serverUrl);
  url.pathname = '/bench';
  return url.href;
}

type Ours = {
  readonly url: string;
  readonly authenticatorUrl: string;
  readonly token: string;
  readonly pid: number;
  stop(): void;
};

async function startOurs(databaseUrl: string): Promise<Ours> {
  const child = spawn(process.execPath, [...V8_FLAGS, fileURLToPath(new URL('server.ts', import.meta.url))], {
    env: { ...process.env, BENCH_DATABASE_URL: databaseUrl },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const told = JSON.parse(line) as Omit<Ours, 'pid' | 'stop'>;
    return {
      ...told,
      url: new URL(told.url).origin,
      pid: child.pid ?? 0,
      stop: () => void child.kill('SIGTERM'),
    };
  }
  throw new Error('our server did not start');
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
