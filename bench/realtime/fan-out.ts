// What sockets and deliveries cost: node bench/realtime/fan-out.ts [sockets] [broadcasts]
// Opens so many sockets that join one topic, then sends broadcasts of 150 bytes to all of them. Memory and processor time
// are those of svc alone, read from /proc; it runs with the embedded PostgreSQL. Prints; gates nothing.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.ts';
import { generateApiKeys } from '../../src/identity/api-key.ts';
import { freePort } from '../../src/lib/free-port.ts';
import { silentLog } from '../../src/log/log.ts';

const TICK_MS = 10;
const AT_ONCE = 200;
/** Sent evenly, so that the offer is known. */
const DELIVERIES_PER_SECOND = 40_000;
const CONFIG = `version: 1
project: { name: bench }
server: { timeouts: { shutdown: 1s } }
realtime: { limits: { connections: 100000, joins: 100000, messages: 100000 } }
tables: {}
`;

const [sockets = 10_000, broadcasts = 40] = process.argv.slice(2).map(Number);

const directory = mkdtempSync(join(tmpdir(), 'svc-bench-'));
const database = await startEmbeddedPostgres({ dir: join(directory, '.svc'), log: silentLog });
const keys = generateApiKeys();
const port = await freePort();
writeFileSync(join(directory, 'svc.yaml'), CONFIG);
const server = spawn(
  process.execPath,
  [
    fileURLToPath(new URL('../../bin/svc.js', import.meta.url)),
    'serve',
    '--migrate',
    '--config',
    join(directory, 'svc.yaml'),
  ],
  {
    env: {
      ...process.env,
      SVC_DATABASE_URL: database.url,
      SVC_PUBLISHABLE_KEY: keys.publishable,
      SVC_SECRET_KEY: keys.secret,
      SVC_PORT: String(port),
      SVC_PUBLIC_URL: `http://127.0.0.1:${port}`,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  },
);
try {
  await measure(server, `http://127.0.0.1:${port}`);
} finally {
  server.kill('SIGKILL');
  await once(server, 'exit');
  await database.stop();
  rmSync(directory, { recursive: true, force: true });
}

async function measure({ pid = 0 }: ChildProcess, url: string): Promise<void> {
  await until(async () => (await fetch(`${url}/ready`).catch(() => undefined))?.ok === true);
  await send(url, 0);
  const empty = residentMegabytes(pid);
  let heard = 0;
  const open: WebSocket[] = [];
  for (let from = 0; from < sockets; from += AT_ONCE) {
    const some = Array.from({ length: Math.min(AT_ONCE, sockets - from) }, () =>
      joined(url, () => (heard += 1)),
    );
    open.push(...(await Promise.all(some)));
  }
  const full = residentMegabytes(pid);
  print(`${sockets} sockets: ${full - empty} MB over ${empty} MB, load ${loadavg()[0]?.toFixed(1)}`);
  const before = processorMs(pid);
  const startedAt = performance.now();
  for (let n = 1; n <= broadcasts; n++) {
    const due = startedAt + ((n - 1) * sockets * 1000) / DELIVERIES_PER_SECOND;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
    await send(url, n);
  }
  const wanted = sockets * broadcasts;
  await until(() => Promise.resolve(heard >= wanted), 20_000).catch(() => undefined);
  const seconds = (performance.now() - startedAt) / 1000;
  const spent = processorMs(pid) - before;
  print(
    `${wanted} deliveries offered, ${wanted - heard} lost, ${Math.round(heard / seconds)} a second, ` +
      `${((spent * 1000) / heard).toFixed(1)} µs of processor each`,
  );
  for (const socket of open) socket.terminate();
}

async function joined(url: string, heard: () => void): Promise<WebSocket> {
  const socket = new WebSocket(
    `${url.replace('http', 'ws')}/realtime/v1/websocket?apikey=${keys.publishable}&vsn=2.0.0`,
    { perMessageDeflate: false },
  );
  await once(socket, 'open');
  socket.send(JSON.stringify(['1', '1', 'realtime:bench', 'phx_join', { config: {} }]));
  await once(socket, 'message');
  socket.on('message', heard);
  return socket;
}

async function send(url: string, n: number): Promise<void> {
  const answer = await fetch(`${url}/realtime/v1/api/broadcast/bench/events/x`, {
    method: 'POST',
    headers: { apikey: keys.publishable, 'content-type': 'application/json' },
    body: JSON.stringify({ n, text: 'x'.repeat(60) }),
  });
  if (answer.status !== 202) throw new Error(`a broadcast was answered ${answer.status}`);
}

function residentMegabytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Math.round(Number(kilobytes) / 1024);
}

function processorMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

async function until(condition: () => Promise<boolean>, withinMs = 60_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error('waited in vain');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
