// The metrics of a running backend, and who can read them.
import { readFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { afterEach, expect, test } from 'vitest';
import { parse } from 'yaml';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

const YAML = `
version: 1
project: { name: metrics }
tables:
  notes:
    fields:
      - { name: id, type: int, primary_key: true }
    rls:
      - { operations: [select], using: "true" }
storage:
  files: { public: true, rls: [{ operations: [insert], check: "true" }] }
functions:
  hello: { runtime: node, file: hello.js }
`;
const FILES = { 'hello.js': "export default async () => ({ body: 'hello' });" };
const TOKEN = 'a-token-of-more-than-thirty-two-characters';
const OPENED: BackendWorld[] = [];

afterEach(async () => {
  for (const world of OPENED.splice(0)) await world.close();
});

async function aBackend(options: Parameters<typeof startBackendWorld>[1]): Promise<BackendWorld> {
  const world = await startBackendWorld(YAML, { files: FILES, ...options });
  OPENED.push(world);
  return world;
}

async function scrape(world: BackendWorld, headers: Record<string, string> = {}): Promise<Response> {
  return await fetch(`${world.url}/metrics`, { headers });
}

test('responses are counted by method, route and status, and the token gives access', async () => {
  const world = await aBackend({ env: { SVC_METRICS_TOKEN: TOKEN } });
  await fetch(`${world.url}/rest/v1/notes`, { headers: { apikey: world.keys.publishable } });
  const response = await scrape(world, { authorization: `Bearer ${TOKEN}` });
  const text = await response.text();
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  expect(text).toContain(
    'http_server_request_duration_seconds_count{http_request_method="GET",http_route="/rest/v1/*",' +
      'http_response_status_code="200"} 1\n',
  );
  expect(text).toContain('svc_ready 1\n');
  expect(text).toMatch(/^db_client_connection_max\{pool="requests"\} [1-9]/m);
  expect(text).toMatch(/^process_resident_memory_bytes [1-9]\d{6,}$/m);
});

test('a wrong token, API keys and a missing token are refused', async () => {
  const world = await aBackend({ env: { SVC_METRICS_TOKEN: TOKEN } });
  for (const presented of [`${TOKEN}x`, world.keys.secret, undefined]) {
    const headers: Record<string, string> = presented ? { authorization: `Bearer ${presented}` } : {};
    expect((await scrape(world, headers)).status).toBe(401);
  }
});

test('without a token there is no such path', async () => {
  const world = await aBackend({});
  expect((await scrape(world)).status).toBe(404);
});

test('in development programs of this machine read it, and those behind a proxy do not', async () => {
  const world = await aBackend({ dev: true });
  expect((await scrape(world)).status).toBe(200);
  expect((await scrape(world, { 'x-forwarded-for': '192.0.2.1' })).status).toBe(404);
});

test('a token that can be guessed is refused at the start', async () => {
  await expect(aBackend({ env: { SVC_METRICS_TOKEN: 'short' } })).rejects.toThrow(
    'SVC_METRICS_TOKEN has fewer than 32 characters',
  );
});

/** Sends a chosen Host header, which `fetch` does not allow. */
async function adminAnswer(
  { backend }: BackendWorld,
  path: string,
  host = `127.0.0.1:${backend.adminPort}`,
): Promise<{ readonly status: number | undefined; readonly text: string }> {
  return await new Promise((resolve, reject) => {
    httpRequest({ port: backend.adminPort, host: '127.0.0.1', path, headers: { host } }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode, text }));
    })
      .on('error', reject)
      .end();
  });
}

