// The page: its security policy, its files and their caching, and the response without a build.
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startDashboardWorld, type DashboardWorld } from '../support/dashboard/dashboard-world.ts';

const SCRIPT = `console.log(${JSON.stringify('x'.repeat(5000))});`;

let folder: string;
let world: DashboardWorld;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-page-'));
  world = await startDashboardWorld('version: 1\n', { pageDirectory: folder });
});
afterAll(async () => {
  await world.close();
  rmSync(folder, { recursive: true, force: true });
});

const EXPECTED_HEADERS = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'x-frame-options': 'DENY',
};

test('without a build, the response explains how to build the page; with one, the page is served', async () => {
  const before = await world.send('/dashboard/');
  expect(before.status).toBe(503);
  expect(before.text).toContain('npm run build');
  expect(before.headers).toMatchObject(EXPECTED_HEADERS);

  mkdirSync(join(folder, 'assets'));
  writeFileSync(join(folder, 'assets/main-1a.js'), SCRIPT);
  writeFileSync(join(folder, 'icon.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>');
  writeFileSync(join(folder, 'index.html'), '<meta content="%STYLE_NONCE%">');
  expect((await world.send('/dashboard/')).status).toBe(200);
});

test('/dashboard redirects to /dashboard/', async () => {
  const { status, headers } = await world.send('/dashboard');
  expect(status).toBe(302);
  expect(headers['location']).toBe('/dashboard/');
});

test('every address below it is the page, with a fresh nonce', async () => {
  const first = await world.send('/dashboard/tables?table=notes');
  const second = await world.send('/dashboard/users/deep/link');
  for (const { status, headers, text } of [first, second]) {
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('text/html; charset=utf-8');
    expect(headers['cache-control']).toBe('no-store');
    expect(headers).toMatchObject(EXPECTED_HEADERS);
    const nonce = /content="([^"]+)"/.exec(text)?.[1] ?? '';
    expect(nonce).toMatch(/^[\w+/]{22}==$/);
    expect(headers['content-security-policy']).toBe(
      `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; ` +
        "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; frame-src 'self'; " +
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    );
  }
  expect(first.text).not.toBe(second.text);
});

test('files with a hash in their name are cached forever, others for an hour', async () => {
  const script = await world.send('/dashboard/assets/main-1a.js');
  expect(script.text).toBe(SCRIPT);
  expect(script.headers).toMatchObject({
    ...EXPECTED_HEADERS,
    'content-type': 'text/javascript; charset=utf-8',
    'cache-control': 'public, max-age=31536000, immutable',
    vary: 'accept-encoding',
  });
  const icon = await world.send('/dashboard/icon.svg');
  expect(icon.headers).toMatchObject({
    'content-type': 'image/svg+xml',
    'cache-control': 'private, max-age=3600',
  });
});

test('scripts are compressed if the client accepts gzip', async () => {
  const { body } = await fetchRaw('/dashboard/assets/main-1a.js', 'br, gzip');
  expect(body.length).toBeLessThan(SCRIPT.length / 10);
  expect(gunzipSync(body).toString()).toBe(SCRIPT);
});

test('HEAD responds like GET, without a body', async () => {
  for (const path of ['/dashboard/', '/dashboard/assets/main-1a.js']) {
    const { status, text, headers } = await world.send(path, { method: 'HEAD' });
    expect([status, text]).toEqual([200, '']);
    expect(headers).toMatchObject(EXPECTED_HEADERS);
  }
});

test('a missing script is a 404, not the page', async () => {
  expect((await world.send('/dashboard/assets/gone-2b.js')).status).toBe(404);
});

test('a new build is served without a restart', async () => {
  expect((await world.send('/dashboard/assets/main-9z.js')).status).toBe(404);
  writeFileSync(join(folder, 'assets/main-9z.js'), 'newer');
  writeFileSync(join(folder, 'index.html'), '<title>newer</title>');
  utimesSync(join(folder, 'index.html'), new Date(), new Date(Date.now() + 5000));
  expect((await world.send('/dashboard/')).text).toBe('<title>newer</title>');
  expect((await world.send('/dashboard/assets/main-9z.js')).text).toBe('newer');
});

test('the API answers with the same headers, and is never cached', async () => {
  for (const path of ['/dashboard/api/session', '/dashboard/api/overview', '/dashboard/api/nowhere']) {
    const { headers } = await world.send(path);
    expect(headers).toMatchObject({ ...EXPECTED_HEADERS, 'cache-control': 'no-store' });
    expect(headers['content-security-policy']).toMatch(/^default-src 'none'/);
  }
});

/** Returns the raw bytes; `fetch` would decompress them. */
async function fetchRaw(path: string, encodings: string): Promise<{ body: Buffer }> {
  const { request } = await import('node:http');
  return await new Promise((resolve, reject) => {
    request(world.url + path, { headers: { 'accept-encoding': encodings } }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve({ body: Buffer.concat(chunks) }));
    })
      .on('error', reject)
      .end();
  });
}
