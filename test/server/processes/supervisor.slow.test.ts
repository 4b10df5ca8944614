// The parent of several processes, with workers that need no database.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { freePort } from '../../../src/lib/free-port.ts';
import { scaled } from '../../support/run/scaled.ts';

const PROGRAM = fileURLToPath(new URL('programs/parent.ts', import.meta.url));
/** Time to replace a worker. A worker that hangs is replaced after ten seconds without a response. */
const PATIENT = { timeout: scaled(60_000), interval: 50 };

type Answer = {
  figures?: Array<{ ready: boolean }>;
  pid: number;
  process: number;
  text: string;
  isLeaving: boolean;
  secret: string;
};
type Line = {
  msg: string;
  level?: string;
  process: number;
  worker?: number;
  pid?: number;
  code?: number;
  restartInMs?: number;
};

type Service = {
  readonly child: ChildProcess;
  readonly exit: Promise<unknown[]>;
  lines(): Line[];
  /** Sends the request on a new connection. */
  get(path: string): Promise<Answer>;
  /** Pids of all workers that serve. */
  serving(): number[];
};

const cleanups: Array<() => Promise<void>> = [];
// Some tests run at the same time.
afterAll(async () => {
  for (const cleanUp of cleanups.splice(0)) await cleanUp();
});

async function start(processes: number, ...options: string[]): Promise<Service> {
  const port = await freePort();
  const child = spawn(process.execPath, [PROGRAM, String(processes), String(port), ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exit = once(child, 'exit');
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const lines = (): Line[] =>
    text
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Line);
  cleanups.push(async () => {
    child.kill('SIGKILL');
    await exit;
    // One that hangs does not notice the end of its parent.
    for (const { pid } of lines()) if (pid !== undefined && isAlive(pid)) process.kill(pid, 'SIGKILL');
  });
  return {
    child,
    exit,
    lines,
    get: (path) => get(port, path, new Agent({ keepAlive: false })),
    serving: () =>
      lines()
        .filter(({ msg }) => msg === 'serving')
        .map(({ pid = 0 }) => pid)
        .filter(isAlive),
  };
}

function get(port: number, path: string, agent: Agent): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({ port, path, agent, host: '127.0.0.1' }, (response) => {
      let body = '';
      response.on('data', (chunk: Buffer) => (body += chunk.toString()));
      response.on('end', () => resolve(JSON.parse(body) as Answer));
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end();
  });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch (error) {
    // Platforms without /proc.
    return (error as NodeJS.ErrnoException).code === 'ENOENT' && process.platform !== 'linux';
  }
}

const said = (service: Service, part: string): Line[] =>
  service.lines().filter(({ msg }) => msg.includes(part));
const untilServing = (service: Service, count: number): Promise<void> =>
  vi.waitFor(() => expect(service.serving()).toHaveLength(count), PATIENT);
let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'svc-processes-'))));
afterAll(() => rmSync(folder, { recursive: true }));

// Those that mostly wait do so at the same time.
test.concurrent('a worker that dies five times during its start ends the service with 70', async ({
  expect,
}) => {
  const service = await start(2, 'exit=3');
  expect(await service.exit).toEqual([70, null]);
  expect(said(service, 'a worker has ended')).toHaveLength(5);
  expect(said(service, 'giving up')).toHaveLength(1);
});

test.concurrent('deaths before a worker has served do not count against its later starts', async ({
  expect,
}) => {
  const plan = join(folder, 'plan');
  writeFileSync(plan, ['3', '3', '3', '3', '', '3'].join('\n'));
  const service = await start(1, `plan=${plan}`);
  await untilServing(service, 1);
  await expect(service.get('/exit')).rejects.toThrow();
  await expect.poll(() => said(service, 'a worker has ended').length, PATIENT).toBe(6);
  expect(said(service, 'giving up')).toEqual([]);
});

test.concurrent('a worker that never starts does not stop one that serves', async ({ expect }) => {
  const service = await start(2, 'exit2=3');
  await expect.poll(() => said(service, 'starting another').length, PATIENT).toBeGreaterThanOrEqual(5);
  expect(await service.get('/')).toMatchObject({ process: 1 });
  const delays = said(service, 'starting another').map(({ restartInMs = 0 }) => restartInMs);
  expect(delays.slice(0, 5)).toEqual([0, 500, 1_000, 2_000, 5_000]);
  expect(said(service, 'giving up')).toEqual([]);
});

test.concurrent('a worker that blocks its event loop while it loads is not killed', async ({ expect }) => {
  const service = await start(2, 'block2=15000');
  await vi.waitFor(() => expect(service.serving()).toHaveLength(2), PATIENT);
  expect(said(service, 'does not answer')).toEqual([]);
  expect(said(service, 'a worker has ended')).toEqual([]);
});

test.concurrent('a worker that is not ready gets no new connections until it is ready again', async ({
  expect,
}) => {
  const service = await start(2);
  await untilServing(service, 2);
  const { pid } = await service.get('/unready');
  await expect.poll(() => said(service, 'takes no connections').length, PATIENT).toBe(1);
  const seen = async (): Promise<boolean> => {
    const answers = await Promise.all(Array.from({ length: 40 }, () => service.get('/')));
    return answers.some((answer) => answer.pid === pid);
  };
  await expect.poll(seen, PATIENT).toBe(false);
  expect(await seen()).toBe(false);
  // The worker gets no new requests over the port. If the others are not ready either, it opens the port
  // again.
  await service.get('/unready');
  await expect.poll(() => said(service, 'takes connections again').length, PATIENT).toBe(1);
  await expect.poll(seen, PATIENT).toBe(true);
});