/** Parses the values by series, as a strict reader of the format does. */
function parseSeries(text: string): Map<string, number> {
  const series = new Map<string, number>();
  let name = '';
  expect(text.endsWith('\n')).toBe(true);
  for (const line of text.slice(0, -1).split('\n')) {
    const [, declared] = /^# TYPE ([a-z_][a-z0-9_]*) (?:counter|gauge|histogram)$/.exec(line) ?? [];
    if (declared !== undefined) name = declared;
    if (line.startsWith('#')) continue;
    const [, of, labels = '', value] =
      /^([a-z_][a-z0-9_]*)((?:\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+\})?) (-?[\d.e+-]+)$/.exec(line) ?? [];
    expect(of?.replace(/_(?:bucket|sum|count)$/, '').startsWith(name.replace(/_count$/, '')), line).toBe(
      true,
    );
    expect(series.has(`${of}${labels}`), line).toBe(false);
    series.set(`${of}${labels}`, Number(value));
  }
  return series;
}

/** Sends one request of each kind. */
async function useEverything({ url, keys }: BackendWorld): Promise<void> {
  const headers = { apikey: keys.publishable, 'content-type': 'application/json' };
  const post = (path: string, body: unknown): Promise<Response> =>
    fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  const ann = { email: 'ann@example.com', password: 'correct horse battery' };
  await fetch(`${url}/rest/v1/notes`, { headers });
  await fetch(`${url}/rest/v1/notes`, { method: 'POST', headers, body: '{"id":1}' });
  await post('/auth/v1/signup', ann);
  await post('/auth/v1/token?grant_type=password', ann);
  await post('/auth/v1/token?grant_type=password', { ...ann, password: 'wrong' });
  await fetch(`${url}/storage/v1/object/files/a.txt`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'text/plain' },
    body: 'x'.repeat(1_000),
  });
  await (await fetch(`${url}/storage/v1/object/public/files/a.txt`)).text();
  await (await fetch(`${url}/functions/v1/hello`)).text();
}

const ADMIN = { host: '127.0.0.1', port: 0 };

test('the admin port serves only metrics and probes', async () => {
  const world = await aBackend({ admin: ADMIN, env: { SVC_ADMIN_HOSTS: 'metrics.internal, other' } });
  for (const path of ['/metrics', '/live', '/health', '/ready'])
    expect((await adminAnswer(world, path)).status, path).toBe(200);
  for (const path of ['/', '/rest/v1/notes', '/auth/v1/health', '/dashboard/'])
    expect((await adminAnswer(world, path)).status, path).toBe(404);
  expect((await scrape(world)).status).toBe(404);
  for (const host of ['localhost', '[::1]:9464', '10.0.0.1', 'metrics.internal:1', 'OTHER'])
    expect((await adminAnswer(world, '/live', host)).status, host).toBe(200);
  // A web page whose own DNS name points to the admin port.
  for (const host of ['rebound.example', 'localhost.example:80', '1.2.3.4.example'])
    expect((await adminAnswer(world, '/metrics', host)).status, host).toBe(421);
  const port = world.backend.adminPort ?? 0;
  await expect(aBackend({ admin: { ...ADMIN, port } })).rejects.toThrow(/cannot be opened/);
});

test('every API, statement and connection is counted', async () => {
  const world = await aBackend({ admin: ADMIN });
  await useEverything(world);
  // A request is counted when its response has ended, which the client may notice slightly earlier.
  const text = async (): Promise<string> => (await adminAnswer(world, '/metrics')).text;
  await expect.poll(text).toContain('svc_functions_duration_seconds_count{function="hello",result="ok"} 1\n');
  const series = parseSeries(await text());
  expect(Object.fromEntries(series)).toMatchObject({
    'svc_auth_events_total{action="signup",result="ok"}': 1,
    'svc_auth_events_total{action="token_password",result="ok"}': 1,
    'svc_auth_events_total{action="token_password",result="refused"}': 1,
    'svc_refusals_total{code="42501",http_response_status_code="401"}': 1,
    'svc_storage_bytes_total{bucket="files",direction="in"}': 1_000,
    'svc_functions_workers{state="starting"}': 0,
    svc_functions_worker_restarts_total: 0,
    svc_listen_connected: 1,
    svc_storage_uploads_open: 0,
    'svc_mail_outbox{state="failed"}': 0,
  });
  expect(series.get('svc_storage_bytes_total{bucket="files",direction="out"}')).toBeGreaterThan(1_000);
  expect(series.get('svc_catalog_age_seconds')).toBeLessThan(60);
  for (const operation of ['read', 'auth', 'storage', 'meta'])
    expect(
      series.get(`db_client_operation_duration_seconds_count{db_operation_name="${operation}"}`),
      operation,
    ).toBeGreaterThan(0);
  expect(
    series.get('db_client_operation_duration_seconds_count{db_operation_name="write",error_type="42"}'),
  ).toBe(1);
  for (const pool of ['requests', 'auth', 'storage', 'catalog'])
    expect(series.get(`db_client_connection_max{pool="${pool}"}`), pool).toBeGreaterThan(0);
});

