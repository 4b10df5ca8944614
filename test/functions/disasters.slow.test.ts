// Failures of workers: saturation, crashes, deadlines, leaks, memory, restart loops. Stopping and reloading lose no
// accepted request.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { startWorld, until, type Reply, type World, type WorldOptions } from './world.ts';

let world: World | undefined;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

async function start(options: WorldOptions): Promise<World> {
  world = await startWorld(options);
  await until('all workers are ready', () =>
    world?.functions.status().workers.every(({ state }) => state === 'ready'),
  );
  return world;
}

const OK = `export default async () => ({ body: { pid: process.pid } });`;
/** Responds once the test creates a file. */
const GATE = `
import { existsSync } from 'node:fs';
export default async (req, ctx) => {
  while (!existsSync('open')) await new Promise((r) => setTimeout(r, 5));
  return { body: { pid: process.pid } };
};`;
const SPIN = `export default async (req) => { if (req.query.now) for (;;); return {}; };`;
const FOREVER = `
export default (req, ctx) => new Promise((resolve) => {
  const abort = () => { console.log('aborted: ' + ctx.signal.reason.name); resolve({}); };
  if (req.query.polite) ctx.signal.addEventListener('abort', abort);
  console.log('it listens');
});`;

const pids = (w: World): number[] =>
  w.functions
    .status()
    .workers.map(({ pid }) => pid ?? 0)
    .sort((a, b) => a - b);

const isStuck = ({ responsive }: { responsive: boolean }): boolean => !responsive;

const statuses = (replies: readonly Reply[]): Record<number, number> => {
  const counts: Record<number, number> = {};
  for (const { status } of replies) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
};

test('64 requests per worker, then 503 immediately, with the relay header', async () => {
  const w = await start({ files: { 'functions/gate.js': GATE }, size: 2 });
  const held = await w.occupyAllSlots('gate');
  const refused = await Promise.all(Array.from({ length: 20 }, () => w.call('gate')));
  expect(statuses(refused)).toEqual({ 503: 20 });
  expect(refused[0]?.headers['x-relay-error']).toBe('true');
  expect(refused[0]?.headers['retry-after']).toBe('1');
  expect(refused[0]?.json).toMatchObject({ code: 'saturated', message: expect.any(String) });
  w.write({ open: '' });
  const answered = await Promise.all(held);
  expect(statuses(answered)).toEqual({ 200: 128 });
  expect(new Set(answered.map(({ json }) => json.pid)).size).toBe(2);
  expect((await w.call('gate')).status).toBe(200);
});

test('one caller takes at most three quarters of the slots, and others are served', async () => {
  const w = await start({ files: { 'functions/gate.js': GATE, 'functions/ok.js': OK }, size: 1 });
  const inFlight = (): number | undefined => w.functions.status().workers[0]?.inFlight;
  const token = await w.token();
  const calls = Array.from({ length: 60 }, () => w.call('gate', { token }));
  await until('its share is used', () => inFlight() === 48);
  expect((await w.call('ok', { token })).status).toBe(503);
  for (let n = 0; n < 5; n++) expect((await w.call('ok')).status).toBe(200);
  w.write({ open: '' });
  expect(statuses(await Promise.all(calls))).toEqual({ 200: 48, 503: 12 });
  await until('the slots are free', () => inFlight() === 0);
  expect((await w.call('ok', { token })).status).toBe(200);
});

test('requests of a dead worker get 502, it is replaced immediately, and other workers are not affected', async () => {
  const w = await start({ files: { 'functions/gate.js': GATE, 'functions/ok.js': OK }, size: 2 });
  const held = Array.from({ length: 20 }, () => w.call('gate'));
  await until('the requests are spread', () =>
    w.functions.status().workers.every(({ inFlight }) => inFlight === 10),
  );
  const before = pids(w);
  const victim = before[0] ?? 0;
  const firstStarts = w.functions.status().workers.map(({ readyMs }) => readyMs ?? Infinity);
  process.kill(victim, 'SIGKILL');
  const startedAt = performance.now();
  await until('a replacement is ready', () => {
    const { workers } = w.functions.status();
    return workers.length === 2 && workers.every(({ state, pid }) => state === 'ready' && pid !== victim);
  });
  // Without a restart delay.
  expect(performance.now() - startedAt).toBeLessThan(10 * Math.max(...firstStarts));
  w.write({ open: '' });
  const replies = await Promise.all(held);
  expect(statuses(replies)).toEqual({ 200: 10, 502: 10 });
  const lost = replies.find(({ status }) => status === 502);
  expect(lost?.headers['x-relay-error']).toBe('true');
  expect(lost?.json.code).toBe('worker_died');
  expect((await w.call('ok')).status).toBe(200);
});

