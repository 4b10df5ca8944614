// Compares a trivial function in the service with the same handler on bare node:http in one run: requests per second
// on one worker, added median latency, and start time of a worker. Prints figures without a pass criterion.
// node bench/functions/main.ts needs SVC_DATABASE_URL, or starts the development database
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { enableCompileCache } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLog } from '../../src/log/log.ts';
import { WorkerPool } from '../../src/functions/runtime/worker-pool.ts';
import { startSvc } from '../../test/support/svc-process.ts';

const ROUNDS = Number(process.env['ROUNDS'] ?? 5);
const SECONDS = Number(process.env['SECONDS'] ?? 3);
const CONNECTIONS = 32;

const HANDLER = `export default async (req, ctx) => ({ body: { hello: req.query.name } });\n`;
const BARE = `
import { createServer } from 'node:http';
import handler from './functions/hello.js';
createServer(async (request, response) => {
  const url = new URL(request.url, 'http://x');
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const { body } = await handler({ query: Object.fromEntries(url.searchParams) }, {});
  const text = JSON.stringify(body);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}).listen(Number(process.argv[2]), '127.0.0.1', () => console.log('listening'));
`;

type Figures = {
  readonly perSecond: number;
  readonly medianMs: number;
  readonly p99Ms: number;
  /** CPU time of each process. */
  readonly cpuMicros: readonly number[];
};

const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
mkdirSync(join(folder, 'functions'));
writeFileSync(join(folder, 'functions/package.json'), '{"type":"module"}');
writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
writeFileSync(join(folder, 'functions/hello.js'), HANDLER);
writeFileSync(join(folder, 'bare.js'), BARE);
writeFileSync(
  join(folder, 'svc.yaml'),
  'version: 1\nfunctions:\n  hello: { runtime: node, file: functions/hello.js }\n',
);

// The launcher sets the same options.
enableCompileCache();

