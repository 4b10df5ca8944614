// Instances that do not share their directory, and a directory that becomes unavailable during use.
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { raw, sql } from '../../../src/postgres/sql.ts';
import { LocalBackend } from '../../../src/storage/backend/local.ts';
import { verifyLocation } from '../../../src/storage/backend/location.ts';
import { MARK_FILE } from '../../../src/storage/backend/store-mark.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { runSvc, startSvc, type SvcProcess } from '../../support/svc-process.ts';
import { call, until } from '../conformance/http.ts';
import { aBucket, createWorld, OWN, type World } from '../conformance/world.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const folder = mkdtempSync(join(tmpdir(), 'svc-elsewhere-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const markIn = (directory: string): string =>
  (JSON.parse(readFileSync(join(directory, MARK_FILE), 'utf8')) as { id: string }).id;

describe('processes on one database', () => {
  let database: TestDatabase;
  let first: SvcProcess | undefined;
  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(async () => {
    await first?.stop();
    await database.drop();
  });

  /** A separate machine: the same file, its own disk. */
  function machine(storage = '.svc/storage'): string {
    const directory = mkdtempSync(join(folder, 'machine-'));
    const file = join(directory, 'svc.yaml');
    writeFileSync(
      file,
      'version: 1\nstorage: { files: { public: true } }\n' +
        `providers: { storage: { type: local, local: { path: ${storage} } } }\n`,
    );
    return file;
  }
  const env = (): Record<string, string> => ({ ...KEYS, SVC_DATABASE_URL: database.url });

  test('a second instance with a separate directory does not start', async () => {
    const file = machine();
    const directory = join(file, '../.svc/storage');
    first = await startSvc({ command: 'serve', config: file, env: env(), arguments: ['--migrate'] });
    const mark = markIn(directory);

    const alone = machine();
    const refused = await runSvc(['serve', '--config', alone, '--port', '0'], { env: env() });
    expect([refused.code, refused.output]).toEqual([
      78,
      expect.stringContaining(`the mark ${mark}, this one is empty`),
    ]);

    // A directory that already belongs to another project.
    const otherDirectory = join(alone, '../.svc/storage');
    mkdirSync(otherDirectory, { recursive: true });
    const otherMark = '5e1b2c1c-6b1f-4f3e-9d5c-0f6f4f9e8a11';
    writeFileSync(join(otherDirectory, MARK_FILE), JSON.stringify({ id: otherMark }));
    const both = await runSvc(['serve', '--config', alone, '--port', '0'], { env: env() });
    expect([both.code, both.output]).toEqual([78, expect.stringContaining(mark)]);
    expect(both.output).toContain(`has the mark ${otherMark}`);

    // The same disk under another path.
    const shared = await startSvc({ command: 'serve', config: machine(directory), env: env() });
    await shared.stop();
  });

  test('a reload is rejected while the directory is unavailable', async () => {
    const directory = join(folder, 'unused');
    expect(first).toBeDefined();
    const storage = join(
      first?.child.spawnargs.find((argument) => argument.endsWith('svc.yaml')) ?? '',
      '../.svc/storage',
    );
    renameSync(storage, directory);
    first?.child.kill('SIGHUP');
    await until(() => first?.output().includes('the new configuration was refused') ?? false);
    expect(first?.output()).toContain('The files are in a directory with the mark');
    renameSync(directory, storage);
    first?.child.kill('SIGHUP');
    await until(() => first?.output().includes('"reloaded"') ?? false);
  });
});

describe('a directory that becomes unavailable', () => {
  let world: World;
  beforeAll(async () => {
    world = await createWorld({
      buckets: [aBucket('b', { public: true, rls: [OWN] })],
      storage: { cleanup: { graceMs: 0, pollMs: 50 } },
    });
  });
  afterAll(() => world?.stop());

  test('is 503, never 404, and nothing is deleted until it is back', async () => {
    const put = (name: string) =>
      call('POST', `${world.url}/object/b/${name}`, { headers: world.alice.headers, body: 'x' });
    const get = () => call('GET', `${world.url}/object/public/b/one`);
    expect((await put('one')).status).toBe(200);
    const away = `${world.directory}-away`;
    renameSync(world.directory, away);
    const pending = randomUUID();
    await world.owner.query(
      sql`insert into storage.blob_gc (version, reason, queued_at) values (${pending}, 'deleted', 'epoch')`,
    );
    // Like a mount point without its disk.
    mkdirSync(join(world.directory, 'blobs'), { recursive: true });
    mkdirSync(join(world.directory, 'staging'));
    for (const answer of [await get(), await put('two')])
      expect([answer.status, answer.json.code]).toEqual([503, 'StorageUnavailable']);
    await expect(world.storage.sweepOrphans({ minAgeMs: 0 })).rejects.toMatchObject({ code: 'storage_gone' });
    await expect(world.sweep()).rejects.toMatchObject({ code: 'storage_gone' });
    expect(
      await world.owner.query(sql`select from storage.blob_gc where version = ${pending} and attempts = 0`),
    ).toHaveLength(1);

    rmSync(world.directory, { recursive: true });
    renameSync(away, world.directory);
    expect((await get()).text).toBe('x');
    await until(async () => (await world.owner.query(raw('select from storage.blob_gc'))).length === 0);
  });

  test('two concurrent first starts on one directory agree', async () => {
    await world.owner.query(raw(`delete from storage.settings where key = 'location'`));
    await world.owner.query(raw('delete from storage.objects; '));
    await world.owner.query(raw('delete from storage.blob_gc'));
    const shared = join(folder, 'shared');
    const starters = Array.from({ length: 8 }, () => new LocalBackend(shared));
    await Promise.all(starters.map((backend) => verifyLocation(world.owner, backend)));
    const [row] = await world.owner.query<{ value: unknown }>(
      raw(`select value from storage.settings where key = 'location'`),
    );
    expect(row?.value).toEqual({ kind: 'local', id: markIn(shared) });
    await expect(verifyLocation(world.owner, new LocalBackend(join(folder, 'own')))).rejects.toMatchObject({
      code: 'storage_elsewhere',
    });
  });
});
