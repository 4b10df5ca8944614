// Files of a Supabase project from sources other than its storage API: its S3 endpoint, and the directory or bucket
// of a self-hosted storage server.
import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openBoxes } from '../../src/auth/auth-context.ts';
import { Keyring } from '../../src/identity/keyring.ts';
import type { BytesSource } from '../../src/import/bytes/bytes-source.ts';
import { directoryStore } from '../../src/import/bytes/directory.ts';
import { fileStore } from '../../src/import/bytes/file-store.ts';
import { s3Endpoint, s3Store } from '../../src/import/bytes/s3.ts';
import { copy } from '../../src/import/copy.ts';
import { copyFiles, type FileResult } from '../../src/import/files.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { raw } from '../../src/postgres/sql.ts';
import { openS3 } from '../../src/storage/backend/s3-client.ts';
import { s3Server, s3ServerAvailable, type S3Server } from '../storage/conformance/s3-server.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { provisionAt } from '../support/provision.ts';
import { runSvc } from '../support/svc-process.ts';
import { createTypicalProject, IDS, type SupabaseProject } from './supabase-project.ts';

type Stored = { readonly name: string; readonly version: string; readonly content: Buffer };

/** All test files share the store. The bucket of the project is a bucket in it. */
const BUCKET = 'import-pictures';
const OWN_STORE = 'import-own-store';
const FILES: readonly Stored[] = [
  ['ann/face.png', Buffer.from('not really a picture')],
  ['a folder/large', Buffer.alloc(6_000_000, 'x')],
  ["it's (1) & more.txt", Buffer.from('a name with signs')],
  ['empty.txt', Buffer.alloc(0)],
].map(([name, content]) => ({
  name: String(name),
  content: Buffer.from(content ?? ''),
  version: randomUUID(),
}));

