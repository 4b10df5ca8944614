// `svc dev` seeds its database, and seeds again when a file of an entry changes. `svc seed` seeds any other database.
import { mkdirSync, mkdtempSync, chmodSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';

const FILE = `
version: 1
tables:
  words:
    fields: [{ name: word, type: text, primary_key: true }]
    rls: [{ operations: [select], using: "true" }]
seed:
  - name: demo
    users: [{ as: ann, email: ann@example.com, password: ann-password }]
    rows: { words: { file: seed/words.csv } }
`;

const directory = mkdtempSync(join(tmpdir(), 'svc-seed-'));
const config = join(directory, 'svc.yaml');
const words = (...all: string[]): void =>
  writeFileSync(join(directory, 'seed/words.csv'), ['word', ...all].join('\n'));
let svc: SvcProcess;

beforeAll(async () => {
  // The development database runs as an unprivileged user, who must be able to read the folder.
  chmodSync(directory, 0o755);
  mkdirSync(join(directory, 'seed'));
  writeFileSync(config, FILE);
  words('one', 'two');
  svc = await startSvc({ command: 'dev', config });
});
afterAll(async () => {
  await svc?.stop();
  rmSync(directory, { recursive: true, force: true });
});

test('the first start seeds, a saved file seeds again, a refused row leaves the service as it is', async () => {
  const client = createClient(svc.url, svc.publishableKey);
  const all = async (): Promise<unknown> =>
    (await client.from('words').select('word').order('word')).data?.map(({ word }: { word: string }) => word);
  await expect.poll(() => svc.output()).toContain('seeded demo: 1 user, 2 rows');
  expect(await all()).toEqual(['one', 'two']);
  const { error } = await client.auth.signInWithPassword({
    email: 'ann@example.com',
    password: 'ann-password',
  });
  expect(error).toBeNull();

  words('one', 'three', 'NULL');
  await expect.poll(() => svc.output()).toContain('seed/words.csv, row 3');
  expect(await all()).toEqual(['one', 'two']);
  words('one', 'three');
  await expect.poll(() => svc.output()).toContain('seeded demo: 1 row');
  expect(await all()).toEqual(['one', 'three', 'two']);

  const again = await runSvc(['seed', '--config', config]);
  expect([again.code, again.output]).toEqual([0, expect.stringContaining('nothing to do')]);
});

test('a remote database is seeded only with an explicit mode', async () => {
  const env = { SVC_DATABASE_URL: 'postgres://app:secret@db.example/app' };
  const { code, output } = await runSvc(['seed', '--config', config], { env });
  expect(code).toBe(2);
  expect(output).toMatch(/db\.example, which is not this machine[\s\S]*--mode/);
});

test('mistakes in a seed are found without a database', async () => {
  const wrong = join(directory, 'wrong.yaml');
  writeFileSync(
    wrong,
    FILE.replace('seed/words.csv', 'seed/word.csv').replace('ann-password', 'short') +
      `  - name: more
    modes: [production]
    users: [{ as: root, email: root, password: in-the-file }]
    rows: { words: [{ wrod: a }], wordz: [] }
    objects: { pictures: seed }
`,
  );
  const { code, output } = await runSvc(['validate', '--config', wrong]);
  expect(code).toBe(1);
  for (const message of [
    'there is no file seed/word.csv',
    'fewer than six characters',
    'the password of a production user is written in the file',
    '"root" is not an email address',
    'words has no column wrod',
    'there is no table wordz',
    'there is no bucket pictures',
  ]) {
    expect(output).toContain(message);
  }
});
