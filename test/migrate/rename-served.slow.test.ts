// Tests a rename with two processes of `svc serve --migrate`: one with the file before and one with the file after it.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { createDatabase } from '../support/database.ts';
import { startSvc, type SvcProcess } from '../support/svc-process.ts';
import { AFTER, BEFORE, load, NEW_READS, OLD_REQUESTS, send } from './rename-requests.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};

const folder = mkdtempSync(join(tmpdir(), 'svc-rename-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('no request of either instance fails, even after a restart of the older instance', async () => {
  const database = await createDatabase();
  const started: SvcProcess[] = [];
  const serve = async (name: string, text: string, seq: number): Promise<SvcProcess> => {
    const directory = join(folder, name);
    mkdirSync(directory, { recursive: true });
    const config = join(directory, 'svc.yaml');
    writeFileSync(config, text);
    const svc = await startSvc({
      command: 'serve',
      config,
      arguments: ['--migrate', '--deploy-seq', String(seq)],
      env: { ...KEYS, SVC_DATABASE_URL: database.url },
    });
    started.push(svc);
    return svc;
  };
  const key = KEYS.SVC_SECRET_KEY;
  try {
    const older = await serve('before', BEFORE, 1);
    await send(older.url, key, 'POST', 'lists', { id: 1, name: 'A' });
    await send(older.url, key, 'POST', 'todos', { id: 1, title: 'First', list_id: 1 });
    const before = load([older.url], key);
    await expect.poll(before.sent).toBeGreaterThan(50);
    const newer = await serve('after', AFTER, 2);
    const after = load([older.url, newer.url], key);
    await expect.poll(after.sent).toBeGreaterThan(200);
    expect([await before.stop(), await after.stop()]).toEqual([[], []]);

    await older.stop();
    const again = await serve('before', BEFORE, 1);
    for (const { url } of [again, newer]) {
      for (const [path, body] of NEW_READS)
        expect([url, path, await send(url, key, 'GET', path)]).toEqual([url, path, { status: 200, body }]);
      for (const [method, path, sent, body] of OLD_REQUESTS)
        expect([url, path, (await send(url, key, method, path, sent)).body]).toEqual([url, path, body]);
    }
  } finally {
    await Promise.all(started.map((svc) => svc.stop()));
    await database.drop();
  }
});
