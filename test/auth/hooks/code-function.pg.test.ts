// The hook custom_access_token as a code function.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../../support/backend-world.ts';
import { CLIENT_LIBRARY } from '../../support/documentation/how-to-page.ts';
import { collectLog } from '../../support/collect-log.ts';

const YAML = `
version: 1
auth:
  email: {}
  hooks:
    custom_access_token: { function: claims, timeout: 1s }
database: { pool: { max: 1 } }
tables:
  plans:
    fields:
      - { name: email, type: text, primary_key: true }
      - { name: plan, type: text, required: true }
    rls: []
functions:
  claims: { runtime: node, file: functions/claims.js }
  other: { runtime: node, file: functions/other.js }
`;

// Each address chooses what the hook does.
const CLAIMS = `
export default async (req, ctx) => {
  const { user_id, claims, authentication_method, metadata } = req.body;
  const how = claims.email.split('@')[0];
  if (how === 'throws') throw new Error('broken');
  if (how === 'refused') return { status: 200, body: { error: { http_code: 403, message: 'No plan' } } };
  if (how === 'status') return { status: 403, body: { error: { http_code: 403, message: 'No plan' } } };
  if (how === 'garbage') return { status: 200, headers: { 'content-type': 'text/plain' }, body: '{claims' };
  if (how === 'large') return { status: 200, body: { claims, more: 'x'.repeat(300_000) } };
  if (how === 'service') return { status: 200, body: { claims: { ...claims, role: 'service_role' } } };
  if (how === 'hangs') await new Promise(() => {});
  const { data, error } = await ctx.serviceClient.from('plans').select('plan').eq('email', claims.email);
  if (error) throw error;
  return { status: 200, body: { claims: { ...claims, plan: data[0]?.plan ?? 'free', how: authentication_method } } };
};`;

let world: BackendWorld;
const { log, lines } = collectLog();
beforeAll(async () => {
  world = await startBackendWorld(YAML, {
    log,
    dev: true,
    env: { SVC_AUTH_RATE_LIMITS: 'off', SVC_FUNCTIONS_WORKERS: '1' },
    files: {
      ...CLIENT_LIBRARY,
      'functions/claims.js': CLAIMS,
      'functions/other.js': `export default () => ({ status: 200, body: 'other' });`,
    },
  });
});
afterAll(() => world?.close());

const PASSWORD = 'correct horse battery';
const stateless = { auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false } };
const anonymous = (): SupabaseClient => createClient(world.url, world.keys.publishable, stateless);
const decodeClaims = (token = ''): unknown =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());

test('the function reads a table of the same service, whose pool has one connection', async () => {
  await world.owner.query(sql`insert into plans values ('paid@example.com', 'paid')`);
  const client = anonymous();
  const { data, error } = await client.auth.signUp({ email: 'paid@example.com', password: PASSWORD });
  expect(error).toBeNull();
  expect(decodeClaims(data.session?.access_token)).toMatchObject({ plan: 'paid', how: 'password' });
  const refreshed = await Promise.all(
    Array.from({ length: 20 }, () =>
      anonymous().auth.refreshSession({ refresh_token: data.session?.refresh_token ?? '' }),
    ),
  );
  for (const { data: next } of refreshed)
    expect(decodeClaims(next.session?.access_token)).toMatchObject({ plan: 'paid', how: 'token_refresh' });
  expect(new Set(refreshed.map(({ data: next }) => next.session?.refresh_token)).size).toBe(1);
});

test.each([
  ['throws', 500, /Error running hook/],
  ['refused', 403, /^No plan$/],
  ['status', 403, /^No plan$/],
  ['garbage', 500, /Error running hook/],
  ['large', 500, /Error running hook/],
  ['service', 500, /Error running hook/],
  ['hangs', 422, /did not answer in time/],
])('a hook that fails (%s) gives no token', async (how, status, message) => {
  const email = `${how}@example.com`;
  const { data, error } = await anonymous().auth.signUp({ email, password: PASSWORD });
  expect(data.session).toBeNull();
  expect(error).toMatchObject({ status, message: expect.stringMatching(message) as string });
  const sessions = await world.owner.query(
    sql`select 1 from auth.sessions s join auth.users u on u.id = s.user_id where u.email = ${email}`,
  );
  expect(sessions).toEqual([]);
  // Under `svc dev` the line of a captured mail has its address.
  const logged = lines().filter(({ msg }) => msg !== 'mail captured; /dashboard/mail shows it');
  expect(JSON.stringify(logged)).not.toContain(email);
});

test('clients cannot call the function, and other functions are served', async () => {
  const { data } = await anonymous().auth.signUp({ email: 'caller@example.com', password: PASSWORD });
  for (const token of [undefined, data.session?.access_token, world.keys.secret]) {
    const response = await fetch(`${world.url}/functions/v1/claims`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
      body: JSON.stringify({ claims: { email: 'a@example.com' } }),
    });
    expect(response.status).toBe(404);
  }
  expect(await (await fetch(`${world.url}/functions/v1/other`)).text()).toBe('other');
});
