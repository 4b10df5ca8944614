import { afterAll, describe } from 'vitest';
import { paritySuite } from './parity.ts';
import { s3ServerAvailable, startS3Server, type S3Server } from './s3-server.ts';

let server: S3Server | undefined;
afterAll(() => server?.stop());

describe.skipIf(!s3ServerAvailable())('storage API on an S3-compatible store', () => {
  paritySuite(async () => {
    server = await startS3Server();
    await server.createBucket('parity');
    const { endpoint, accessKeyId, secretAccessKey } = server;
    return {
      provider: { type: 's3', bucket: 'parity', region: undefined, endpoint, accessKeyId, secretAccessKey },
    };
  });
});
