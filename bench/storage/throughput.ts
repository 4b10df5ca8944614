// Measures uploads and downloads of 1 KB, 1 MB and 100 MB through a svc process with a local directory, compared with
// a bare Node file server in alternating rounds: `node bench/storage/throughput.ts`
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.ts';
import { generateApiKeys } from '../../src/identity/api-key.ts';
import { silentLog } from '../../src/log/log.ts';
import { startSvc } from '../../test/support/svc-process.ts';

const ROUNDS = 3;
const SIZES = [
  { label: '1 KB', bytes: 1024, count: 400, atOnce: 8 },
  { label: '1 MB', bytes: 1024 ** 2, count: 60, atOnce: 4 },
  { label: '100 MB', bytes: 100 * 1024 ** 2, count: 3, atOnce: 1 },
];
const agent = new Agent({ keepAlive: true, maxSockets: 16 });

type Target = {
  readonly label: string;
  put(name: string, body: Buffer): Promise<void>;
  get(name: string): Promise<number>;
};

function send(url: string, method: string, headers: Record<string, string>, body?: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      url,
      { method, agent, headers: { ...headers, ...(body ? { 'content-length': body.length } : {}) } },
      (response) => {
        let bytes = 0;
        response.on('data', (chunk: Buffer) => (bytes += chunk.length));
        response.on('end', () =>
          response.statusCode === 200
            ? resolve(bytes)
            : reject(new Error(`${method} ${url}: ${response.statusCode}`)),
        );
      },
    );
    request.on('error', reject);
    request.end(body);
  });
}

async function timed(count: number, atOnce: number, work: (n: number) => Promise<unknown>): Promise<number> {
  let next = 0;
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let n = next++; n < count; n = next++) await work(n);
    }),
  );
  return (performance.now() - startedAt) / 1000;
}

async function startBare(folder: string, mode: string): Promise<{ child: ChildProcess; url: string }> {
  await mkdir(folder, { recursive: true });
  const script = fileURLToPath(new URL('bare-server.ts', import.meta.url));
  const child = spawn(process.execPath, [script, folder, mode], { stdio: ['ignore', 'pipe', 'inherit'] });
  if (!child.stdout) throw new Error('no output to read the port from');
  const [line] = await once(child.stdout, 'data');
  return { child, url: `http://127.0.0.1:${String(line).trim()}` };
}

const folder = await mkdtemp(join(tmpdir(), 'svc-bench-'));
const postgres = await startEmbeddedPostgres({
  dir: join(folder, '.svc'),
  log: silentLog,
  durability: 'durable',
});
const keys = generateApiKeys();
const config = join(folder, 'svc.yaml');
await writeFile(
  config,
  'version: 1\nproject:\n  name: bench\nproviders:\n  storage:\n    type: local\n    local:\n' +
    '      path: files\nstorage:\n  bench:\n    public: true\n    max_size: 1GB\n',
);
const svc = await startSvc({
  command: 'serve',
  config,
  arguments: ['--migrate'],
  env: {
    SVC_DATABASE_URL: postgres.url,
    SVC_PUBLISHABLE_KEY: keys.publishable,
    SVC_SECRET_KEY: keys.secret,
    SVC_LOG_LEVEL: 'info',
  },
});
const durable = await startBare(join(folder, 'durable'), 'durable');
const bare = await startBare(join(folder, 'bare'), '');
const auth = { apikey: keys.secret };
const object = (name: string): string => `${svc.url}/storage/v1/object`.concat(`/bench/${name}`);
const bareTarget = (label: string, url: string): Target => ({
  label,
  put: async (name, body) => void (await send(`${url}/${name}`, 'PUT', {}, body)),
  get: (name) => send(`${url}/${name}`, 'GET', {}),
});
const targets: readonly Target[] = [
  {
    label: 'svc',
    put: async (name, body) =>
      void (await send(object(name), 'PUT', { ...auth, 'content-type': 'application/octet-stream' }, body)),
    get: (name) => send(object(name).replace('/object/', '/object/public/'), 'GET', {}),
  },
  bareTarget('bare, durable', durable.url),
  bareTarget('bare', bare.url),
];

try {
  for (const { label, bytes, count, atOnce } of SIZES) {
    const body = Buffer.alloc(bytes, 7);
    const best = new Map<string, { up: number; down: number }>();
    for (const target of targets) await target.put('warm', body);
    for (let round = 0; round < ROUNDS; round++) {
      for (const target of targets) {
        const up = await timed(count, atOnce, (n) => target.put(`o${n}`, body));
        const down = await timed(count, atOnce, async (n) => {
          if ((await target.get(`o${n}`)) !== bytes) throw new Error('a download was not whole');
        });
        const before = best.get(target.label);
        best.set(target.label, {
          up: Math.min(up, before?.up ?? up),
          down: Math.min(down, before?.down ?? down),
        });
      }
    }
    const rate = (seconds: number): string =>
      bytes >= 1024 ** 2
        ? `${((count * bytes) / 1024 ** 2 / seconds).toFixed(0)} MB/s`
        : `${(count / seconds).toFixed(0)} /s`;
    const svcBest = best.get('svc');
    for (const [name, { up, down }] of best) {
      const ratio = svcBest
        ? ` (svc is ${(up / svcBest.up).toFixed(2)} × up, ${(down / svcBest.down).toFixed(2)} × down)`
        : '';
      console.log(
        `${label.padEnd(7)} ${name.padEnd(14)} up ${rate(up).padStart(9)}   ` +
          `down ${rate(down).padStart(9)}${name === 'svc' ? '' : ratio}`,
      );
    }
  }
} finally {
  await svc.stop('SIGKILL');
  for (const { child } of [durable, bare]) child.kill('SIGKILL');
  agent.destroy();
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
}
