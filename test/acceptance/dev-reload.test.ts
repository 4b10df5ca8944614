// `svc dev` follows the file: a good change is served, a bad one is reported and replaces nothing.
import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTodoServer, type TodoServer } from '../support/todo-project.ts';

let svc: TodoServer;

beforeAll(async () => {
  svc = await startTodoServer();
});
afterAll(async () => {
  await svc?.stop();
});

const get = (path: string): Promise<Response> =>
  fetch(`${svc.url}${path}`, { headers: { apikey: svc.publishableKey } });

function edit(change: (text: string) => string): void {
  writeFileSync(svc.config, change(readFileSync(svc.config, 'utf8')));
}

test('a new column and a new table appear without a restart, and no request fails meanwhile', async () => {
  const seen = { failures: 0, done: false };
  const watching = (async () => {
    while (!seen.done) {
      const response = await get('/rest/v1/tips?select=body');
      if (!response.ok) seen.failures += 1;
    }
  })();
  edit((text) =>
    text
      .replace(
        '      - { name: body, type: text, required: true, unique: true }\n',
        '      - { name: body, type: text, required: true, unique: true }\n      - { name: stars, type: integer, default: 3 }\n',
      )
      .replace(
        'storage:\n',
        '  notices:\n    fields: [{ name: id, type: bigserial, primary_key: true }]\n    rls: [{ operations: [select], using: "true" }]\n\nstorage:\n',
      ),
  );
  await expect.poll(async () => (await get('/rest/v1/tips?select=stars')).status).toBe(200);
  await expect.poll(async () => (await get('/rest/v1/notices')).status).toBe(200);
  seen.done = true;
  await watching;
  expect(seen.failures).toBe(0);
  expect(svc.output()).toContain('reloaded');
});

test('a file with mistakes is reported with its line, and the last good one is served on', async () => {
  const good = readFileSync(svc.config, 'utf8');
  edit((text) => text.replace('on_delete: cascade } }', 'on_delete: cascde } }'));
  await expect.poll(() => svc.output()).toContain('Did you mean cascade?');
  expect(svc.output()).toMatch(/svc\.yaml:\d+:\d+ error tables\.lists\.fields\[1\]\.foreign_key\.on_delete/);
  expect((await get('/rest/v1/tips?select=body')).status).toBe(200);
  writeFileSync(svc.config, good);
  await expect.poll(() => svc.output().match(/reloaded/g)?.length ?? 0).toBeGreaterThan(1);
});

test('a change the database refuses leaves file and database as they were served', async () => {
  const service = { apikey: svc.secretKey, 'content-type': 'application/json' };
  const inserted = await fetch(`${svc.url}/rest/v1/tips`, {
    method: 'POST',
    headers: service,
    body: JSON.stringify({ body: 'keep me', stars: null }),
  });
  expect(inserted.status).toBe(201);
  const good = readFileSync(svc.config, 'utf8');
  edit((text) =>
    text.replace(
      '{ name: stars, type: integer, default: 3 }',
      '{ name: stars, type: integer, required: true }',
    ),
  );
  await expect.poll(() => svc.output()).toContain('MIG-201');
  expect((await get('/rest/v1/tips?select=stars')).status).toBe(200);
  writeFileSync(svc.config, good);
});

test('the dashboard is where the banner says, and lets the person at this machine in', async () => {
  expect(svc.output()).toMatch(/dashboard +http:\/\/localhost:\d+\/dashboard\n/);
  const api = `${svc.url}/dashboard/api`;
  const signedIn = await fetch(`${api}/session/local`, {
    method: 'POST',
    headers: { origin: new URL(svc.url).origin },
  });
  expect(await signedIn.json()).toMatchObject({ signedIn: true, mode: 'readwrite', project: { dev: true } });
  const cookie = signedIn.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  const logs = await fetch(`${api}/logs?source=request`, { headers: { cookie } });
  expect(await logs.text()).toContain('POST /dashboard/api/session/local');
});
