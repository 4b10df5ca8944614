// A large file that has been read is not read again by the next start, and a changed one only in part: which serve, plan,
// check and refuse all the same.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { svcFile } from '../../bench/startup/large-file-text.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';

const TABLES = 60;
const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};

let directory: string;
let config: string;
let database: TestDatabase;
let superuser: pg.Client;
let svc: SvcProcess | undefined;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'svc-kept-file-'));
  config = join(directory, 'svc.yaml');
  database = await createDatabase();
  superuser = new pg.Client({ connectionString: database.url });
  await superuser.connect();
});
afterEach(async () => {
  await svc?.stop();
  svc = undefined;
});
afterAll(async () => {
  await superuser.end();
  await database.drop();
  rmSync(directory, { recursive: true });
});

async function serve(...args: readonly string[]): Promise<SvcProcess> {
  const env = { ...KEYS, SVC_DATABASE_URL: database.url };
  return (svc = await startSvc({ command: 'serve', config, env, arguments: args }));
}

/** When what is kept was written; undefined while nothing is. */
function keptAt(beside = directory): number | undefined {
  const folder = join(beside, '.svc', 'kept');
  try {
    const [name = ''] = readdirSync(folder).filter((one) => !one.includes('.'));
    return statSync(join(folder, name)).mtimeMs;
  } catch {
    return undefined;
  }
}

async function statusOf(path: string): Promise<number> {
  const answer = await fetch(`${svc?.url}/rest/v1/${path}`, {
    headers: { apikey: KEYS.SVC_PUBLISHABLE_KEY },
  });
  return answer.status;
}

test('the second start of a large file takes what the first has kept, and serves the same', async () => {
  writeFileSync(config, svcFile(TABLES, 0));
  await serve('--migrate');
  expect(await statusOf('bench_0?select=id')).toBe(200);
  await expect.poll(() => keptAt()).toBeDefined();
  const first = keptAt();
  await svc?.stop();

  await serve('--migrate');
  expect(await statusOf(`bench_${TABLES - 1}?select=id,other(id)`)).toBe(200);
  expect(svc?.output()).not.toContain('migrated');
  await svc?.stop();
  expect(keptAt()).toBe(first);
});

test('what somebody changed in the database by hand is found as ever', async () => {
  const first = keptAt();
  const { rows } = await superuser.query<{ name: string }>(
    `select polname as name from pg_policy where polrelid = 'bench_1'::regclass and polcmd = 'r'`,
  );
  await superuser.query(`drop policy "${rows[0]?.name}" on bench_1`);
  await serve();
  expect(svc?.output()).toContain('the database does not match the file');
  expect(svc?.output()).toContain('tables.bench_1');
  await svc?.stop();
  await serve('--migrate');
  expect(svc?.output()).toContain('migrated');
  await svc?.stop();
  await serve();
  expect(svc?.output()).not.toContain('does not match');
  expect(keptAt()).toBe(first);
});

test('another text is read, served and kept in its turn', async () => {
  const first = keptAt();
  writeFileSync(config, svcFile(TABLES, 1));
  await serve('--migrate');
  expect(await statusOf('bench_0?select=extra_0')).toBe(200);
  await expect.poll(() => keptAt()).not.toBe(first);
  await svc?.stop();
  await serve();
  expect(await statusOf('bench_0?select=extra_0')).toBe(200);
  expect(svc?.output()).not.toContain('does not match');
});

describe('of a changed file', () => {
  // What is kept stays where a part of the file was read, and is written again where all of it was.
  const ofTable = (version: number): string => svcFile(TABLES, version);
  const ofProject = (name: string): string =>
    ofTable(2).replace('tables:', `project: { name: ${name} }\ntables:`);
  let folder: string;
  let file: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-kept-file-'));
    file = join(folder, 'svc.yaml');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test('plans read what has changed', async () => {
    const plan = async (text: string, keys: Partial<typeof KEYS> = KEYS): Promise<string> => {
      writeFileSync(file, text);
      const env = { ...keys, SVC_DATABASE_URL: database.url };
      const { code, output } = await runSvc(['migrate', 'plan', '--config', file], { env });
      expect([0, 2], output).toContain(code);
      return output;
    };
    await plan(ofTable(1), {});
    expect(keptAt(folder)).toBeUndefined();
    await plan(ofTable(1));
    const first = keptAt(folder);
    expect(first).toBeDefined();
    const changed = await plan(ofTable(2));
    expect(changed).toContain('extra_1');
    expect(keptAt(folder)).toBe(first);
    expect(changed).toBe(await plan(ofTable(2), {}));
    await plan(ofProject('shop'));
    expect(keptAt(folder)).not.toBe(first);
  });

  test('svc dev reloads what has changed', async () => {
    writeFileSync(file, ofTable(2));
    svc = await startSvc({ command: 'dev', config: file, env: { ...KEYS, SVC_DATABASE_URL: database.url } });
    await expect.poll(() => keptAt(folder)).toBeDefined();
    const first = keptAt(folder);
    const reloads = (): number => svc?.output().split('reloaded').length ?? 0;
    const change = async (text: string): Promise<void> => {
      const before = reloads();
      writeFileSync(file, text);
      await expect.poll(reloads, { timeout: 30_000 }).toBeGreaterThan(before);
    };
    await change(ofTable(3));
    expect(await statusOf('bench_0?select=extra_2')).toBe(200);
    expect(keptAt(folder)).toBe(first);
    await change(ofProject('shop'));
    await expect.poll(() => keptAt(folder)).not.toBe(first);
  });
});

test('a mistake in the file is told, whatever was kept before', async () => {
  const text = readFileSync(config, 'utf8');
  writeFileSync(config, text.replace('name: slug,', 'nam: slug,'));
  const env = { ...KEYS, SVC_DATABASE_URL: database.url };
  const { code, output } = await runSvc(['serve', '--config', config], { env });
  expect(code).toBe(78);
  expect(output).toMatch(/svc\.yaml:\d+:\d+ error tables\.bench_0\.fields\[1\]/);
});
