// Attacks on the sandbox. Functions try to reach more than their input: the environment, descriptors, bytes of other
// requests and the channel to svc. Callers send hostile input to the runtime.
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWorld, until, type World } from '../world.ts';

let world: World;
process.env['SVC_TEST_CANARY'] = 'canary-of-the-parent';

beforeAll(async () => {
  world = await startWorld({
    files: {
      'functions/env.js': `
        import { readFileSync } from 'node:fs';
        export default async (req, ctx) => ({ body: {
          env: { ...process.env }, argv: process.argv, execArgv: process.execArgv,
          environ: readFileSync('/proc/self/environ', 'utf8'), given: ctx.env,
        } });`,
      'functions/fds.js': `
        import { readdirSync, readlinkSync } from 'node:fs';
        const target = (fd) => {
          try { return fd + ' ' + readlinkSync('/proc/self/fd/' + fd); } catch { return ''; }
        };
        export default async () => ({ body: readdirSync('/proc/self/fd').map(target) });`,
      'functions/memory.js': `
        export default async (req) => ({ body: {
          whole: Buffer.from(req.rawBody.buffer).toString('latin1'), bytes: req.rawBody.buffer.byteLength,
        } });`,
      'functions/forge.js': `
        import { writeSync } from 'node:fs';
        export default async (req) => {
          const kind = req.query.kind;
          const frame = (type, id, payload) => {
            const b = Buffer.alloc(9);
            b.writeUInt32LE(payload.length, 0); b.writeUInt8(type, 4); b.writeUInt32LE(id, 5);
            return Buffer.concat([b, payload]);
          };
          const payloads = {
            garbage: Buffer.alloc(1000, 255),
            huge: Buffer.from([255, 255, 255, 255, 66, 1, 0, 0, 0]),
            json: frame(66, 1, Buffer.from('xxxxnot json')),
            head: frame(67, 99, Buffer.from('{"status":"x"}')),
            log: frame(71, 0, Buffer.from('null')),
            level: frame(71, 0, Buffer.from('{"level":"__proto__","message":{"a":1}}')),
            token: frame(74, 4000000000, Buffer.alloc(0)),
          };
          writeSync(3, payloads[kind]);
          await new Promise((r) => setTimeout(r, 20));
          return { body: 'ok' };
        };`,
      'functions/proto.js': `
        export default async (req) => ({
          body: { polluted: {}.polluted ?? null, keys: Object.keys(req.body ?? {}) },
        });`,
      'functions/noise.js': `
        export default async (req) => {
          for (let n = 0; n < 2000; n++) console.log('x'.repeat(2000));
          process.stdout.write('raw ' + 'y'.repeat(200000) + '\\n');
          return {};
        };`,
      'functions/ok.js': 'export default async () => ({ body: "ok" });',
    },
    yaml: `
  env: { runtime: node, file: functions/env.js, env: { MINE: "\${SVC_ENV_MINE}" } }
  fds: { runtime: node, file: functions/fds.js }
  memory: { runtime: node, file: functions/memory.js }
  forge: { runtime: node, file: functions/forge.js }
  proto: { runtime: node, file: functions/proto.js }
  noise: { runtime: node, file: functions/noise.js }
  ok: { runtime: node, file: functions/ok.js }
`,
    variables: { SVC_ENV_MINE: 'declared-for-this-one', SVC_ENV_OTHER: 'canary-not-declared' },
    size: 1,
  });
});
afterAll(() => world.close());

test('the environment is empty; only declared values are seen, through ctx.env', async () => {
  const reply = await world.call('env');
  expect(Object.keys(reply.json.env).filter((name) => name !== 'TZ')).toEqual([]);
  expect(reply.json.given).toEqual({ MINE: 'declared-for-this-one' });
  for (const secret of [
    'canary-of-the-parent',
    'canary-not-declared',
    world.keys.secret,
    world.keys.publishable,
  ]) {
    expect(reply.text).not.toContain(secret);
  }
  expect(reply.json.environ).not.toContain('declared-for-this-one');
  expect(reply.json.argv.join(' ')).not.toMatch(/svc_|declared/);
});