test('while no worker is up, requests wait for the replacement', async () => {
  const w = await start({ files: { 'functions/ok.js': OK }, size: 1 });
  process.kill(pids(w)[0] ?? 0, 'SIGKILL');
  await until('the death is noticed', () => w.functions.status().workers[0]?.state !== 'ready');
  const replies = await Promise.all(Array.from({ length: 10 }, () => w.call('ok')));
  expect(statuses(replies)).toEqual({ 200: 10 });
});

test('after the deadline: 504, and the signal is aborted', async () => {
  const w = await start({
    files: { 'functions/forever.js': FOREVER },
    yaml:
      '  forever: { runtime: node, file: functions/forever.js, timeout: 200ms }\n' +
      '  patient: { runtime: node, file: functions/forever.js, timeout: 1500ms }\n',
    size: 1,
  });
  const ended: string[] = [];
  const called = ['patient', 'forever'].map(async (name) => {
    const answer = await w.call(`${name}?polite=1`);
    ended.push(name);
    return answer;
  });
  const [patient, reply] = (await Promise.all(called)) as [Reply, Reply];
  expect(ended).toEqual(['forever', 'patient']);
  expect(patient.status).toBe(504);
  expect([reply.status, reply.json.code]).toEqual([504, 'function_timeout']);
  expect(reply.headers['x-relay-error']).toBeUndefined();
  await until('the handler saw it', () => w.logText().includes('aborted: TimeoutError'));
  expect(w.functions.status().workers[0]?.inFlight).toBe(0);
});

test('a disconnected caller aborts the signal', async () => {
  const w = await start({ files: { 'functions/forever.js': FOREVER }, size: 1 });
  const controller = new AbortController();
  const call = w.call('forever?polite=1', { signal: controller.signal });
  await until('it runs', () => w.logText().includes('it listens'));
  expect(w.functions.status().workers[0]?.inFlight).toBe(1);
  controller.abort();
  await expect(call).rejects.toThrow();
  await until('the handler saw it', () => w.logText().includes('aborted: AbortError'));
  await until('the slot is free', () => w.functions.status().workers[0]?.inFlight === 0);
});

test('a tight loop is killed after its deadline, and its worker is replaced', async () => {
  const w = await start({
    files: { 'functions/spin.js': SPIN, 'functions/ok.js': OK },
    yaml:
      '  spin: { runtime: node, file: functions/spin.js, timeout: 300ms }\n' +
      '  ok: { runtime: node, file: functions/ok.js }\n',
    size: 2,
  });
  const before = pids(w);
  const spinning = w.call('spin?now=1');
  await until('one worker is stuck', () => w.functions.status().workers.some(isStuck));
  // The other worker is not affected.
  const meanwhile = await Promise.all(Array.from({ length: 20 }, () => w.call('ok')));
  expect(statuses(meanwhile)).toEqual({ 200: 20 });
  expect((await spinning).status).toBe(504);
  await until('the stuck worker is replaced', () => {
    const now = w.functions.status().workers;
    return (
      now.length === 2 &&
      now.every(({ state }) => state === 'ready') &&
      now.some(({ pid }) => !before.includes(pid ?? 0))
    );
  });
  expect((await w.call('ok')).status).toBe(200);
});

test('handlers without an end do not leak slots or workers', async () => {
  const w = await start({
    files: { 'functions/forever.js': FOREVER, 'functions/ok.js': OK },
    yaml:
      '  forever: { runtime: node, file: functions/forever.js, timeout: 100ms }\n' +
      '  ok: { runtime: node, file: functions/ok.js }\n',
    size: 1,
  });
  const [before] = pids(w);
  for (let round = 0; round < 3; round++) {
    const replies = await Promise.all(Array.from({ length: 30 }, () => w.call('forever')));
    expect(statuses(replies)).toEqual({ 504: 30 });
    expect((await w.call('ok')).status).toBe(200);
  }
  await until('the leaking worker is replaced', () => {
    const { workers } = w.functions.status();
    return workers.length === 1 && workers[0]?.state === 'ready' && workers[0].pid !== before;
  });
  await until('the leaking worker is gone', () => !existsSync(`/proc/${before}`));
});

