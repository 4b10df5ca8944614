// Compares svc's data API with PostgREST (JWT cache on) and with a floor without svc in one run on the same database:
// interleaved rounds, medians, ratios, and CPU time per request of server and PostgreSQL.
//
//   node bench/rest/main.ts [--only W1,W3] [--connections 1,16,64,256] [--seconds 3] [--warm 6000] [--rounds 3]
//     [--database postgres://superuser@127.0.0.1:5432/postgres] [--profile folder] [--node '--max-semi-space-size=16']
//     [--before folder]   another checkout, measured in the same rounds: the last column is our throughput over its
//     [--log info]        level of our request log, which is discarded; default: no log
//
// Needs Linux (/proc) and wrk. There is no pass criterion: machines differ, only ratios of one run are meaningful.
// README.md in this folder explains the table.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.ts';
import { silentLog } from '../../src/log/log.ts';
import { startPostgrest } from '../../test/support/peers/postgrest.ts';
import { KEYS } from '../../test/support/rest-world.ts';
import { extraHeaders, RESTORE, USER_ID, WORKLOADS, type Workload } from './dataset.ts';
import { runLoad, writeScript, type Load } from './load.ts';
import { readCpuMs, readFamilyCpuMs, readMemory, readParentPid } from './processes.ts';

type Sample = Load &
  ReturnType<typeof readMemory> & { readonly serverUs: number; readonly postgresUs: number };
type Target = {
  readonly name: string;
  readonly url: string;
  readonly basePath: string;
  readonly pid: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly databaseUrl: string;
};

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    connections: { type: 'string', default: '1,16,64,256' },
    seconds: { type: 'string', default: '3' },
    // Requests.
    warm: { type: 'string', default: '6000' },
    log: { type: 'string' },
    database: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    profile: { type: 'string' },
    before: { type: 'string' },
    // Node options of bin/svc.js.
    node: {
      type: 'string',
      default:
        '--max-semi-space-size=8 --no-parallel-scavenge --heap-growing-percent=100 --no-allocation-site-pretenuring',
    },
  },
});
const HERE = new URL('./', import.meta.url);
const wanted = values.only?.split(',');
const workloads = WORKLOADS.filter(({ id }) => !wanted || wanted.includes(id));
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);

const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
const postgres = await findPostgres(values.database);
try {
  const databaseUrl = await createDatabase(postgres.url, 'bench');
  print(`PostgreSQL ${await describePostgres(databaseUrl)}`);
  const ours = await startOurs(databaseUrl, HERE);
  const before = values.before === undefined ? undefined : await startBefore(values.before);
  const floor = await startFloor(ours.authenticatorUrl);
  const theirs = await startPostgrest(ours.authenticatorUrl, {
    PGRST_DB_POOL: '20',
    PGRST_JWT_CACHE_MAX_LIFETIME: '3600',
    PGRST_DB_TX_END: 'commit',
  });
  try {
    const authorization = `Bearer ${ours.token}`;
    const targets: readonly Target[] = [
      svcTarget('svc', ours),
      {
        name: 'postgrest',
        url: theirs.url,
        basePath: '',
        pid: theirs.pid,
        headers: { authorization },
        databaseUrl,
      },
      { name: 'floor', url: floor.url, basePath: '', pid: floor.pid, headers: {}, databaseUrl },
      ...(before ? [svcTarget('before', before)] : []),
    ];
    await compareAnswers(targets.slice(0, 2));
    for (const connections of values.connections.split(',').map(Number)) {
      await measure(targets, connections);
    }
  } finally {
    await theirs.stop();
    await Promise.all([ours.stop(), floor.stop(), before?.stop()]);
  }
} finally {
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
}

function svcTarget(name: string, { url, pid, token, databaseUrl }: Ours): Target {
  const headers = { authorization: `Bearer ${token}`, apikey: KEYS.publishable };
  return { name, url, basePath: '/rest/v1', pid, headers, databaseUrl };
}

async function startBefore(checkout: string): Promise<Ours> {
  const databaseUrl = await createDatabase(postgres.url, 'bench_before');
  return await startOurs(databaseUrl, pathToFileURL(join(checkout, 'bench/rest', '/')));
}

async function measure(targets: readonly Target[], connections: number): Promise<void> {
  print(`\n${connections} connections (ratio of throughput, higher is better; CPU in µs per request)`);
  print(
    `${'workload'.padEnd(36)} ratio  goal   ${['req/s', 'p50 ms', 'p99 ms', 'srv µs', 'pg µs', 'RSS MB', 'PSS MB', 'errors'].map((title) => title.padEnd(17)).join(' ')}`,
  );
  print(`${' '.repeat(50)} ${targets.map(({ name }) => name).join('/')} in each column`);
  for (const workload of workloads) {
    const samples = new Map<Target, Sample[]>(targets.map((target) => [target, []]));
    for (let round = 0; round < rounds; round++) {
      // Alternate the order, so that each server is first equally often.
      for (const target of round % 2 === 0 ? targets : targets.toReversed()) {
        samples.get(target)?.push(await sample(target, workload, connections, round === 0));
      }
    }
    const middle = [...samples.values()].map(median);
    const [a, b, , former] = middle as [Sample, Sample, Sample, Sample | undefined];
    const each = (read: (sample: Sample) => number, digits = 0): string =>
      middle
        .map((sample) => read(sample).toFixed(digits))
        .join('/')
        .padEnd(17);
    print(
      [
        `${workload.id} ${workload.title}`.padEnd(36),
        (a.requestsPerSecond / b.requestsPerSecond).toFixed(2).padEnd(6),
        String(workload.goal).padEnd(6),
        each((sample) => sample.requestsPerSecond),
        each((sample) => sample.p50Ms, 1),
        each((sample) => sample.p99Ms, 1),
        each((sample) => sample.serverUs),
        each((sample) => sample.postgresUs),
        each((sample) => sample.rssMb),
        each((sample) => sample.pssMb),
        each((sample) => sample.errors),
        former ? `svc/before ${(a.requestsPerSecond / former.requestsPerSecond).toFixed(2)}` : '',
      ].join(' '),
    );
  }
}

