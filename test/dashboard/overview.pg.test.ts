// Overview, pending migration, the secret key, code functions and their sources, and the log.
import { existsSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LogLine } from '../../src/dashboard-api/contract.ts';
import { sql } from '../../src/postgres/sql.ts';
import {
  startDashboardWorld,
  type DashboardWorld,
  type SignedIn,
} from '../support/dashboard/dashboard-world.ts';

const FILE = `# the shop
version: 1
project: { name: shop, description: Sells things }
tables:
  open:
    fields: [{ name: id, type: bigserial, primary_key: true }]
  closed:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }]
    rls: []
storage:
  docs: { public: false }
functions:
  hello: { runtime: node, file: functions/hello.js }
  broken: { runtime: node, file: functions/broken.js }
  linked: { runtime: node, file: functions/linked.js }
`;
const HELLO =
  "export default (req, ctx) => { ctx.log.warn('from hello', { n: 1 }); " +
  "return { status: 200, body: 'v1' }; };\n";

let world: DashboardWorld;
let page: SignedIn;
beforeAll(async () => {
  world = await startDashboardWorld(FILE, {
    files: {
      'functions/hello.js': HELLO,
      'functions/linked.js': HELLO,
      'functions/broken.js': `throw new Error('broken at the top');\n`,
    },
  });
  page = await world.signIn();
});
afterAll(async () => {
  await world.close();
});

test('the overview shows versions, health and counts', async () => {
  const { status, json } = await page.call('/overview');
  expect(status).toBe(200);
  expect(json).toMatchObject({
    project: { name: 'shop', description: 'Sells things' },
    url: world.url,
    dev: false,
    mode: 'readwrite',
    publishableKey: world.keys.publishable,
    versions: { node: process.versions.node, postgres: expect.stringMatching(/^\d+\.\d+$/) },
    health: { database: 'ok', databaseMs: expect.any(Number) },
    counts: { tables: 2, buckets: 1, sqlFunctions: 0, codeFunctions: 3, users: 0 },
    openTables: ['open'],
  });
  expect(json.databaseBytes).toBeGreaterThan(1_000_000);
  expect(json.health.memoryBytes).toBeGreaterThan(10_000_000);
});

test('the page can request the secret key', async () => {
  expect((await page.call('/keys/secret', { method: 'POST' })).json).toEqual({
    secretKey: world.keys.secret,
  });
  expect((await page.call('/keys/secret')).status).toBe(404);
});

test('pending steps are listed', async () => {
  expect((await page.call('/pending')).json).toEqual({ kind: 'in-sync' });
  await world.owner.query(sql`alter table public.closed drop column body`);
  const { json } = await page.call('/pending');
  expect(json.kind).toBe('pending');
  expect(JSON.stringify(json)).toContain('body');
});