test('a worker above its heap limit dies; the service does not', async () => {
  const w = await start({
    files: {
      'functions/eat.js': `
        const eaten = [];
        export default async () => {
          for (;;) { eaten.push(new Array(1e5).fill(0).map((_, i) => ({ i }))); await null; }
        };`,
      'functions/ok.js': OK,
    },
    size: 1,
    memoryMb: 48,
  });
  const reply = await w.call('eat');
  expect([reply.status, reply.json.code]).toEqual([502, 'worker_died']);
  expect((await w.call('ok')).status).toBe(200);
});

test('memory outside the JavaScript heap counts too', async () => {
  const w = await start({
    files: {
      'functions/hold.js': `
        import { existsSync } from 'node:fs';
        const held = [];
        export default async () => {
          for (let n = 0; n < 6; n++) held.push(Buffer.alloc(20 * 1024 * 1024, 1));
          while (!existsSync('open')) await new Promise((r) => setTimeout(r, 5));
          return {};
        };`,
      'functions/ok.js': OK,
    },
    size: 1,
    memoryMb: 64,
  });
  const [before] = pids(w);
  const holding = w.call('hold');
  await until('the memory is noticed', () => w.logText().includes('it is above its memory limit'));
  w.write({ open: '' });
  expect((await holding).status).toBe(200);
  await until('the worker is replaced', () => {
    const [now] = pids(w);
    return now !== undefined && now !== before;
  });
  expect((await w.call('ok')).status).toBe(200);
});

test('restarts in a loop are delayed', async () => {
  const w = await start({ files: { 'functions/exit.js': 'export default () => process.exit(1);' }, size: 1 });
  const until_ = performance.now() + 4_000;
  const seen = new Set<number>();
  const answers: Reply[] = [];
  while (performance.now() < until_) {
    answers.push(await w.call('exit'));
    for (const pid of pids(w)) seen.add(pid);
    await delay(10);
  }
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([502]));
  expect(seen.size).toBeLessThan(12);
  expect(w.logText()).toContain('function workers die often');
});

test('a file that kills its worker while loading does not affect other functions', async () => {
  const w = await start({
    files: { 'functions/bomb.js': 'process.exit(3); export default () => ({});', 'functions/ok.js': OK },
    size: 2,
  });
  expect((await w.call('ok')).status).toBe(200);
  expect((await w.call('bomb')).status).toBe(502);
  await until('it is served again', async () => (await w.call('ok')).status === 200);
});

test('an uncaught exception replaces the worker without harm to its other requests', async () => {
  const w = await start({
    files: {
      'functions/gate.js': GATE,
      'functions/stray.js':
        'export default async () => { setTimeout(() => { throw new Error("stray"); }, 20); return {}; };',
      'functions/reject.js':
        'export default async () => { Promise.reject(new Error("floating")); return {}; };',
    },
    size: 1,
  });
  const [before] = pids(w);
  const held = Array.from({ length: 10 }, () => w.call('gate'));
  await until('they are held', () => w.functions.status().workers[0]?.inFlight === 10);
  expect((await w.call('reject')).status).toBe(200);
  expect((await w.call('stray')).status).toBe(200);
  await until('the worker is replaced', () => {
    const ready = w.functions.status().workers.filter(({ state }) => state === 'ready');
    return ready.length === 1 && ready[0]?.pid !== before;
  });
  w.write({ open: '' });
  expect(statuses(await Promise.all(held))).toEqual({ 200: 10 });
  expect(w.logText()).toContain('stray');
  expect(w.logText()).toContain('floating');
});

test('a slow reader slows the stream down instead of filling memory', async () => {
  const w = await start({
    files: {
      'functions/flood.js': `
        let sent = 0;
        export default async (req) => {
          if (req.query.sent) return { body: { sent } };
          return { body: (async function* () {
            const piece = Buffer.alloc(65536);
            for (;;) { sent += piece.length; yield piece; await new Promise(setImmediate); }
          })() };
        };`,
      'functions/ok.js': OK,
    },
    size: 1,
  });
  const socket = w.socket();
  socket.write('GET /functions/v1/flood HTTP/1.1\r\nhost: x\r\n\r\n');
  socket.pause();
  const sent = async (): Promise<number> => (await w.call('flood?sent=1')).json.sent;
  let last = -1;
  await until('the stream is paused', async () => {
    const now = await sent();
    const still = now === last;
    last = now;
    await delay(100);
    return still && now > 0;
  });
  // Bounded by kernel socket buffers and the flow-control window.
  expect(last).toBeLessThan(16 * 1024 * 1024);
  expect((await w.call('ok')).status).toBe(200);
  socket.destroy();
  await until('the stream ended', () => w.functions.status().workers[0]?.inFlight === 0);
});