async function sample(
  target: Target,
  workload: Workload,
  connections: number,
  isFirst: boolean,
): Promise<Sample> {
  const script = writeScript(folder, {
    name: target.name,
    basePath: target.basePath,
    workload,
    headers: { ...target.headers, ...extraHeaders(workload) },
  });
  // Code that has run only a few hundred times is still interpreted, and would be measured as slow.
  for (let sent = 0; sent < (isFirst ? Number(values.warm) : 1);) {
    sent += (await runLoad(target.url, script, connections, 1)).requests;
  }
  const server = readCpuMs(target.pid);
  const database = readFamilyCpuMs(postgres.pid);
  const load = await runLoad(target.url, script, connections, seconds);
  const taken = {
    ...load,
    serverUs: ((readCpuMs(target.pid) - server) * 1000) / load.requests,
    postgresUs: ((readFamilyCpuMs(postgres.pid) - database) * 1000) / load.requests,
    ...readMemory(target.pid),
  };
  if (workload.method !== 'GET') await restore(target.databaseUrl);
  return taken;
}

async function restore(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  for (const statement of RESTORE) await client.query(statement);
  await client.end();
}

/** Returns the sample with the median throughput. */
function median(samples: Sample[]): Sample {
  const sorted = samples.toSorted((a, b) => a.requestsPerSecond - b.requestsPerSecond);
  return sorted[Math.floor(sorted.length / 2)]!;
}

/** Checks that all servers return the same responses. */
async function compareAnswers(targets: readonly Target[]): Promise<void> {
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

async function createDatabase(serverUrl: string, name: 'bench' | 'bench_before'): Promise<string> {
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  await client.query(`drop database if exists ${name}`);
  await client.query(`create database ${name}`);
  await client.end();
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

type Postgres = { readonly url: string; readonly pid: number; stop(): Promise<void> };

/** The PostgreSQL of npm is compiled for size. `--database` selects another server on this machine. */
async function findPostgres(url: string | undefined): Promise<Postgres> {
  if (url === undefined) return await startEmbeddedPostgres({ dir: join(folder, '.svc'), log: silentLog });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  const pid = readParentPid(rows[0]?.pid ?? 0);
  await client.end();
  return { url, pid, stop: () => Promise.resolve() };
}

async function describePostgres(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ version: string; flags: string | null }>(
    `select current_setting('server_version') as version,
      (select substring(setting from '-O[0-9s]') from pg_config where name = 'CFLAGS') as flags`,
  );
  await client.end();
  return `${rows[0]?.version ?? ''}, compiled with ${rows[0]?.flags ?? '?'}`;
}

type Child = { readonly url: string; readonly pid: number; stop(): Promise<void> };
type Ours = Child & {
  readonly authenticatorUrl: string;
  readonly token: string;
  readonly databaseUrl: string;
};

/** `folderUrl`: folder `bench/rest` of a checkout. */
async function startOurs(databaseUrl: string, folderUrl: URL): Promise<Ours> {
  const flags = values.node.split(' ').filter((flag) => flag !== '');
  if (values.profile) flags.push('--cpu-prof', `--cpu-prof-dir=${values.profile}`);
  const child = await startChild<Omit<Ours, 'databaseUrl'>>(
    new URL('server.ts', folderUrl),
    {
      BENCH_DATABASE_URL: databaseUrl,
      ...(values.log === undefined ? {} : { BENCH_LOG_LEVEL: values.log }),
    },
    flags,
  );
  return { ...child, databaseUrl };
}

async function startFloor(authenticatorUrl: string): Promise<Child> {
  const claims = JSON.stringify({ role: 'authenticated', sub: USER_ID });
  return await startChild<Child>(
    new URL('floor.ts', HERE),
    { BENCH_DATABASE_URL: authenticatorUrl, BENCH_CLAIMS: claims },
    [],
  );
}

/** Starts a program that prints its address in the first line of output. */
async function startChild<T extends Child>(
  program: URL,
  env: Readonly<Record<string, string>>,
  flags: readonly string[],
): Promise<T> {
  const child = spawn(process.execPath, [...flags, fileURLToPath(program)], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const told = JSON.parse(line) as T;
    return {
      ...told,
      url: new URL(told.url).origin,
      pid: child.pid ?? 0,
      stop: () =>
        new Promise<void>((resolve) => {
          child.once('exit', () => resolve());
          child.kill('SIGTERM');
        }),
    };
  }
  throw new Error(`${program.href} did not start`);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
