// Which of two files the database follows when instances start and stop. Deployments have an order, and an instance
// with an older file never migrates backwards. Each row starts a process, so this takes a while.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';
import { scaled } from '../support/run/scaled.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const NOON = Date.UTC(2026, 10, 22, 12, 0);
const LATER = NOON + 60_000;
const LATEST = LATER + 60_000;

const WITH_POLICY = `version: 1
tables:
  notes:
    fields: [{ name: id, type: int, primary_key: true }, { name: body, type: text }]
    rls: [{ operations: [select], using: 'true' }]
`;
const WITHOUT_POLICY = `version: 1
tables:
  notes:
    fields: [{ name: id, type: int, primary_key: true }]
    rls: []
`;

const folder = mkdtempSync(join(tmpdir(), 'svc-order-'));
let database: TestDatabase;
let svc: SvcProcess | undefined;

beforeAll(async () => {
  database = await createDatabase();
});
afterEach(async () => {
  await svc?.stop();
  svc = undefined;
});
afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
});

type Start = { text: string; stamp?: number; env?: Record<string, string>; arguments?: readonly string[] };

/** Content of an image: the file, and the stamp of its build. */
function image({ text, stamp }: Start): string {
  const directory = mkdtempSync(join(folder, 'image-'));
  writeFileSync(join(directory, 'svc.yaml'), text);
  mkdirSync(join(directory, '.svc'));
  if (stamp !== undefined)
    writeFileSync(join(directory, '.svc/build.json'), JSON.stringify({ sequence: stamp, commit: null }));
  return join(directory, 'svc.yaml');
}

const environment = (more: Record<string, string> = {}): Record<string, string> => ({
  ...KEYS,
  ...more,
  SVC_DATABASE_URL: database.url,
});

async function serves(start: Start): Promise<SvcProcess> {
  await svc?.stop();
  svc = await startSvc({
    command: 'serve',
    config: image(start),
    env: environment(start.env),
    arguments: ['--migrate', ...(start.arguments ?? [])],
  });
  return svc;
}

/** Ends with the exit code of a problem, and prints the reason. */
async function isRefused(start: Start): Promise<string> {
  const args = ['serve', '--migrate', '--superseded', 'refuse', '--port', '0', '--config', image(start)];
  const { code, output } = await runSvc([...args, ...(start.arguments ?? [])], {
    env: environment(start.env),
  });
  expect([code, output]).toEqual([1, expect.stringContaining('MIG-40')]);
  return output;
}

async function sql(text: string): Promise<Array<Record<string, unknown>>> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

async function policies(): Promise<number> {
  const [row] = await sql(`select count(*)::int as n from pg_policies where tablename = 'notes'`);
  return Number(row?.['n']);
}

