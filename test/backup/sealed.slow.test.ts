// A backup that is encrypted to a public key: its creator cannot read it, and the owner of the private key can
// restore it.
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';
import { canDump } from './can-dump.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const YAML = `version: 1
project: { name: sealed }
tables:
  diagnoses:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: words, type: text }]
    rls: [{ operations: [select, insert], check: auth.uid() is not null }]
storage:
  scans: { public: true, rls: [{ operations: [select, insert], check: auth.uid() is not null }] }
`;
const WORDS = 'a very private diagnosis';
const SCAN = Buffer.alloc(300_000, 'what the scan shows ');
const engines = (await canDump()) ? (['pg_dump', 'copy'] as const) : (['copy'] as const);

describe.each(engines)('saved by %s', (engine) => {
  const folders: string[] = [];
  const databases: TestDatabase[] = [];
  let home: string;
  let target: string;
  let svc: SvcProcess;
  let recipient: string;
  let keys: string;

  const makeFolder = (name: string): string => {
    const folder = mkdtempSync(join(tmpdir(), `svc-${name}-`));
    // The database of svc dev runs as another user than root.
    chmodSync(folder, 0o755);
    folders.push(folder);
    return folder;
  };
  const project = (): string => {
    const folder = makeFolder('sealed');
    writeFileSync(join(folder, 'svc.yaml'), YAML);
    return folder;
  };
  const run = (folder: string, url: string, ...args: readonly string[]) =>
    runSvc([...args, '--config', join(folder, 'svc.yaml')], { env: { ...KEYS, SVC_DATABASE_URL: url } });
  const backup = (...args: readonly string[]) =>
    run(home, databases[0]?.url ?? '', 'backup', '--to', target, '--engine', engine, ...args);
  const keyFile = async (): Promise<{ file: string; recipient: string }> => {
    const identity = await generateX25519Identity();
    const file = join(makeFolder('keys'), 'key.txt');
    writeFileSync(file, `# made for a test\n${identity}\n`);
    return { file, recipient: await identityToRecipient(identity) };
  };

  beforeAll(async () => {
    [home, target] = [project(), makeFolder('backups')];
    databases.push(await createDatabase(), await createDatabase());
    ({ file: keys, recipient } = await keyFile());
    svc = await startSvc({
      command: 'serve',
      config: join(home, 'svc.yaml'),
      arguments: ['--migrate'],
      env: { ...KEYS, SVC_DATABASE_URL: databases[0]?.url ?? '' },
    });
    const app = createClient(svc.url, svc.publishableKey, { auth: { persistSession: false } });
    await app.auth.signUp({ email: 'ann@example.com', password: 'correct horse battery' });
    expect((await app.from('diagnoses').insert({ words: WORDS })).error).toBeNull();
    expect((await app.storage.from('scans').upload('one.bin', SCAN)).error).toBeNull();
    expect((await app.storage.from('scans').upload('small.txt', Buffer.from(WORDS))).error).toBeNull();
  });
  afterAll(async () => {
    await svc?.stop();
    for (const one of databases) await one.drop();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });

  test('nothing of the contents is readable in the folder, and it is checked without a key', async () => {
    const saved = await backup('--encrypt-to', recipient);
    expect(saved.code, saved.output).toBe(0);
    const files = readdirSync(target, { recursive: true, encoding: 'utf8' })
      .map((name) => join(target, name))
      .filter((path) => statSync(path).isFile());
    const hidden = [WORDS, 'diagnoses', 'ann@example.com', 'what the scan shows', 'scans', 'PGDMP'];
    for (const path of files)
      for (const text of hidden)
        expect([path, text, readFileSync(path).includes(text)]).toEqual([path, text, false]);
    // Compression would hide words too, so check that only names of versions and the manifest are plain text.
    const plain = files.filter(
      (path) => !readFileSync(path).subarray(0, 21).equals(Buffer.from('age-encryption.org/v1')),
    );
    expect(new Set(plain.map((path) => basename(path)))).toEqual(
      new Set(['begun', 'blobs.jsonl', 'manifest.json']),
    );
    const verified = await run(home, databases[0]?.url ?? '', 'backup', 'verify', '--to', target);
    expect([verified.code, verified.output]).toEqual([
      0,
      expect.stringMatching(/is complete: .*encrypted rows.*2 files/),
    ]);
    const again = await backup('--encrypt-to', recipient, '--json');
    expect(JSON.parse(again.output)).toMatchObject({ data: { copied: 0 } });
    // For another recipient the files are encrypted again and stored separately.
    const forOther = await backup('--encrypt-to', (await keyFile()).recipient, '--json');
    expect(JSON.parse(forOther.output)).toMatchObject({ data: { copied: 2 } });
    expect((await run(home, '', 'backup', 'prune', '--to', target, '--keep', '9h')).code).toBe(0);
  });

  test('a backup can be restored only with the key', async () => {
    const target2 = makeFolder('backups');
    const saved = await run(
      home,
      databases[0]?.url ?? '',
      'backup',
      '--to',
      target2,
      '--engine',
      engine,
      '--encrypt-to',
      recipient,
    );
    expect(saved.code, saved.output).toBe(0);
    const there = project();
    const url = databases[1]?.url ?? '';
    const without = await run(there, url, 'restore', target2);
    expect([without.code, without.output]).toEqual([1, expect.stringMatching(/is encrypted.*--identity/s)]);
    const wrong = await run(there, url, 'restore', target2, '--identity', (await keyFile()).file);
    expect([wrong.code, wrong.output]).toEqual([1, expect.stringMatching(/opens this backup/)]);
    const restored = await run(there, url, 'restore', target2, '--identity', keys, '--json');
    expect(restored.code, restored.output).toBe(0);
    expect(JSON.parse(restored.output)).toMatchObject({
      command: 'restore',
      data: { backup: { rows: expect.any(Number), recipients: [recipient] }, restored: { files: 2 } },
    });
    const elsewhere = await startSvc({
      command: 'serve',
      config: join(there, 'svc.yaml'),
      env: { ...KEYS, SVC_DATABASE_URL: url },
    });
    try {
      const app = createClient(elsewhere.url, elsewhere.publishableKey, { auth: { persistSession: false } });
      await app.auth.signInWithPassword({ email: 'ann@example.com', password: 'correct horse battery' });
      expect((await app.from('diagnoses').select('words')).data).toEqual([{ words: WORDS }]);
      const { data } = await app.storage.from('scans').download('one.bin');
      expect(Buffer.from((await data?.arrayBuffer()) ?? new ArrayBuffer()).equals(SCAN)).toBe(true);
    } finally {
      await elsewhere.stop();
    }
    const cloned = project();
    mkdirSync(join(cloned, '.svc'));
    const clone = await runSvc([
      'clone',
      '--from',
      target2,
      '--unmasked',
      '--identity',
      keys,
      '--config',
      join(cloned, 'svc.yaml'),
    ]);
    expect([clone.code, clone.output]).toEqual([0, expect.stringMatching(/1 users, 2 files/)]);
  });

  test('an invalid key is rejected without repeating it', async () => {
    const secret = 'AGE-SECRET-KEY-1QQQQQQQQQQQQ';
    const refused = await backup('--encrypt-to', secret);
    expect([refused.code, refused.output]).toEqual([2, expect.stringMatching(/not an age public key/)]);
    expect(refused.output).not.toContain(secret);
  });
});