describe('code functions', () => {
  test('are listed with their load errors, and with only the names of their variables', async () => {
    await expect
      .poll(async () => (await page.call('/functions')).json.functions[1].error)
      .toContain('broken at the top');
    const { json } = await page.call('/functions');
    expect(json.editable).toBe(true);
    expect(json.workers.length).toBeGreaterThan(0);
    expect(json.functions[0]).toEqual({
      name: 'hello',
      file: 'functions/hello.js',
      authRequired: false,
      timeoutMs: expect.any(Number),
      url: `${world.url}/functions/v1/hello`,
      env: [],
      error: null,
    });
  });

  test('a source is read and changed, but not over a concurrent change', async () => {
    const path = join(world.directory, 'functions/hello.js');
    const { json: source } = await page.call('/functions/hello/source');
    expect(source).toMatchObject({ file: 'functions/hello.js', text: HELLO });
    const text = HELLO.replace('v1', 'v2');
    const mode = statSync(path).mode;
    const saved = await page.call('/functions/hello/source', {
      method: 'PUT',
      body: { text, version: source.version },
    });
    expect(saved.status, saved.text).toBe(200);
    expect(saved.json.version).not.toBe(source.version);
    expect(readFileSync(path, 'utf8')).toBe(text);
    expect(statSync(path).mode).toBe(mode);

    const late = await page.call('/functions/hello/source', {
      method: 'PUT',
      body: { text: 'lost', version: source.version },
    });
    expect([late.status, late.json.code]).toEqual([409, 'file_changed']);
    expect(readFileSync(path, 'utf8')).toBe(text);
  });

  test('of two saves against the same version one is applied', async () => {
    const { json: source } = await page.call('/functions/linked/source');
    const saves = await Promise.all(
      ['a', 'b', 'c', 'd'].map((body) => {
        const text = `export default async () => ({ body: '${body}' });\n`;
        return page.call('/functions/linked/source', {
          method: 'PUT',
          body: { text, version: source.version },
        });
      }),
    );
    expect(saves.map(({ status }) => status).sort((a, b) => a - b)).toEqual([200, 409, 409, 409]);
  });

  test.each(['/functions/nowhere/source', '/functions/..%2f..%2fsvc/source', '/functions/%2e%2e/source'])(
    '%s does not return a source',
    async (path) => {
      expect((await page.call(path)).status).toBe(404);
    },
  );

  test('a link that leads outside the project is not followed, neither to read nor to write', async () => {
    const link = join(world.directory, 'functions/linked.js');
    rmSync(link);
    const outside = `${world.directory}-outside.js`;
    writeFileSync(outside, 'outside');
    symlinkSync(outside, link);
    try {
      const read = await page.call('/functions/linked/source');
      expect([read.status, read.json.code]).toEqual([403, 'outside_project']);
      const written = await page.call('/functions/linked/source', {
        method: 'PUT',
        body: { text: 'x', version: 'x' },
      });
      expect(written.status).toBe(403);
      expect(readFileSync(outside, 'utf8')).toBe('outside');
    } finally {
      rmSync(outside);
    }
  });

  test('a new function is written and declared, and the rest of the file is unchanged', async () => {
    const made = await page.call('/functions', {
      method: 'POST',
      body: { name: 'fresh', language: 'js', authRequired: true },
    });
    expect([made.status, made.text]).toEqual([
      201,
      JSON.stringify({
        files: ['functions/fresh.js', 'functions/package.json', 'functions/package-lock.json'],
        error: null,
        loaded: false,
      }),
    ]);
    const file = readFileSync(join(world.directory, 'svc.yaml'), 'utf8');
    expect(file.startsWith(FILE.trimEnd())).toBe(true);
    expect(file).toContain('  fresh: { runtime: node, file: functions/fresh.js, auth_required: true }\n');
    expect(existsSync(join(world.directory, 'functions/fresh.js'))).toBe(true);
    const again = await page.call('/functions', {
      method: 'POST',
      body: { name: 'fresh', language: 'js', authRequired: true },
    });
    expect([again.status, again.json.code]).toEqual([409, 'already_there']);
  });

  test.each([
    [{ name: '../evil', language: 'js', authRequired: false }, 'bad_name'],
    [{ name: 'x', language: 'sh', authRequired: false }, 'bad_body'],
    [{ name: 'x' }, 'bad_body'],
    ['{"name":', 'bad_body'],
  ])('%j does not create a function', async (body, code) => {
    const { status, json } = await page.call('/functions', { method: 'POST', body });
    expect([status, json.code]).toEqual([400, code]);
  });
});

describe('the log', () => {
  const readLines = async (query = ''): Promise<LogLine[]> => (await page.call(`/logs${query}`)).json.lines;

  test('shows requests, what functions log, and the service', async () => {
    await world.send('/functions/v1/hello');
    await expect
      .poll(async () => (await readLines('?source=function')).map(({ message }) => message))
      .toContain('from hello');
    const line = (await readLines('?source=function')).find(({ message }) => message === 'from hello');
    expect(line).toMatchObject({ level: 'warn', functionName: 'hello', fields: { fields: { n: 1 } } });
    const requests = await readLines('?source=request');
    expect(requests.map(({ message }) => message)).toContain('200 GET /functions/v1/hello');
    expect(requests.every(({ source }) => source === 'request')).toBe(true);
    const errors = await readLines('?level=error');
    expect(errors.every(({ level }) => level === 'error')).toBe(true);
    expect(errors.some(({ functionName }) => functionName === 'broken')).toBe(true);
  });

  test('continues after a sequence number', async () => {
    const all = await readLines();
    const middle = all[3]?.seq ?? 0;
    const rest = await readLines(`?after=${middle}`);
    expect(rest[0]?.seq).toBe(middle + 1);
  });

  test.each(['?after=x', '?level=loud', '?source=elsewhere', '?after=-1'])('%s is refused', async (query) => {
    expect((await page.call(`/logs${query}`)).status).toBe(400);
  });

  test('streams new lines, and ends when the service stops', async () => {
    const secondWorld = await startDashboardWorld('version: 1\n');
    const { cookie } = await secondWorld.signIn();
    let text = '';
    let ended = false;
    const stream = httpRequest(
      `${secondWorld.url}/dashboard/api/logs/stream`,
      { headers: { cookie } },
      (response) => {
        expect(response.headers['content-type']).toBe('text/event-stream; charset=utf-8');
        response.on('data', (chunk: Buffer) => {
          text += chunk.toString();
        });
        response.on('end', () => {
          ended = true;
        });
      },
    );
    stream.end();
    await expect.poll(() => text).toContain('the log of this instance');
    await secondWorld.send('/rest/v1/nowhere');
    await expect.poll(() => text).toContain('/rest/v1/nowhere');
    const [, seq, data] = /id: (\d+)\ndata: (\{.*nowhere.*\})\n\n/.exec(text) ?? [];
    expect(JSON.parse(data ?? '')).toMatchObject({ seq: Number(seq), source: 'request' });
    await secondWorld.close();
    expect(ended).toBe(true);
  });
});