async function dashboardSession(): Promise<unknown> {
  const response = await fetch(`${svc?.url}/dashboard/api/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: svc?.url ?? '' },
    body: JSON.stringify({ secret_key: KEYS.SVC_SECRET_KEY }),
  });
  return await response.json();
}

const ready = async (): Promise<unknown> => await (await fetch(`${svc?.url}/ready`)).json();

test('deployments are applied in their order', { timeout: scaled(240_000) }, async () => {
  // Without numbers a new file is applied, and a replaced file is not, with a message.
  await serves({ text: WITH_POLICY });
  expect(await policies()).toBe(1);
  await serves({ text: WITHOUT_POLICY });
  expect(await policies()).toBe(0);
  await expect.poll(ready).toMatchObject({ status: 'ready' });
  const late = await serves({ text: WITH_POLICY });
  expect(await policies()).toBe(0);
  await expect.poll(ready).toMatchObject({ status: 'ready', schema: 'superseded' });
  const line = late
    .output()
    .split('\n')
    .find((line) => line.includes('MIG-403'));
  expect(JSON.parse(line ?? '{}')).toMatchObject({
    level: 'error',
    differs: expect.arrayContaining([expect.stringContaining('policy')]),
    hint: expect.stringContaining('--allow-rollback'),
  });
  expect(await dashboardSession()).toMatchObject({
    superseded: { message: expect.stringContaining('MIG-403') },
  });

  // From the first number on, files without one are not applied any more.
  await serves({ text: WITHOUT_POLICY, stamp: LATER });
  await expect.poll(ready).toMatchObject({ status: 'ready' });
  expect(await isRefused({ text: WITH_POLICY })).toContain('MIG-406');
  expect(await isRefused({ text: WITH_POLICY, stamp: NOON })).toContain('built 2026-11-22 12:00 UTC');
  expect(await isRefused({ text: WITH_POLICY, stamp: LATER })).toContain('MIG-405');
  // The command line takes precedence over the stamp.
  expect(
    await isRefused({ text: WITH_POLICY, stamp: LATEST, arguments: ['--deploy-seq', String(NOON)] }),
  ).toContain('MIG-403');
  await serves({ text: WITHOUT_POLICY });
  await expect.poll(ready).toMatchObject({ status: 'ready' });
  await serves({ text: WITHOUT_POLICY, stamp: NOON });
  await expect.poll(ready).toMatchObject({ status: 'ready' });
  expect(await policies()).toBe(0);

  // A revert with a new build.
  await serves({ text: WITH_POLICY, stamp: LATEST });
  await expect.poll(ready).toMatchObject({ status: 'ready' });
  expect(await policies()).toBe(1);

  // Back on purpose: one file only.
  const refused = await isRefused({ text: WITHOUT_POLICY, stamp: LATER });
  const hash = /SVC_ALLOW_ROLLBACK=([0-9a-f]{8})/.exec(refused)?.[1] ?? '';
  expect(
    await isRefused({ text: WITHOUT_POLICY, stamp: LATER, env: { SVC_ALLOW_ROLLBACK: 'abcdef01' } }),
  ).toContain('MIG-403');
  await serves({ text: WITHOUT_POLICY, stamp: LATER, env: { SVC_ALLOW_ROLLBACK: hash } });
  expect(await policies()).toBe(0);
  // The file that was rolled back is not applied again by itself.
  expect(await isRefused({ text: WITH_POLICY, stamp: LATEST })).toContain('MIG-403');
});

test('the instance with the newest file may replace it in place', async () => {
  const file = image({ text: WITH_POLICY, stamp: LATEST + 60_000 });
  svc = await startSvc({ command: 'serve', config: file, env: environment(), arguments: ['--migrate'] });
  expect(await policies()).toBe(1);
  writeFileSync(file, WITHOUT_POLICY);
  svc.child.kill('SIGHUP');
  await expect.poll(policies).toBe(0);
  expect(svc.output()).not.toContain('MIG-40');
});

test('variables that order deployments are checked', async () => {
  const args = ['serve', '--migrate', '--port', '0', '--config', image({ text: WITH_POLICY })];
  const forever = await runSvc(args, { env: environment({ SVC_ALLOW_ROLLBACK: 'true' }) });
  expect([forever.code, forever.output]).toEqual([
    78,
    expect.stringContaining('SVC_ALLOW_ROLLBACK is "true"'),
  ]);
  const worded = await runSvc(args, { env: environment({ SVC_DEPLOY_SEQ: 'v1.2' }) });
  expect([worded.code, worded.output]).toEqual([78, expect.stringContaining('SVC_DEPLOY_SEQ is "v1.2"')]);
});

test('svc stamp writes a number and the commit that the next start uses', async () => {
  const file = image({ text: WITH_POLICY });
  const before = Date.now();
  const { code, output } = await runSvc(['stamp', '--config', file]);
  expect([code, output]).toEqual([0, expect.stringContaining('.svc/build.json')]);
  const started = await runSvc(['migrate', 'apply', '--config', file], { env: environment() });
  expect(started).toMatchObject({ code: 0 });
  const [row] = await sql(`select max(deploy_seq)::float8 as newest from svc_meta.run where status = 'done'`);
  expect(row?.['newest']).toBeGreaterThanOrEqual(before);
});
