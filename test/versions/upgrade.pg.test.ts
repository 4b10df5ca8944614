// `svc db upgrade`: upgrades the development database of an earlier PostgreSQL after svc got a newer one.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.ts';
import { readNativePackage } from '../../src/embedded-postgres/native-package.ts';
import { silentLog } from '../../src/log/log.ts';
import { readLines } from '../support/documentation/blocks.ts';
import { LAUNCHER, NODE, runSvc, startSvc } from '../support/svc-process.ts';
import { scaled } from '../support/run/scaled.ts';

const given = process.env['SVC_TEST_POSTGRES'];
const reason =
  given === undefined || !existsSync(given)
    ? 'SVC_TEST_POSTGRES names no other version than the one that svc has'
    : undefined;
const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const ANN = { email: 'ann@example.com', password: 'correct horse battery' };
const YAML = `version: 1
tables:
  notes:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: owner, type: uuid, default: { sql: auth.uid() } }
      - { name: text, type: text }
    rls: [{ operations: [select, insert], check: owner = auth.uid() }]
storage:
  files: { rls: [{ operations: [select, insert], check: auth.uid() is not null }] }
`;

let folder: string;
let config: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-upgrade-'));
  // Before PostgreSQL 16, initdb changes its directory and returns by path, under another account than root.
  chmodSync(folder, 0o755);
  config = join(folder, 'svc.yaml');
  writeFileSync(config, YAML);
  writeFileSync(
    join(folder, '.env'),
    Object.entries(KEYS)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
  );
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Version as the documentation page has it. */
const [, ...words] = (readLines('docs/development-database.md', 'svc db upgrade')[0] ?? '').split(' ');
const upgrade = (...args: readonly string[]): ReturnType<typeof runSvc> =>
  runSvc([...words, '--config', config, ...args], {});

/** An app with a user, a row and a file, on the version that is given. */
async function usedFormerly(more?: (url: string) => Promise<void>): Promise<void> {
  const state = join(folder, '.svc');
  const native = await readNativePackage(given ?? '');
  const former = await startEmbeddedPostgres({ dir: state, log: silentLog, native });
  try {
    const env = { ...KEYS, SVC_DATABASE_URL: former.url };
    const svc = await startSvc({ command: 'serve', config, arguments: ['--migrate'], env });
    const client = createClient(svc.url, svc.publishableKey);
    await client.auth.signUp(ANN);
    for (const text of ['one', 'two']) await client.from('notes').insert({ text }).throwOnError();
    expect((await client.storage.from('files').upload('a.txt', 'of before')).error).toBeNull();
    await svc.stop();
    await more?.(former.url);
  } finally {
    await former.stop();
  }
}

test(
  'keeps users, rows and files, and moves the previous database aside',
  { timeout: scaled(240_000) },
  async (context) => {
    context.skip(reason !== undefined, reason);
    await usedFormerly();
    const refused = await runSvc(['dev', '--config', config], {});
    expect(refused).toMatchObject({ code: 78, output: expect.stringContaining('run svc db upgrade') });
    const done = await upgrade();
    expect([done.code, done.output]).toEqual([0, expect.stringContaining('upgraded to PostgreSQL 18')]);
    const { major } = await readNativePackage(given ?? '');
    expect(readFileSync(join(folder, `.svc/postgres-${major}/PG_VERSION`), 'utf8').trim()).toBe(major);
    expect(existsSync(join(folder, '.svc/upgrade'))).toBe(false);

    const svc = await startSvc({ command: 'dev', config });
    try {
      const client = createClient(svc.url, svc.publishableKey);
      expect((await client.auth.signInWithPassword(ANN)).error).toBeNull();
      await client.from('notes').insert({ text: 'three' }).throwOnError();
      const { data } = await client.from('notes').select('text').order('id').throwOnError();
      expect(data).toEqual([{ text: 'one' }, { text: 'two' }, { text: 'three' }]);
      const file = await client.storage.from('files').download('a.txt');
      expect(await file.data?.text()).toBe('of before');
    } finally {
      await svc.stop();
    }
    expect((await upgrade()).output).toContain('the version of svc');
  },
);

test(
  'an object that svc.yaml does not declare stops it by name, and nothing is changed',
  { timeout: scaled(240_000) },
  async (context) => {
    context.skip(reason !== undefined, reason);
    await usedFormerly(async (url) => {
      await runSvc(['sql', '--write', '--yes', 'create table by_hand (id int)', '--config', config], {
        env: { ...KEYS, SVC_DATABASE_URL: url },
      });
    });
    const { major } = await readNativePackage(given ?? '');
    const former = ['--former', given ?? ''];
    const refused = await upgrade(...former);
    expect([refused.code, refused.output]).toEqual([1, expect.stringContaining('by_hand')]);
    expect(readFileSync(join(folder, '.svc/postgres/PG_VERSION'), 'utf8').trim()).toBe(major);
    expect(existsSync(join(folder, '.svc/upgrade'))).toBe(false);
    expect(await upgrade(...former, '--allow-missing')).toMatchObject({ code: 0 });
  },
);

test(
  'killed in the middle it has changed nothing, and the next one does it all',
  { timeout: scaled(240_000) },
  async (context) => {
    context.skip(reason !== undefined, reason);
    await usedFormerly();
    const args = [LAUNCHER, 'db', 'upgrade', '--config', config, '--former', given ?? ''];
    const child = spawn(NODE, args, { stdio: 'ignore' });
    const ended = once(child, 'exit');
    await expect
      .poll(() => existsSync(join(folder, '.svc/upgrade/postgres/postmaster.pid')), {
        timeout: scaled(60_000),
      })
      .toBe(true);
    child.kill('SIGKILL');
    await ended;
    const { major } = await readNativePackage(given ?? '');
    expect(readFileSync(join(folder, '.svc/postgres/PG_VERSION'), 'utf8').trim()).toBe(major);
    const done = await upgrade('--former', given ?? '');
    expect([done.code, done.output]).toEqual([0, expect.stringContaining('upgraded to PostgreSQL 18')]);
  },
);

test(
  'a folder of another version is refused, and without a database there is nothing to do',
  { timeout: scaled(240_000) },
  async (context) => {
    context.skip(reason !== undefined, reason);
    expect((await upgrade()).output).toContain('there is no development database');
    await usedFormerly();
    expect(await upgrade('--former', folder)).toMatchObject({
      code: 2,
      output: expect.stringContaining('is not PostgreSQL'),
    });
  },
);
