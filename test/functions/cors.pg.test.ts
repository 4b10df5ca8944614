// Pages of other origins: the server responds for listed origins, the function for all others.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type Reply, type World } from './world.ts';

const LISTED = 'https://app.example';
const OTHER = 'https://other.example';

const OWN = `
const CORS = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Headers': 'x-mine',
  'Access-Control-Expose-Headers': 'x-total',
  vary: 'accept',
};
export default async (req) =>
  req.method === 'OPTIONS'
    ? { status: 204, headers: CORS }
    : { headers: { ...CORS, 'Access-Control-Allow-Credentials': 'false' }, body: { ok: true } };`;

let world: World;
beforeAll(async () => {
  world = await startWorld({
    files: {
      'functions/own.js': OWN,
      'functions/plain.js': `export default async (req) => ({ body: { method: req.method } });`,
      'functions/guarded.js': `export default async () => { throw new Error('it ran'); };`,
    },
    yaml: `
  own: { file: functions/own.js, runtime: node, auth_required: false }
  plain: { file: functions/plain.js, runtime: node, auth_required: false }
  guarded: { file: functions/guarded.js, runtime: node, auth_required: true }
`,
    origins: [LISTED],
    size: 1,
  });
});
afterAll(() => world.close());

const preflight = (name: string, origin: string): Promise<Reply> =>
  world.call(name, {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'x-mine' },
  });

test('a preflight of an origin that the file does not list reaches the function', async () => {
  const reply = await preflight('own', OTHER);
  expect(reply.status).toBe(204);
  expect(reply.headers).toMatchObject({
    'access-control-allow-origin': '*',
    'access-control-allow-headers': 'x-mine',
  });
  expect(reply.headers).not.toHaveProperty('access-control-allow-credentials');
  const answer = await world.call('own', { method: 'POST', headers: { origin: OTHER } });
  expect(answer.headers['access-control-allow-origin']).toBe('*');
});

test('a function without CORS headers stays closed to other origins', async () => {
  const reply = await preflight('plain', OTHER);
  expect(reply.json).toEqual({ method: 'OPTIONS' });
  expect(reply.headers).not.toHaveProperty('access-control-allow-origin');
});

test('a preflight of a listed origin is answered by the server', async () => {
  const reply = await preflight('own', LISTED);
  expect(reply.status).toBe(200);
  expect(reply.headers).toMatchObject({
    'access-control-allow-origin': LISTED,
    'access-control-allow-credentials': 'true',
  });
});

test('the headers of the server replace those of the handler for a listed origin', async () => {
  const reply = await world.call('own', { method: 'POST', headers: { origin: LISTED } });
  expect(reply.headers).toMatchObject({
    'access-control-allow-origin': LISTED,
    'access-control-allow-credentials': 'true',
    vary: 'accept, Origin',
  });
  expect(reply.headers['access-control-expose-headers']).toMatch(/Content-Range.*, x-total$/);
});

test('the handler of a function that needs a user does not run for a preflight', async () => {
  const reply = await preflight('guarded', OTHER);
  expect(reply.status).toBe(200);
  expect(reply.headers).not.toHaveProperty('access-control-allow-origin');
  // Without the headers of a preflight it is an ordinary request.
  expect((await world.call('guarded', { method: 'OPTIONS' })).status).toBe(401);
});
