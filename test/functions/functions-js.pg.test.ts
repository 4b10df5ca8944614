// `functions.invoke` of the client library, oldest supported version and newest, against our responses.
import { createClient } from '@supabase/supabase-js';
import { createClient as createOldClient } from 'supabase-js-2.107';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWorld, until, type World } from './world.ts';

let world: World;
const stateless = { auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false } };

beforeAll(async () => {
  world = await startWorld({
    files: {
      'functions/echo.js': `export default async (req, ctx) => ({ body: {
        method: req.method, path: req.path, query: req.query, claims: ctx.claims,
        type: req.headers['content-type'], region: req.headers['x-region'], text: req.rawBody.toString('latin1'),
        json: req.headers['content-type'] === 'application/json' ? req.body : null,
      } });`,
      'functions/empty.js': 'export default async () => ({ status: 200 });',
      'functions/text.js':
        "export default async () => ({ headers: { 'content-type': 'text/plain' }, body: 'words' });",
      'functions/bytes.js': 'export default async () => ({ body: Buffer.from([1, 2, 255]) });',
      'functions/fails.js': "export default async () => ({ status: 418, body: { why: 'teapot' } });",
      'functions/events.js':
        "export default async () => new Response('data: 1\\n\\n', " +
        "{ headers: { 'content-type': 'text/event-stream' } });",
      'functions/wait.js': `
        import { existsSync } from 'node:fs';
        export default async (req, ctx) => {
          while (!existsSync('open') && !ctx.signal.aborted) await new Promise((r) => setTimeout(r, 5));
          if (ctx.signal.aborted) console.log('aborted by the caller');
          return {};
        };`,
      'functions/guarded.js': 'export default async (r, ctx) => ({ body: ctx.claims });',
    },
    yaml: ['echo', 'empty', 'text', 'bytes', 'fails', 'events', 'wait', 'guarded']
      .map(
        (name) =>
          `  ${name}: { runtime: node, file: functions/${name}.js` +
          `${name === 'guarded' ? ', auth_required: true' : ''} }\n`,
      )
      .join(''),
    size: 1,
  });
});
afterAll(() => world.close());

describe.each([
  ['newest', () => createClient(world.url, world.keys.publishable, stateless).functions],
  ['2.107', () => createOldClient(world.url, world.keys.publishable, stateless).functions],
] as const)('client library %s', (_, functions) => {
  test('the name may include a path and a query', async () => {
    const { data, error } = await functions().invoke('echo/sub/path?x=1', { body: { a: 1 } });
    expect(error).toBeNull();
    expect(data).toMatchObject({
      method: 'POST',
      path: '/functions/v1/echo/sub/path',
      query: { x: '1' },
      json: { a: 1 },
      claims: null,
    });
  });

  test('every kind of body arrives', async () => {
    const text = await functions().invoke('echo', { body: 'plain' });
    expect(text.data).toMatchObject({ type: 'text/plain', text: 'plain' });
    const bytes = await functions().invoke('echo', { body: new Uint8Array([1, 2, 255]).buffer });
    expect(bytes.data).toMatchObject({ type: 'application/octet-stream', text: '\u0001\u0002\u00ff' });
    const form = new FormData();
    form.set('a', 'b');
    const sent = await functions().invoke('echo', { body: form });
    expect(sent.data.type).toMatch(/^multipart\/form-data; boundary=/);
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE'] as const) {
      expect((await functions().invoke('echo', { method })).data.method).toBe(method);
    }
  });

  test('a response without a body is not an error', async () => {
    expect((await functions().invoke('empty')).error).toBeNull();
  });

  test('the content type determines the type of the data', async () => {
    expect((await functions().invoke('text')).data).toBe('words');
    const { data } = await functions().invoke('bytes');
    expect(data).toBeInstanceOf(Blob);
    expect([...new Uint8Array(await data.arrayBuffer())]).toEqual([1, 2, 255]);
    const events = await functions().invoke('events');
    expect(await events.data.text()).toBe('data: 1\n\n');
  });

  test('errors of the function and of the platform are distinguished', async () => {
    const failed = await functions().invoke('fails');
    expect(failed.error.name).toBe('FunctionsHttpError');
    expect(await failed.error.context.json()).toEqual({ why: 'teapot' });
    const refused = await functions().invoke('guarded');
    expect(refused.error.name).toBe('FunctionsHttpError');
    expect(refused.error.context.status).toBe(401);
  });
});

test('a saturated pool is a relay error', async () => {
  const held = await world.occupyAllSlots('wait');
  const { error } = await createClient(world.url, world.keys.publishable, stateless).functions.invoke(
    'empty',
  );
  expect(error.name).toBe('FunctionsRelayError');
  const browser = await world.call('empty', { headers: { origin: 'https://app.example' } });
  expect(String(browser.headers['access-control-expose-headers']).toLowerCase()).toContain('x-relay-error');
  world.write({ open: '' });
  await Promise.all(held);
});

test('every response has one line in the request log', async () => {
  for (const name of ['echo', 'events', 'bytes']) {
    const reply = await world.call(name);
    const id = reply.headers['x-request-id'];
    await until('the line', () =>
      world.log.some((line) => line.msg === 'request' && line['requestId'] === id && line['status'] === 200),
    );
  }
});
