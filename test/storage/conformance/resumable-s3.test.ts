import { afterAll, describe } from 'vitest';
import { resumableSuite } from './resumable.ts';
import { s3ServerAvailable, startS3Server, type S3Server } from './s3-server.ts';

let server: S3Server | undefined;
afterAll(() => server?.stop());

describe.skipIf(!s3ServerAvailable())('resumable uploads on an S3-compatible store', () => {
  resumableSuite(async () => {
    server = await startS3Server();
    await server.createBucket('resumable');
    const { endpoint, accessKeyId, secretAccessKey } = server;
    return {
      provider: {
        type: 's3',
        bucket: 'resumable',
        region: undefined,
        endpoint,
        accessKeyId,
        secretAccessKey,
      },
    };
  });
});
