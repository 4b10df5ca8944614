// A storage-only project and svc processes for tests that kill them.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateApiKeys, type ApiKeys } from '../../../src/identity/api-key.ts';
import { startSvc, type SvcProcess } from '../../support/svc-process.ts';
import type { S3Server } from '../conformance/s3-server.ts';
import { createDatabase } from '../../support/database.ts';

export type StorageProject = {
  readonly directory: string;
  readonly databaseUrl: string;
  readonly keys: ApiKeys;
  start(): Promise<SvcProcess>;
  remove(): Promise<void>;
};

export async function createStorageProject(s3?: {
  server: S3Server;
  bucket: string;
}): Promise<StorageProject> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-storage-project-'));
  const database = await createDatabase();
  const keys = generateApiKeys();
  const provider = s3
    ? `type: s3
    s3:
      bucket: ${s3.bucket}
      region: us-east-1
      endpoint: ${s3.server.endpoint}
      access_key_id: "\${TEST_S3_ACCESS_KEY}"
      secret_access_key: "\${TEST_S3_SECRET_KEY}"`
    : `type: local
    local:
      path: files`;
  const config = join(directory, 'svc.yaml');
  await writeFile(
    config,
    `version: 1
project:
  name: storage
providers:
  storage:
    ${provider}
storage:
  work:
    max_size: 2GB
  pub:
    public: true
    max_size: 2GB
`,
  );
  return {
    directory,
    databaseUrl: database.url,
    keys,
    start: () =>
      startSvc({
        command: 'serve',
        config,
        arguments: ['--migrate'],
        env: {
          SVC_DATABASE_URL: database.url,
          SVC_PUBLISHABLE_KEY: keys.publishable,
          SVC_SECRET_KEY: keys.secret,
          TEST_S3_ACCESS_KEY: s3?.server.accessKeyId,
          TEST_S3_SECRET_KEY: s3?.server.secretAccessKey,
        },
      }),
    async remove() {
      await database.drop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