test('the page about metrics, the dashboard and the alarms use existing metrics', async () => {
  const world = await aBackend({ admin: ADMIN });
  await useEverything(world);
  const { text } = await adminAnswer(world, '/metrics');
  const types = new Map(
    [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type]) => [name, type]),
  );
  const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

  const page = read('docs/operations/metrics.md');
  const told = [...page.matchAll(/^\| (`.*?)\|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([a-z_0-9]+)`/g)].map(([, name = '']) => name),
  );
  const whole = told.map((name) => (types.has(name) ? name : `svc_realtime_${name}`));
  expect(whole.toSorted()).toEqual([...types.keys()].toSorted());

  const { panels } = JSON.parse(read('deploy/grafana.json')) as {
    panels: ReadonlyArray<{ targets?: ReadonlyArray<{ expr: string }> }>;
  };
  const { groups } = parse(read('deploy/alerts.yml')) as {
    groups: ReadonlyArray<{ rules: ReadonlyArray<{ expr: string }> }>;
  };
  const expressions = [
    ...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
    ...groups.flatMap(({ rules }) => rules.map(({ expr }) => expr)),
  ];
  expect(expressions.length).toBeGreaterThan(20);
  for (const expression of expressions) {
    const withoutLabels = expression.replaceAll(/\b(?:by|without) \([^)]*\)|\{[^}]*\}/g, '');
    const names = withoutLabels.match(/\b(?:http|db|svc|process|nodejs)_[a-z0-9_]+/g) ?? [];
    expect(names, expression).not.toEqual([]);
    for (const name of names) {
      const base = name.replace(/_(?:bucket|sum|count)$/, '');
      expect(types.has(name) || types.get(base) === 'histogram', `${name} of ${expression}`).toBe(true);
    }
  }
});

test('hostile requests add no series', async () => {
  const world = await aBackend({ admin: ADMIN });
  const headers = { apikey: world.keys.publishable };
  await useEverything(world);
  const ask = async (number: number): Promise<void> => {
    const kinds = [
      `/x${number}`,
      `/rest/v1/x${number}?a${number}=eq.1`,
      `/rest/v1/rpc/x${number}`,
      `/auth/v1/token?grant_type=x${number}`,
      `/auth/v1/callback/x${number}`,
      `/storage/v1/object/public/b${number}/c`,
      `/storage/v1/object/public/files/${number}`,
      `/functions/v1/f${number}`,
      `/realtime/v1/x${number}`,
    ];
    const method = ['GET', 'POST', 'PROPFIND'][number % 3] ?? 'GET';
    const answer = await fetch(`${world.url}${kinds[number % kinds.length]}`, { method, headers });
    await answer.arrayBuffer();
  };
  const count = async (): Promise<number> => parseSeries((await adminAnswer(world, '/metrics')).text).size;
  // Each kind of request has been sent once.
  for (let number = 0; number < 54; number += 1) await ask(number);
  const before = await count();
  for (let number = 54; number < 600; number += 1) await ask(number);
  await expect
    .poll(async () => (await adminAnswer(world, '/metrics')).text)
    .toMatch(/http_request_method="_OTHER"/);
  expect(await count()).toBe(before);
});
