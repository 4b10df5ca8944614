// Backups in a bucket of an S3-compatible store: an emptied bucket and a dropped table are restored.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { S3Objects, type S3Settings } from '../../src/storage/backend/s3-objects.ts';
import { s3Server, s3ServerAvailable } from '../storage/conformance/s3-server.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';
import { canDump } from './can-dump.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const projectYaml = (bucket: string): string => `version: 1
project: { name: in-a-bucket }
providers:
  storage:
    type: s3
    s3: { bucket: ${bucket}, region: us-east-1, endpoint: "\${AWS_ENDPOINT_URL_S3}",
      access_key_id: "\${AWS_ACCESS_KEY_ID}", secret_access_key: "\${AWS_SECRET_ACCESS_KEY}" }
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: text, type: text }]
    rls: false
storage:
  files: { public: true, rls: [{ operations: [insert], check: "true" }] }
`;
/** The last file is uploaded in parts. */
const FILES = [1, 200_000, 6_000_000].map((size) => Buffer.alloc(size, `${size} bytes `));
const BUCKETS = ['backup-files', 'backup-target', 'backup-restored'] as const;
const PLACE = 's3://backup-target/of/the/app';
const isHere = s3ServerAvailable();
const engines = (await canDump()) ? (['pg_dump', 'copy'] as const) : (['copy'] as const);

beforeAll(async () => {
  if (!isHere) return;
  const store = await s3Server();
  for (const name of BUCKETS) await store.createBucket(name);
});

describe.skipIf(!isHere).each(engines)('saved by %s', (engine) => {
  const folders: string[] = [];
  const databases: TestDatabase[] = [];
  let settings: Omit<S3Settings, 'bucket'>;
  let env: Record<string, string>;
  let home: string;
  let svc: SvcProcess;

  const makeFolder = (name: string): string => {
    const folder = mkdtempSync(join(tmpdir(), `svc-${name}-`));
    folders.push(folder);
    return folder;
  };
  const project = (bucket: string): string => {
    const folder = makeFolder('bucket-app');
    writeFileSync(join(folder, 'svc.yaml'), projectYaml(bucket));
    return folder;
  };
  const databaseUrl = (database: TestDatabase | undefined): string => database?.url ?? '';
  const run = (folder: string, url: string, ...args: readonly string[]) =>
    runSvc([...args, '--config', join(folder, 'svc.yaml')], { env: { ...env, SVC_DATABASE_URL: url } });
  const backup = (...args: readonly string[]) =>
    run(home, databaseUrl(databases[0]), 'backup', '--to', PLACE, '--engine', engine, ...args);
  const listObjects = async (bucket: string): Promise<string[]> => {
    const objects = new S3Objects({ ...settings, bucket });
    const keys = (await Array.fromAsync(objects.objects(''))).map(({ key }) => key);
    objects.close();
    return keys;
  };
  const empty = async (bucket: string): Promise<void> => {
    const objects = new S3Objects({ ...settings, bucket });
    for await (const { key } of objects.objects('')) await objects.delete(key);
    objects.close();
  };
  const clientFor = ({ url, publishableKey }: SvcProcess) =>
    createClient(url, publishableKey, { auth: { persistSession: false } });

  beforeAll(async () => {
    const { endpoint, accessKeyId, secretAccessKey } = await s3Server();
    settings = { region: 'us-east-1', endpoint, accessKeyId, secretAccessKey };
    env = {
      ...KEYS,
      AWS_ENDPOINT_URL_S3: endpoint,
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
      AWS_REGION: 'us-east-1',
    };
    for (const name of BUCKETS) await empty(name);
    databases.push(await createDatabase(), await createDatabase());
    home = project('backup-files');
    svc = await startSvc({
      command: 'serve',
      config: join(home, 'svc.yaml'),
      arguments: ['--migrate'],
      env: { ...env, SVC_DATABASE_URL: databaseUrl(databases[0]) },
    });
    const app = clientFor(svc);
    expect((await app.from('notes').insert({ text: 'of the first day' })).error).toBeNull();
    for (const [n, bytes] of FILES.entries())
      expect((await app.storage.from('files').upload(`${n}.bin`, bytes)).error).toBeNull();
  });
  afterAll(async () => {
    await svc?.stop();
    for (const database of databases) await database.drop();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });

  test('a target that overlaps the files, or an invalid target, is rejected', async () => {
    const same = await run(home, databaseUrl(databases[0]), 'backup', '--to', 's3://backup-files/backups');
    expect([same.code, same.output]).toEqual([2, expect.stringMatching(/in the bucket of the stored files/)]);
    const inside = await run(
      home,
      databaseUrl(databases[0]),
      'backup',
      '--to',
      's3://backup-files',
      '--same-bucket',
    );
    expect(inside.code).toBe(2);
    const wrong = await run(home, databaseUrl(databases[0]), 'backup', '--to', 'gs://bucket/x');
    expect([wrong.code, wrong.output]).toEqual([2, expect.stringMatching(/not a valid backup target/)]);
    const nowhere = await run(home, databaseUrl(databases[0]), 'backup', '--to', 's3://no-such-bucket/x');
    expect([nowhere.code === 0, nowhere.output]).toEqual([false, expect.stringMatching(/no-such-bucket/)]);
    const empty = await run(home, databaseUrl(databases[0]), 'backup', 'list', '--to', PLACE);
    expect(empty.output).toContain(`no complete backup in ${PLACE}`);
  });

  test('an emptied bucket and a dropped table are restored, and the second backup copies no file again', async () => {
    const saved = await backup('--json');
    expect(saved.code, saved.output).toBe(0);
    expect(JSON.parse(saved.output)).toMatchObject({ data: { copied: 3, backup: { files: 3 } } });
    const again = await backup('--json');
    expect(JSON.parse(again.output)).toMatchObject({ data: { copied: 0, backup: { files: 3 } } });
    const verified = await run(home, '', 'backup', 'verify', '--to', PLACE);
    expect([verified.code, verified.output]).toEqual([0, expect.stringMatching(/is complete: .* 3 files/)]);

    await empty('backup-files');
    const client = new pg.Client(databaseUrl(databases[0]));
    await client.connect();
    await client.query('drop table notes');
    await client.end();

    const there = project('backup-restored');
    const restored = await run(there, databaseUrl(databases[1]), 'restore', PLACE);
    expect(restored.code, restored.output).toBe(0);
    const elsewhere = await startSvc({
      command: 'serve',
      config: join(there, 'svc.yaml'),
      env: { ...env, SVC_DATABASE_URL: databaseUrl(databases[1]) },
    });
    try {
      const app = clientFor(elsewhere);
      expect((await app.from('notes').select('text')).data).toEqual([{ text: 'of the first day' }]);
      for (const [n, bytes] of FILES.entries()) {
        const { data } = await app.storage.from('files').download(`${n}.bin`);
        expect(Buffer.from((await data?.arrayBuffer()) ?? new ArrayBuffer()).equals(bytes), `${n}`).toBe(
          true,
        );
      }
    } finally {
      await elsewhere.stop();
    }
  });

  test('old backups are deleted with the files that only they contain, and a damaged one is detected', async () => {
    const pruned = await run(home, '', 'backup', 'prune', '--to', PLACE, '--keep', '1h', '--json');
    expect(JSON.parse(pruned.output)).toMatchObject({ data: { files: 0, busy: false } });
    const keys = await listObjects('backup-target');
    const backups = new Set(keys.filter((key) => key.includes('/backups/')).map((key) => key.split('/')[4]));
    expect(backups.size).toBe(1);
    expect(keys.filter((key) => key.startsWith('of/the/app/blobs/'))).toHaveLength(3);
    const objects = new S3Objects({ ...settings, bucket: 'backup-target' });
    const blob = keys.find((key) => key.includes('/blobs/')) ?? '';
    await objects.put(
      blob,
      (async function* () {
        yield Buffer.from('something else');
      })(),
      100,
    );
    objects.close();
    const verified = await run(home, '', 'backup', 'verify', '--to', PLACE);
    expect([verified.code, verified.output]).toEqual([1, expect.stringMatching(/is not as it was written/)]);
  });

  test('in an encrypted backup only the list of files and the manifest are readable', async () => {
    const identity = await generateX25519Identity();
    const file = join(makeFolder('keys'), 'key.txt');
    writeFileSync(file, `${identity}\n`);
    const there = project('backup-restored');
    const database = await createDatabase();
    databases.push(database);
    const to = ['--to', 's3://backup-target/sealed'];
    const recipient = await identityToRecipient(identity);
    const source = databaseUrl(databases[1]);
    const saved = await run(there, source, 'backup', ...to, '--engine', engine, '--encrypt-to', recipient);
    expect(saved.code, saved.output).toBe(0);
    const sealed = (await listObjects('backup-target')).filter((key) => key.startsWith('sealed/'));
    const plain = sealed.filter((key) => !key.endsWith('.age')).map((key) => key.split('/').at(-1));
    expect(new Set(plain)).toEqual(new Set(['begun', 'blobs.jsonl', 'manifest.json']));
    await empty('backup-restored');
    const restored = await run(there, database.url, 'restore', to[1] ?? '', '--identity', file);
    expect(restored.code, restored.output).toBe(0);
    expect(await listObjects('backup-restored')).toHaveLength(3);
  });
});
