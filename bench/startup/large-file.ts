// Measures start, plan and memory with a file of many tables: node bench/startup/large-file.ts [tables] [checkout …]
// Alternates between the checkouts (default: this one), so that their figures share the load of the machine. Uses
// SVC_DATABASE_URL of a server on which it can create databases, or starts the embedded PostgreSQL. CPU time excludes
// the database. Prints figures without a pass criterion.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import pg from 'pg';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.ts';
import { freePort } from '../../src/lib/free-port.ts';
import { silentLog } from '../../src/log/log.ts';
import { svcFile } from './large-file-text.ts';

const ROUNDS = 5;
const TICK_MS = 10;

type Figures = {
  readonly wallMs: number;
  readonly processorMs: number;
  /** Peak resident memory. */
  readonly megabytes: number;
};

const [size = '800', ...given] = process.argv.slice(2);
const checkouts = (given.length > 0 ? given : ['.']).map((path) => resolve(path));
const tables = Number(size);
const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
const external = process.env['SVC_DATABASE_URL'];
const embedded = external
  ? undefined
  : await startEmbeddedPostgres({ dir: join(folder, '.svc'), log: silentLog });
const server = new pg.Client(external ?? embedded?.url);
await server.connect();

const measured = new Map<string, Figures[]>();
const made: string[] = [];
try {
  for (const checkout of checkouts) await prepare(checkout);
  for (let round = 1; round <= ROUNDS; round++) {
    for (const checkout of checkouts) {
      const config = configPath(checkout);
      note(checkout, 'validate', await run(checkout, ['validate', '--config', config]));
      note(checkout, 'start, file not served yet', await start(checkout));
      note(checkout, 'start, nothing changed', await start(checkout));
      writeFileSync(config, svcFile(tables, round));
      note(checkout, 'plan, one table changed', await run(checkout, ['migrate', 'plan', '--config', config]));
      await run(checkout, ['migrate', 'apply', '--config', config]);
    }
  }
  print();
} finally {
  for (const name of made) await server.query(`drop database if exists ${name} with (force)`);
  await server.end();
  await embedded?.stop();
  rmSync(folder, { recursive: true, force: true });
}

function checkoutIndex(checkout: string): number {
  return checkouts.indexOf(checkout);
}

function configPath(checkout: string): string {
  return join(folder, `${checkoutIndex(checkout)}.yaml`);
}

function databaseName(checkout: string): string {
  return `svc_bench_${process.pid}_${checkoutIndex(checkout)}`;
}

async function prepare(checkout: string): Promise<void> {
  await server.query(`create database ${databaseName(checkout)}`);
  made.push(databaseName(checkout));
  writeFileSync(configPath(checkout), svcFile(tables, 0));
  note(checkout, 'first apply', await run(checkout, ['migrate', 'apply', '--config', configPath(checkout)]));
}

function environment(checkout: string): NodeJS.ProcessEnv {
  const url = new URL(external ?? embedded?.url ?? '');
  url.pathname = `/${databaseName(checkout)}`;
  return {
    ...process.env,
    SVC_DATABASE_URL: url.href,
    SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaaaaaa',
    SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbb',
  };
}

async function run(checkout: string, args: readonly string[]): Promise<Figures> {
  const process = spawnSvc(checkout, args);
  await once(process.child, 'close');
  if (process.child.exitCode !== 0) throw new Error(process.output());
  return process.figures();
}

async function start(checkout: string): Promise<Figures> {
  const port = await freePort();
  const process = spawnSvc(checkout, ['serve', '--config', configPath(checkout), '--port', String(port)]);
  while (!process.output().includes('"serving"')) {
    if (process.child.exitCode !== null) throw new Error(process.output());
    await pause();
  }
  const figures = process.figures();
  process.child.kill();
  await once(process.child, 'close');
  return figures;
}

function spawnSvc(checkout: string, args: readonly string[]) {
  const began = performance.now();
  const child = spawn(globalThis.process.execPath, [join(checkout, 'bin/svc.js'), ...args], {
    env: environment(checkout),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
  let last: Omit<Figures, 'wallMs'> = { processorMs: 0, megabytes: 0 };
  const checkProcess = (): void => {
    last = readProcess(child.pid) ?? last;
  };
  const timer = setInterval(checkProcess, TICK_MS);
  child.once('exit', () => clearInterval(timer));
  return {
    child,
    output: () => text,
    figures: (): Figures => {
      checkProcess();
      return { wallMs: performance.now() - began, ...last };
    },
  };
}

/** Returns undefined once the process has ended. */
function readProcess(pid: number | undefined): Omit<Figures, 'wallMs'> | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [user = 0, system = 0] = stat.slice(stat.lastIndexOf(')')).split(' ').slice(12, 14).map(Number);
    const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    // A zombie process has no memory.
    return peak === undefined
      ? undefined
      : { processorMs: (user + system) * TICK_MS, megabytes: Number(peak) / 1024 };
  } catch {
    return undefined;
  }
}

function pause(): Promise<void> {
  return new Promise((done) => setTimeout(done, TICK_MS));
}

function note(checkout: string, name: string, figures: Figures): void {
  const key = `${name.padEnd(28)}${checkout}`;
  measured.set(key, [...(measured.get(key) ?? []), figures]);
}

function median(values: readonly number[]): string {
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[Math.floor(sorted.length / 2)] ?? 0).toFixed(0).padStart(8);
}

function print(): void {
  console.log(`${tables} tables, medians; load average ${loadavg()[0]?.toFixed(1)}`);
  console.log(`${''.padEnd(60)}${['wall ms', 'cpu ms', 'MB'].map((title) => title.padStart(8)).join('')}`);
  for (const [key, figures] of [...measured].sort(([a], [b]) => a.localeCompare(b))) {
    const cells = [
      figures.map((figure) => figure.wallMs),
      figures.map((figure) => figure.processorMs),
      figures.map((figure) => figure.megabytes),
    ].map(median);
    console.log(`${key.padEnd(60)}${cells.join('')}`);
  }
}