const children: ChildProcess[] = [];
try {
  const starts: number[] = [];
  for (let n = 0; n < 10; n++) starts.push(await workerStart());
  print(
    'worker start',
    `median ${median(starts).toFixed(0)} ms, slowest ${Math.max(...starts).toFixed(0)} ms`,
  );

  const barePort = 18_765;
  const bare = spawn(process.execPath, [join(folder, 'bare.js'), String(barePort)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(bare);
  await once(bare.stdout, 'data');
  const svc = await startSvc({
    command: 'dev',
    config: join(folder, 'svc.yaml'),
    env: {
      SVC_LOG_LEVEL: 'error',
      SVC_FUNCTIONS_WORKERS: '1',
      SVC_DATABASE_URL: process.env['SVC_DATABASE_URL'],
    },
  });
  children.push(svc.child);
  const bareUrl = `http://127.0.0.1:${barePort}/?name=ada`;
  const svcUrl = `${svc.url}/functions/v1/hello?name=ada`;
  for (const url of [bareUrl, svcUrl]) await load(url, CONNECTIONS, 2, []);
  const pids = [svc.child.pid, ...findChildren(svc.child.pid)];
  const throughput: { bare: Figures[]; svc: Figures[] } = { bare: [], svc: [] };
  const single: { bare: Figures[]; svc: Figures[] } = { bare: [], svc: [] };
  for (let round = 0; round < ROUNDS; round++) {
    throughput.bare.push(await load(bareUrl, CONNECTIONS, SECONDS, [bare.pid]));
    throughput.svc.push(await load(svcUrl, CONNECTIONS, SECONDS, pids));
    single.bare.push(await load(bareUrl, 1, SECONDS / 2, [bare.pid]));
    single.svc.push(await load(svcUrl, 1, SECONDS / 2, pids));
  }
  const medianFigure = (figures: Figures[], key: 'perSecond' | 'medianMs' | 'p99Ms'): number =>
    median(figures.map((figure) => figure[key]));
  const cpu = (figures: Figures[], process: number): number =>
    median(figures.map((figure) => figure.cpuMicros[process] ?? 0));
  const barePerSecond = medianFigure(throughput.bare, 'perSecond');
  const svcPerSecond = medianFigure(throughput.svc, 'perSecond');
  print(`bare node:http, ${CONNECTIONS} connections`, `${barePerSecond.toFixed(0)} requests/s`);
  print(
    `function, ${CONNECTIONS} connections`,
    `${svcPerSecond.toFixed(0)} requests/s (${((100 * svcPerSecond) / barePerSecond).toFixed(0)} %)`,
  );
  const busiest = Math.max(cpu(throughput.svc, 0), cpu(throughput.svc, 1));
  const bareCpu = cpu(throughput.bare, 0);
  print('processor time a request, bare', `${bareCpu.toFixed(0)} µs`);
  print(
    'processor time a request, function',
    `${cpu(throughput.svc, 0).toFixed(0)} µs in the server, ${cpu(throughput.svc, 1).toFixed(0)} µs in the worker`,
  );
  print('throughput with a core for each', `${((100 * bareCpu) / busiest).toFixed(0)} % of bare`);
  print(
    'bare, one connection',
    `median ${medianFigure(single.bare, 'medianMs').toFixed(2)} ms, ` +
      `p99 ${medianFigure(single.bare, 'p99Ms').toFixed(2)} ms`,
  );
  print(
    'function, one connection',
    `median ${medianFigure(single.svc, 'medianMs').toFixed(2)} ms, ` +
      `p99 ${medianFigure(single.svc, 'p99Ms').toFixed(2)} ms`,
  );
  print(
    'added median latency',
    `${(medianFigure(single.svc, 'medianMs') - medianFigure(single.bare, 'medianMs')).toFixed(2)} ms`,
  );
} finally {
  for (const child of children) {
    if (child.exitCode !== null) continue;
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  rmSync(folder, { recursive: true, force: true });
}

/** Time from the spawn until a worker has loaded its function. */
async function workerStart(): Promise<number> {
  const pool = new WorkerPool();
  const startedAt = performance.now();
  await pool.replace(
    {
      size: 1,
      log: silentLog,
      onReplaced: () => {},
      onLoaded: () => {},
      worker: {
        runtime: process.execPath,
        memoryMb: 512,
        settings: {
          root: folder,
          functions: [{ name: 'hello', file: 'functions/hello.js' }],
          url: 'http://127.0.0.1:9',
          publishableKey: 'none',
        },
        env: {},
        log: silentLog,
        redact: (text) => text,
        showErrors: false,
        serviceToken: () => Promise.reject(new Error('none')),
      },
    },
    () => {},
  );
  const ms = performance.now() - startedAt;
  await pool.stop();
  return ms;
}

async function load(
  url: string,
  connections: number,
  seconds: number,
  processes: ReadonlyArray<number | undefined>,
): Promise<Figures> {
  const cpuBefore = cpuMicros(processes);
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const times: number[] = [];
  const until = performance.now() + seconds * 1000;
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < until) {
        const sentAt = performance.now();
        await requestOnce(url, agent);
        times.push(performance.now() - sentAt);
      }
    }),
  );
  const elapsed = (performance.now() - startedAt) / 1000;
  agent.destroy();
  times.sort((a, b) => a - b);
  return {
    perSecond: times.length / elapsed,
    medianMs: times[Math.floor(times.length / 2)] ?? 0,
    p99Ms: times[Math.floor(times.length * 0.99)] ?? 0,
    cpuMicros: cpuMicros(processes).map((after, at) => (after - (cpuBefore[at] ?? 0)) / times.length),
  };
}

function requestOnce(url: string, agent: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    request(url, { agent }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`));
      response.resume();
      response.on('end', resolve);
    })
      .on('error', reject)
      .end();
  });
}

/** Returns the CPU time of the processes, which is independent of the load on the machine. */
function cpuMicros(processes: ReadonlyArray<number | undefined>): number[] {
  return processes.map((pid) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return (Number(fields[11]) + Number(fields[12])) * 10_000;
  });
}

/** Returns the pids of the workers by their parent, because they lead their own process groups. */
function findChildren(pid: number | undefined): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return text
    .trim()
    .split(' ')
    .map(Number)
    .filter((child) => readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('worker/main'));
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

function print(name: string, figures: string): void {
  console.log(`${name.padEnd(36)} ${figures}`);
}
