// Secrets in logs and responses. Plants canaries wherever the service stores a secret, then reads every route of the
// dashboard and its log: only the route for the secret key may return one.
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  dashboardRoutes,
  startDashboardWorld,
  type DashboardWorld,
  type SignedIn,
} from '../../support/dashboard/dashboard-world.ts';

const CANARIES = {
  SVC_ENV_TOKEN: 'canary-function-env-3f2a',
  SVC_ENV_OAUTH: 'canary-oauth-client-secret-9b1c',
  SVC_ENV_MAIL: 'canary-mail-api-key-77de',
};

const FILE = `
version: 1
auth:
  email: {}
  oauth:
    google: { client_id: id, client_secret: "\${SVC_ENV_OAUTH}",
      redirect_url: "http://localhost:8080/auth/v1/callback/google" }
providers:
  email: { type: resend, api_key: "\${SVC_ENV_MAIL}", default_from_email: shop@example.com }
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }]
    rls: []
functions:
  hello: { runtime: node, file: functions/hello.js, env: { TOKEN: "\${SVC_ENV_TOKEN}" } }
`;

let world: DashboardWorld;
let page: SignedIn;
let secrets: readonly string[];
beforeAll(async () => {
  world = await startDashboardWorld(FILE, {
    env: CANARIES,
    files: { 'functions/hello.js': 'export default () => ({ status: 200 });' },
  });
  page = await world.signIn();
  secrets = [world.keys.secret, page.cookie.split('=')[1] ?? '', ...Object.values(CANARIES)];
});
afterAll(async () => {
  await world.close();
});

const found = (text: string): string[] => secrets.filter((secret) => text.includes(secret));

test('no answer contains a secret, except the route for the secret key', async () => {
  const shown: string[] = [];
  const reads = (await dashboardRoutes(world)).filter(
    ({ method, path }) => method === 'GET' && path.startsWith('/dashboard/api') && !path.endsWith('/stream'),
  );
  expect(reads.length).toBeGreaterThan(6);
  for (const { path } of reads) {
    const url = path
      .replace('/dashboard/api', '')
      .replaceAll(/:\w+/g, 'hello')
      .replace('/as/*', '/as/service/rest/v1/notes');
    const { text, headers } = await page.call(url);
    shown.push(...found(text + JSON.stringify(headers)).map((secret) => `${path}: ${secret}`));
  }
  expect(shown).toEqual([]);
  const key = await page.call('/keys/secret', { method: 'POST' });
  expect(found(key.text)).toEqual([world.keys.secret]);
});

test('no error repeats what was sent', async () => {
  const sent = 'svc_secret_canary-of-a-wrong-key';
  const origin = world.url;
  for (const body of [
    { secret_key: sent },
    { secret_key: sent, more: 1 },
    { secret_key: [sent] },
    sent,
    `{"secret_key": "${sent}`,
    { secret_key: sent.repeat(100) },
  ]) {
    const { status, text } = await world.send('/dashboard/api/session', {
      method: 'POST',
      headers: { origin },
      body,
    });
    expect([400, 401]).toContain(status);
    expect(text).not.toContain('canary');
  }
  await world.send(`/dashboard/api/as/service/rest/v1/notes?apikey=${sent}`, {
    headers: { cookie: page.cookie },
  });
  await world.send(`/dashboard/api/nowhere?token=${sent}`, { headers: { cookie: page.cookie } });
  await expect.poll(() => world.log()).toContain('/dashboard/api/nowhere');
  expect(world.log()).not.toContain('canary-of-a-wrong-key');
});

test('neither the log nor its copy in the dashboard contains a secret', async () => {
  await page.call('/as/service/functions/v1/hello');
  await page.call('/as/service/rest/v1/notes', { method: 'POST', body: { body: 'x' } });
  await page.call('/session', { method: 'DELETE' });
  await expect.poll(() => world.log()).toContain('"method":"DELETE","url":"/dashboard/api/session"');
  expect(world.log()).toContain('the secret key was shown on the dashboard');
  expect(found(world.log())).toEqual([]);
  const again = await world.signIn();
  const { json, text } = await again.call('/logs');
  expect(json.lines.length).toBeGreaterThan(5);
  expect(found(text)).toEqual([]);
});
