// What Prometheus gets from a running backend, and who else gets it.
import { afterEach, expect, test } from 'vitest';
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
`;
const TOKEN = 'a-token-of-more-than-thirty-two-characters';
const OPENED: BackendWorld[] = [];

afterEach(async () => {
  for (const world of OPENED.splice(0)) await world.close();
});

async function aBackend(options: Parameters<typeof startBackendWorld>[1]): Promise<BackendWorld> {
  const world = await startBackendWorld(YAML, options);
  OPENED.push(world);
  return world;
}

async function scrape(world: BackendWorld, headers: Record<string, string> = {}): Promise<Response> {
  return await fetch(`${world.url}/metrics`, { headers });
}

test('answers are counted by method, route and status, for who has the token', async () => {
  const world = await aBackend({ env: { SVC_METRICS_TOKEN: TOKEN } });
  await fetch(`${world.url}/rest/v1/notes`, { headers: { apikey: world.keys.publishable } });
  const response = await scrape(world, { authorization: `Bearer ${TOKEN}` });
  const text = await response.text();
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  expect(text).toContain(
    'http_server_request_duration_seconds_count{http_request_method="GET",http_route="/rest/v1/*",http_response_status_code="200"} 1\n',
  );
  expect(text).toContain('svc_ready 1\n');
  expect(text).toMatch(/^db_client_connection_max\{pool="requests"\} [1-9]/m);
  expect(text).toMatch(/^process_resident_memory_bytes [1-9]\d{6,}$/m);
});

test('another token, our keys and no token are refused', async () => {
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

test('hostile requests add no series', async () => {
  const world = await aBackend({ env: { SVC_METRICS_TOKEN: TOKEN } });
  for (let number = 0; number < 500; number += 1) {
    await fetch(`${world.url}/${number % 2 === 0 ? 'rest/v1/' : ''}x${number}`, {
      method: number % 3 === 0 ? 'PROPFIND' : 'GET',
    });
  }
  const text = await (await scrape(world, { authorization: `Bearer ${TOKEN}` })).text();
  expect(text.match(/_count\{/g)?.length).toBeLessThan(8);
  expect(text).toContain('http_request_method="_OTHER"');
});