test.concurrent('a worker that hangs is killed, logged and replaced, while the others respond', async ({
  expect,
}) => {
  const service = await start(2);
  await untilServing(service, 2);
  const before = service.serving();
  const hanging = service.get('/hang');
  await expect(hanging).rejects.toThrow();
  const [killed] = said(service, 'does not answer');
  expect(before).toContain(killed?.pid);
  await expect
    .poll(() => said(service, 'starting another'), PATIENT)
    .toMatchObject([{ pid: killed?.pid, signal: 'SIGKILL' }]);
  await untilServing(service, 2);
  expect(service.serving()).toContain(before.find((pid) => pid !== killed?.pid));
});

test('a start that is refused is not repeated, and its exit code is the answer', async () => {
  const service = await start(2, 'exit=78');
  expect(await service.exit).toEqual([78, null]);
  expect(service.lines()).toEqual([]);
});

test('after the parent is killed, workers finish their requests and exit', async () => {
  const service = await start(2);
  await untilServing(service, 2);
  const workers = service.serving();
  const waiting = [service.get('/wait/1500'), service.get('/wait/1500'), service.get('/wait/1500')];
  // They are in flight when each worker has answered a later request.
  await service.get('/');
  service.child.kill('SIGKILL');
  const answers = await Promise.all(waiting);
  expect(answers.every(({ pid }) => workers.includes(pid))).toBe(true);
  for (const pid of workers) await expect.poll(() => isAlive(pid), PATIENT).toBe(false);
});

test('a request that waits for the parent fails when the parent is killed', async () => {
  const service = await start(1);
  await untilServing(service, 1);
  // It does not respond any more.
  service.child.kill('SIGSTOP');
  const waiting = service.get('/reload');
  await expect.poll(() => said(service, 'asking').length, PATIENT).toBe(1);
  service.child.kill('SIGKILL');
  expect(await waiting).toMatchObject({ process: 1 });
});

test('a killed worker loses only its own requests and is replaced at once', async () => {
  const service = await start(2);
  await untilServing(service, 2);
  const [victim = 0, other = 0] = service.serving();
  const waiting = await Promise.all(
    Array.from({ length: 12 }, async () => {
      const answer = service.get('/wait/1000').then(
        ({ pid }) => pid,
        () => 'lost' as const,
      );
      await service.get('/');
      return { answer };
    }),
  );
  process.kill(victim, 'SIGKILL');
  const outcomes = await Promise.all(waiting.map(({ answer }) => answer));
  expect(outcomes.every((outcome) => outcome === 'lost' || outcome === other)).toBe(true);
  await expect
    .poll(() => said(service, 'starting another'), PATIENT)
    .toMatchObject([{ pid: victim, restartInMs: 0 }]);
  await untilServing(service, 2);
});

test('SIGTERM: one delay with the port open, a second signal ends it, and all end together', async () => {
  const service = await start(3, 'delay=3600000');
  await untilServing(service, 3);
  // The parent knows that balancers poll.
  await expect
    .poll(async () => (await service.get('/figures')).figures?.filter(({ ready }) => ready).length, PATIENT)
    .toBe(4);
  service.child.kill('SIGTERM');
  await expect.poll(async () => (await service.get('/')).isLeaving, PATIENT).toBe(true);
  service.child.kill('SIGTERM');
  expect(await service.exit).toEqual([0, null]);
  expect(said(service, 'stopped')).toHaveLength(1);
  expect(service.serving()).toEqual([]);
});

test('a file that the first worker refuses at SIGHUP is not loaded by the others', async () => {
  const file = join(folder, 'file');
  writeFileSync(file, 'one');
  const service = await start(3, `file=${file}`);
  await untilServing(service, 3);
  const texts = async (): Promise<Set<string>> =>
    new Set((await Promise.all(Array.from({ length: 60 }, () => service.get('/')))).map(({ text }) => text));
  writeFileSync(file, 'bad');
  service.child.kill('SIGHUP');
  writeFileSync(join(folder, 'waits'), '');
  await service.get('/wait/500');
  expect(await texts()).toEqual(new Set(['one']));
  writeFileSync(file, 'two');
  service.child.kill('SIGHUP');
  await expect.poll(texts, PATIENT).toEqual(new Set(['two']));
  // A replacement that finds a newer file brings it to all.
  writeFileSync(file, 'three');
  process.kill(service.serving()[0] ?? 0, 'SIGKILL');
  await expect.poll(texts, PATIENT).toEqual(new Set(['three']));
});

test('a worker that alone gets a signal is replaced before it exits', async () => {
  const service = await start(2);
  await untilServing(service, 2);
  const [asked = 0, other] = service.serving();
  process.kill(asked, 'SIGTERM');
  await expect.poll(() => isAlive(asked), PATIENT).toBe(false);
  await untilServing(service, 2);
  expect(service.serving()).toContain(other);
  expect(said(service, 'a worker has ended')).toEqual([]);
});

test.runIf(process.platform === 'linux')(
  'no secret is in the environment that Linux shows of a worker',
  async () => {
    const service = await start(2);
    await untilServing(service, 2);
    expect((await service.get('/')).secret).toBe('a-secret');
    for (const pid of service.serving()) {
      expect(readFileSync(`/proc/${pid}/environ`, 'latin1')).not.toContain('a-secret');
    }
  },
);

test('connections are spread over the processes', async () => {
  const service = await start(4);
  await untilServing(service, 4);
  // How evenly is the kernel's business: on a machine with fewer processors than processes one may take most
  // of a burst.
  const pids = new Set<number>();
  await expect
    .poll(async () => {
      const answers = await Promise.all(Array.from({ length: 200 }, () => service.get('/wait/200')));
      for (const { pid } of answers) pids.add(pid);
      return pids.size;
    })
    .toBe(4);
});