let project: SupabaseProject;
let world: BackendWorld;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-import-files-'));
  project = await createTypicalProject();
  world = await startBackendWorld(`version: 1\nstorage: { ${BUCKET}: { public: true } }`, {
    importPreview: true,
    files: { 'note.txt': '' },
  });
  await project.query(`insert into storage.buckets (id, name) values ('${BUCKET}', '${BUCKET}')`);
  const lost = { name: 'lost.png', version: randomUUID(), content: Buffer.from('lost') };
  for (const { name, version, content } of [...FILES, lost])
    await project.query(
      `insert into storage.objects (bucket_id, name, owner_id, metadata, version) values ($1, $2, $3, $4, $5)`,
      [BUCKET, name, IDS.ann, JSON.stringify(createMetadata(content)), version],
    );
  const { ownerUrl } = await provisionAt(world.databaseUrl);
  const keyring = await Keyring.open(world.owner, { current: world.keys.secret, previous: [] });
  await copy({
    source: parseAddress(project.url),
    target: parseAddress(ownerUrl),
    secrets: { sourceKeys: new Map(), boxes: openBoxes(keyring) },
  });
});
afterAll(async () => {
  await world?.close();
  await project?.drop();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(async () => {
  await world.owner.query(
    raw(`with gone as (delete from storage.objects) delete from svc_meta.import_row where kind = 'object'`),
  );
});

const createMetadata = (content: Buffer) => ({
  eTag: `"${createHash('md5').update(content).digest('hex')}"`,
  size: content.length,
  mimetype: 'image/png',
});

async function run(bytes: BytesSource): Promise<FileResult> {
  try {
    const { owner, options } = world;
    return await copyFiles({ source: parseAddress(project.url), owner, config: options.config, bytes });
  } finally {
    bytes.close();
  }
}

const ALL_BUT_ONE = {
  copied: FILES.length,
  missing: [{ name: `${BUCKET}/lost.png`, why: 'the source does not have its bytes' }],
};

async function expectFiles(): Promise<void> {
  const bucket = createClient(world.url, world.keys.secret).storage.from(BUCKET);
  for (const { name, content } of FILES) {
    const { data, error } = await bucket.download(name);
    expect(error).toBeNull();
    expect(Buffer.from(await data!.arrayBuffer()).equals(content)).toBe(true);
  }
}

/** Layout of a storage server that stores files in a directory. */
function layOut(root: string, files: readonly Stored[] = FILES): string {
  for (const { name, version, content } of files) {
    const path = join(folder, root, BUCKET, name, version);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
  return join(folder, root);
}

describe('the directory of a storage server', () => {
  test.each(['plain', 'of-a-tenant/stub/stub'])(
    '%s: all files arrive, and missing ones are reported',
    async (root) => {
      layOut(root);
      expect(await run(fileStore(directoryStore(join(folder, root.split('/')[0] ?? ''))))).toMatchObject(
        ALL_BUT_ONE,
      );
      await expectFiles();
      expect(await run(fileStore(directoryStore(join(folder, root))))).toMatchObject({
        copied: 0,
        unchanged: FILES.length,
      });
    },
  );

  test('a directory without the bucket, or with several of them, is rejected before the copy', async () => {
    mkdirSync(join(folder, 'empty'));
    await expect(run(fileStore(directoryStore(join(folder, 'empty'))))).rejects.toThrow(
      `There is no folder of the bucket ${BUCKET} in ${join(folder, 'empty')}`,
    );
    layOut('two/first');
    layOut('two/second');
    await expect(run(fileStore(directoryStore(join(folder, 'two'))))).rejects.toThrow(
      `Several folders of ${join(folder, 'two')} have the bucket ${BUCKET}: first, second`,
    );
    expect(await world.owner.query(raw('select from storage.objects'))).toEqual([]);
  });

  test('a damaged file is not copied', async () => {
    const [first, ...others] = FILES;
    const root = layOut('damaged', [{ ...first!, content: Buffer.from('not really a PICTURE') }, ...others]);
    expect((await run(fileStore(directoryStore(root)))).missing).toContainEqual({
      name: `${BUCKET}/ann/face.png`,
      why: 'the bytes do not match the checksum',
    });
  });
});

describe.runIf(s3ServerAvailable())('the S3 protocol', () => {
  let s3: S3Server;
  const access = () => ({ ...s3, region: 'us-east-1' });

  beforeAll(async () => {
    s3 = await s3Server();
    await s3.createBucket(BUCKET);
    await s3.createBucket(OWN_STORE);
    const { client, sdk } = await openS3(access());
    for (const { name, version, content: Body } of FILES) {
      await client.send(new sdk.PutObjectCommand({ Bucket: BUCKET, Key: name, Body }));
      const Key = `tenant/${BUCKET}/${name}/${version}`;
      await client.send(new sdk.PutObjectCommand({ Bucket: OWN_STORE, Key, Body }));
    }
    client.destroy();
  });

  test('the endpoint of a project: all files arrive, and missing ones are reported', async () => {
    expect(await run(s3Endpoint(access()))).toMatchObject(ALL_BUT_ONE);
    await expectFiles();
    expect(await run(s3Endpoint(access()))).toMatchObject({ copied: 0, unchanged: FILES.length });
  });

  test.each(['', 'tenant'])('the store of a storage server, from folder "%s"', async (prefix) => {
    expect(await run(fileStore(s3Store(access(), OWN_STORE, prefix)))).toMatchObject(ALL_BUT_ONE);
    await expectFiles();
  });

  test('a rejected key and a missing bucket end the run', async () => {
    const wrong = { ...access(), secretAccessKey: 'wrong' };
    await expect(run(s3Endpoint(wrong))).rejects.toThrow('refuses the key: SignatureDoesNotMatch');
    await expect(run(fileStore(s3Store(access(), 'import-nosuch', '')))).rejects.toThrow(
      `There is no bucket import-nosuch at ${s3.endpoint}`,
    );
  });

  test('the command reads the keys from the variables given by options', async () => {
    const env = {
      SVC_DATABASE_URL: world.databaseUrl,
      SVC_IMPORT_SOURCE_URL: project.url,
      OLD_KEY: s3.accessKeyId,
      OLD_SECRET: s3.secretAccessKey,
    };
    const files = ['import', 'supabase', 'files', '--s3', s3.endpoint];
    const named = ['--s3-key-env', 'OLD_KEY', '--s3-secret-env', 'OLD_SECRET'];
    const unset = await runSvc(files, { env, cwd: world.directory });
    expect(unset).toMatchObject({
      code: 2,
      output: expect.stringContaining('SVC_IMPORT_S3_ACCESS_KEY_ID is not set'),
    });
    const { output, code } = await runSvc([...files, ...named], { env, cwd: world.directory });
    expect(output).toContain(`files: ${FILES.length} copied, 0 unchanged, 0 removed`);
    expect(output).toContain('lost.png: the source does not have its bytes');
    expect(code).toBe(1);
  });
});
