// ctx.client and ctx.serviceClient: the project's client library, acting as the right caller.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createClient } from '@supabase/supabase-js';
import { startWorld, until, type World } from './world.ts';

const ALICE = '00000000-0000-4000-8000-00000000000a';
const BOB = '00000000-0000-4000-8000-00000000000b';
let world: World;

beforeAll(async () => {
  world = await startWorld({
    client: true,
    sql: `
      create table notes (id bigint primary key, owner_id uuid, body text);
      alter table notes enable row level security;
      grant select, insert on notes to anon, authenticated, service_role;
      create policy own on notes for select using (owner_id = auth.uid());
      insert into notes values (1, '${ALICE}', 'of alice'), (2, '${BOB}', 'of bob');`,
    files: {
      'functions/mine.js': `
        export default async (req, { client }) => {
          const { data, error } = await client.from('notes').select('id').order('id');
          return { body: { data, error } };
        };`,
      'functions/traced.js': `
        export default async (req, ctx) => {
          const seen = [];
          const original = globalThis.fetch;
          globalThis.fetch = (input, init) => {
            const headers = new Headers(init.headers);
            seen.push([headers.get('traceparent'), headers.get('tracestate')]);
            return original(input, init);
          };
          await ctx.client.from('notes').select('id');
          await ctx.serviceClient.from('notes').select('id');
          globalThis.fetch = original;
          return { body: { got: req.headers.traceparent ?? null, seen } };
        };`,
      'functions/all.js': `
        export default async (req, ctx) => {
          const { data, error } = await ctx.serviceClient.from('notes').select('id').order('id');
          const mine = await ctx.client.from('notes').select('id').order('id');
          return { body: { data, error, mine: mine.data } };
        };`,
      'functions/sly.js': `
        const name = 'service' + 'Client';
        export default async (req, ctx) => { await ctx[name].from('notes').select('id'); return {}; };`,
      'functions/token.js': `
        export default async (req, ctx) => {
          let seen;
          const original = globalThis.fetch;
          globalThis.fetch = (input, init) => { seen = new Headers(init.headers); return original(input, init); };
          await ctx.serviceClient.from('notes').select('id');
          globalThis.fetch = original;
          const [, payload] = seen.get('authorization').split('.');
          return { body: { payload: JSON.parse(Buffer.from(payload, 'base64url')), apikey: seen.get('apikey') } };
        };`,
    },
    yaml: `
  traced: { runtime: node, file: functions/traced.js, auth_required: true }
  mine: { runtime: node, file: functions/mine.js }
  all: { runtime: node, file: functions/all.js, auth_required: true }
  sly: { runtime: node, file: functions/sly.js }
  token: { runtime: node, file: functions/token.js, auth_required: true }
`,
  });
});
afterAll(() => world.close());

test('ctx.client sees the rows of the caller: anonymous callers and each owner', async () => {
  expect((await world.call('mine')).json).toEqual({ data: [], error: null });
  for (const [sub, id] of [
    [ALICE, 1],
    [BOB, 2],
  ] as const) {
    const token = await world.token({ sub });
    expect((await world.call('mine', { token })).json).toEqual({ data: [{ id }], error: null });
  }
});

test('ctx.client acts as anon when the caller sent a key', async () => {
  const headers = { authorization: `Bearer ${world.keys.secret}` };
  expect((await world.call('mine', { headers })).json.data).toEqual([]);
});

test('ctx.serviceClient bypasses row-level security, ctx.client does not', async () => {
  const token = await world.token({ sub: ALICE });
  expect((await world.call('all', { token })).json).toEqual({
    data: [{ id: 1 }, { id: 2 }],
    error: null,
    mine: [{ id: 1 }],
  });
});

test('the trace of a call is in its request and in requests of the clients; an invalid one is dropped', async () => {
  const token = await world.token({ sub: ALICE });
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const traced = await world.call('traced', { token, headers: { traceparent, tracestate: 'a=1' } });
  expect(traced.json).toEqual({
    got: traceparent,
    seen: [
      [traceparent, 'a=1'],
      [traceparent, 'a=1'],
    ],
  });
  const headers = { traceparent: `${traceparent}-more`, tracestate: 'a=1' };
  const untraced = await world.call('traced', { token, headers });
  expect(untraced.json).toEqual({
    got: null,
    seen: [
      [null, null],
      [null, null],
    ],
  });
});

test('the service token expires after at most five minutes, and the secret key never reaches a worker', async () => {
  const token = await world.token({ sub: ALICE });
  const { json } = await world.call('token', { token });
  expect(json.payload.role).toBe('service_role');
  expect(json.payload.exp - json.payload.iat).toBeLessThanOrEqual(300);
  expect(json.apikey).toBe(world.keys.publishable);
});

test('a public function gets no service client, even if the source check missed its use', async () => {
  const reply = await world.call('sly');
  expect(reply.status).toBe(500);
  await until('the reason is logged', () => world.logText().includes('declare it with auth_required: true'));
});

test('concurrent callers never see rows of each other', async () => {
  const tokens = { [ALICE]: await world.token({ sub: ALICE }), [BOB]: await world.token({ sub: BOB }) };
  const calls = Array.from({ length: 60 }, async (_, at) => {
    const sub = at % 2 === 0 ? ALICE : BOB;
    const { json } = await world.call('mine', { token: tokens[sub] });
    expect(json.data).toEqual([{ id: sub === ALICE ? 1 : 2 }]);
  });
  await Promise.all(calls);
});

test('the client library calls functions: parsed JSON, errors with their response', async () => {
  const client = createClient(world.url, world.keys.publishable, {
    auth: { persistSession: false, autoRefreshToken: false },
  });
  const called = await client.functions.invoke('mine', { body: { a: 1 } });
  expect(called).toMatchObject({ data: { data: [], error: null }, error: null });
  const refused = await client.functions.invoke('all');
  expect(refused.error?.name).toBe('FunctionsHttpError');
  expect(refused.error?.context.status).toBe(401);
});

test.each(['serviceClient used openly', 'destructured'])(
  'a public function is refused with the file: %s',
  async (how) => {
    const body =
      how === 'destructured' ? '({ a: 1 }, { serviceClient }) => ({})' : '(r, ctx) => ctx.serviceClient';
    world.write({ 'functions/public.js': `export default async ${body};` });
    await expect(world.reload('  public: { runtime: node, file: functions/public.js }\n')).rejects.toThrow(
      /functions\/public\.js uses ctx\.serviceClient[^]*auth_required: true/,
    );
    // The previous configuration stays in service.
    expect((await world.call('mine')).status).toBe(200);
  },
);

test('mentioning it in a comment is allowed', async () => {
  world.write({
    'functions/public.js': '// never serviceClient here\nexport default async () => ({ body: "http://x" });',
  });
  await world.reload('  public: { runtime: node, file: functions/public.js }\n');
  expect((await world.call('public')).status).toBe(200);
});

test('without the package the error names the remedy', async () => {
  const bare = await startWorld({
    files: { 'functions/needs.js': 'export default async (r, ctx) => ({ body: typeof ctx.client });' },
    size: 1,
    dev: true,
  });
  try {
    const reply = await bare.call('needs');
    expect(reply.status).toBe(500);
    expect(reply.json.message).toContain('npm install --prefix functions @supabase/supabase-js');
  } finally {
    await bare.close();
  }
});