test('events arrive immediately', async () => {
  const w = await start({
    files: {
      'functions/events.js': `
        export default async (req, ctx) => new Response(new ReadableStream({
          start(c) {
            let n = 0;
            const t = setInterval(() => c.enqueue('data: ' + n++ + '\\n\\n'), 20);
            ctx.signal.addEventListener('abort', () => { clearInterval(t); console.log('stopped'); });
          },
          cancel() { console.log('cancelled'); },
        }), { headers: { 'content-type': 'text/event-stream' } });`,
    },
    size: 1,
  });
  const response = await fetch(`${w.url}/functions/v1/events`);
  expect(response.headers.get('content-type')).toBe('text/event-stream');
  const reader = response.body!.getReader();
  const first = await reader.read();
  expect(Buffer.from(first.value ?? []).toString()).toContain('data: 0');
  await reader.cancel();
  await until('the handler was notified', () => w.logText().includes('stopped'));
  await until('the stream was cancelled', () => w.logText().includes('cancelled'));
});

test('a stream that fails midway breaks the connection instead of ending normally', async () => {
  const w = await start({
    files: {
      'functions/half.js':
        'export default async () => ({ body: (async function* () { ' +
        "yield 'half'; await new Promise((r) => setTimeout(r, 30)); throw new Error('gone'); })() });",
      'functions/short.js':
        "export default async () => ({ headers: { 'content-length': '100' }, " +
        'body: (async function* () { ' +
        "yield 'short'; await new Promise((r) => setTimeout(r, 30)); yield '!'; })() });",
    },
    size: 1,
  });
  await expect(w.call('half')).rejects.toThrow();
  await expect(w.call('short')).rejects.toThrow();
});

test('reloading under load loses no request and never mixes versions', async () => {
  const version = (n: number): string =>
    'export default async (req) => { await new Promise((r) => setTimeout(r, 20)); ' +
    `return { body: { version: ${n} } }; };`;
  const w = await start({ files: { 'functions/v.js': version(0) }, size: 2 });
  const yaml = '  v: { runtime: node, file: functions/v.js }\n';
  const replies: Reply[] = [];
  const load = { running: true };
  const callers = Array.from({ length: 8 }, async () => {
    let seen = 0;
    while (load.running) {
      const reply = await w.call('v');
      replies.push(reply);
      // A caller never sees an older version after a newer one.
      expect(reply.json.version).toBeGreaterThanOrEqual(seen);
      seen = reply.json.version;
    }
  });
  for (let n = 1; n <= 4; n++) {
    await until('requests run', () => replies.length > n * 20);
    w.write({ 'functions/v.js': version(n) + ' '.repeat(n) });
    await w.reload(yaml);
    expect((await w.call('v')).json.version).toBe(n);
  }
  load.running = false;
  await Promise.all(callers);
  expect(statuses(replies)).toEqual({ 200: replies.length });
  expect(new Set(replies.map(({ json }) => json.version)).size).toBe(5);
});

test('requests in flight during a reload finish on the code they started with', async () => {
  const w = await start({ files: { 'functions/gate.js': GATE }, size: 1 });
  const held = Array.from({ length: 10 }, () => w.call('gate'));
  await until('they run', () => w.functions.status().workers[0]?.inFlight === 10);
  const [before] = pids(w);
  w.write({ 'functions/gate.js': OK });
  await w.reload('  gate: { runtime: node, file: functions/gate.js }\n');
  expect((await w.call('gate')).json.pid).not.toBe(before);
  w.write({ open: '' });
  const replies = await Promise.all(held);
  expect(replies.map(({ json }) => json.pid)).toEqual(Array.from({ length: 10 }, () => before));
  await until('the old worker is gone', () => !existsSync(`/proc/${before}`));
});

test('changed settings do not restart workers', async () => {
  const w = await start({
    files: {
      'functions/env.js': 'export default async (r, ctx) => ({ body: { ...ctx.env, pid: process.pid } });',
    },
    yaml: '  env: { runtime: node, file: functions/env.js, env: { A: "1" } }\n',
    size: 1,
  });
  const first = (await w.call('env')).json;
  await w.reload('  env: { runtime: node, file: functions/env.js, env: { A: "2" } }\n');
  expect((await w.call('env')).json).toEqual({ A: '2', pid: first.pid });
  await w.reload('  env: { runtime: node, file: functions/env.js, auth_required: true }\n');
  expect((await w.call('env')).status).toBe(401);
});