test('no descriptor of the server is inherited', async () => {
  const { json } = await world.call('fds');
  const sockets = json.filter((line: string) => line.includes('socket:'));
  const [pid] = world.functions.status().workers.map((worker) => worker.pid);
  // Standard output and error, and the channel.
  expect(sockets.length).toBeLessThanOrEqual(3);
  const tcp = readFileSync(`/proc/${pid}/net/tcp`, 'utf8');
  const listening = tcp
    .split('\n')
    .find((line) => line.includes(`:${world.port.toString(16).toUpperCase()} `) && / 0A /.test(line));
  const inode = listening?.trim().split(/\s+/)[9] ?? 'none';
  expect(sockets.join(' ')).not.toContain(inode);
});

test('rawBody does not share memory with other requests', async () => {
  await Promise.all(
    Array.from({ length: 40 }, async (_, at) => {
      const body = `mine-${at}-${'z'.repeat(at * 7)}`;
      const { json } = await world.call('memory', { body });
      expect(json).toEqual({ whole: body, bytes: body.length });
    }),
  );
});

describe('a worker that writes invalid data to its channel', () => {
  test.each(['garbage', 'huge', 'json', 'head', 'log', 'level', 'token'])(
    '%s harms only itself',
    async (kind) => {
      const reply = await world.call(`forge?kind=${kind}`);
      expect([200, 502]).toContain(reply.status);
      await until('others are served', async () => (await world.call('ok')).status === 200);
    },
  );
});

test('JSON with __proto__ does not pollute prototypes', async () => {
  const { json } = await world.call('proto?__proto__[polluted]=1', {
    body: '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}',
    headers: { 'content-type': 'application/json' },
  });
  expect(json.polluted).toBeNull();
});

test('excessive output neither blocks nor breaks the service', async () => {
  const [noisy, ...others] = await Promise.all([
    world.call('noise'),
    ...Array.from({ length: 10 }, () => world.call('ok')),
  ]);
  expect(noisy.status).toBe(200);
  expect(others.every(({ status }) => status === 200)).toBe(true);
  await until('the raw line is logged, cut', () => world.log.some(({ msg }) => msg.startsWith('raw yyy')));
  expect(Math.max(...world.log.map(({ msg }) => msg.length))).toBeLessThan(40_000);
});

test.each([
  ['deep JSON', '['.repeat(100_000) + ']'.repeat(100_000)],
  ['broken UTF-8', Buffer.from([0xff, 0xfe, 0xfd, 0x22])],
  ['a NUL', '"\u0000"'],
  ['a lone surrogate', '"\\ud800"'],
  ['a huge number', '1e999999'],
])('%s never ends a worker', async (_, body) => {
  const [before] = world.functions.status().workers;
  const reply = await world.call('proto', { body, headers: { 'content-type': 'application/json' } });
  expect(reply.status).toBeLessThan(502);
  expect(world.functions.status().workers[0]?.pid).toBe(before?.pid);
});

test.each(['ok/../env', 'ok%2f..%2fenv', '%2e%2e/ok', 'OK', 'ok%00', 'ok;x', '%', 'ok//'])(
  'the path %s reaches the named function or none',
  async (path) => {
    const reply = await world.call(path);
    expect([200, 400, 404]).toContain(reply.status);
    if (reply.status === 200) expect(reply.text).toBe('ok');
  },
);

test('many headers, long headers, long queries', async () => {
  const headers = Object.fromEntries(Array.from({ length: 150 }, (_, at) => [`x-h-${at}`, 'v'.repeat(50)]));
  expect((await world.call('ok', { headers })).status).toBe(200);
  expect((await world.call(`ok?${'a=1&'.repeat(2000)}`)).status).toBe(200);
});
