import { describe } from 'vitest';
import { resumableSuite } from './resumable.ts';
import { s3Server, s3ServerAvailable } from './s3-server.ts';

describe.skipIf(!s3ServerAvailable())('resumable uploads on an S3-compatible store', () => {
  resumableSuite(6 * 1024 * 1024, async () => {
    const server = await s3Server();
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