test('draining: accepted requests are answered before workers stop', async () => {
  const w = await start({ files: { 'functions/gate.js': GATE }, size: 2 });
  const held = Array.from({ length: 40 }, () => w.call('gate'));
  await until('they run', () => w.functions.status().workers.every(({ inFlight }) => inFlight === 20));
  const processes = pids(w);
  let drained = false;
  const draining = w.functions.drain().then(() => (drained = true));
  const late = await w.call('gate');
  expect([late.status, late.json.code, late.headers['connection']]).toEqual([503, 'draining', 'close']);
  expect(drained).toBe(false);
  w.write({ open: '' });
  expect(statuses(await Promise.all(held))).toEqual({ 200: 40 });
  await draining;
  await w.closeServer();
  await w.functions.stop();
  for (const pid of processes) expect(existsSync(`/proc/${pid}`)).toBe(false);
});

test('workers do not outlive a server that was killed', async () => {
  const w = await start({ files: { 'functions/ok.js': OK }, size: 1 });
  const [pid = 0] = pids(w);
  // A killed server closes the channel; workers ignore signals to the process group.
  process.kill(pid, 'SIGTERM');
  process.kill(pid, 'SIGINT');
  expect((await w.call('ok')).json.pid).toBe(pid);
  const group = execFileSync('ps', ['-o', 'pgid=', '-p', String(pid)], { encoding: 'utf8' }).trim();
  expect(group).toBe(String(pid));
});

test('a file without functions has no workers', async () => {
  const w = await start({ files: { 'functions/ok.js': OK }, size: 1 });
  const [pid] = pids(w);
  await w.reload('  {}\n');
  expect(w.functions.status().workers).toEqual([]);
  await until('the worker is gone', () => !existsSync(`/proc/${pid}`));
  expect((await w.call('ok')).status).toBe(404);
});

test('a missing file and a missing runtime prevent a start', async () => {
  const w = await start({ files: { 'functions/ok.js': OK }, size: 1 });
  await expect(w.reload('  ok: { runtime: node, file: functions/gone.js }\n')).rejects.toThrow(/gone\.js/);
  await expect(
    startWorld({ files: { 'functions/ok.js': OK }, runtime: '/nowhere/node' }),
  ).rejects.toMatchObject({ code: 'no_runtime' });
});

test('a worker reports its start time, and has a memory limit', async () => {
  const w = await start({ files: { 'functions/ok.js': OK }, size: 1 });
  const [worker] = w.functions.status().workers;
  expect(worker?.readyMs).toBeGreaterThan(0);
  expect(readFileSync(`/proc/${worker?.pid}/cmdline`, 'utf8')).toContain('--max-old-space-size=512');
});

test('requests that a stuck worker never read are run by another one', async () => {
  const w = await start({
    files: { 'functions/spin.js': SPIN, 'functions/ok.js': OK },
    yaml:
      '  spin: { runtime: node, file: functions/spin.js, timeout: 1s }\n' +
      '  ok: { runtime: node, file: functions/ok.js }\n',
    size: 1,
  });
  const spinning = w.call('spin?now=1');
  // A ping is unanswered, so the worker is known not to read later requests.
  await until('the worker is stuck', () => w.functions.status().workers.some(isStuck));
  const replies = await Promise.all(Array.from({ length: 10 }, () => w.call('ok')));
  expect((await spinning).status).toBe(504);
  expect(statuses(replies)).toEqual({ 200: 10 });
});

test('a reload is rejected if its workers cannot start; the instance is not ready until they can', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-fn-runtime-'));
  const broken = join(folder, 'broken');
  const runtime = join(folder, 'runtime');
  writeFileSync(runtime, `#!/bin/sh\n[ -e '${broken}' ] && exit 1\nexec '${process.execPath}' "$@"\n`, {
    mode: 0o755,
  });
  try {
    const w = await start({ files: { 'functions/ok.js': OK }, size: 1, runtime });
    const ready = async (): Promise<number> => (await fetch(`${w.url}/ready`)).status;
    writeFileSync(broken, '');
    w.write({ 'functions/ok.js': `${OK} // changed` });
    await expect(w.reload('  ok: { runtime: node, file: functions/ok.js }\n')).rejects.toMatchObject({
      code: 'workers_do_not_start',
    });
    // The previous workers stay in service.
    expect([(await w.call('ok')).status, await ready()]).toEqual([200, 200]);
    for (const pid of pids(w)) process.kill(pid, 'SIGKILL');
    await expect.poll(ready).toBe(503);
    expect((await w.call('ok')).json.code).toBe('no_worker');
    rmSync(broken);
    await expect.poll(ready).toBe(200);
    expect((await w.call('ok')).status).toBe(200);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
