import { describe } from 'vitest';
import { paritySuite } from './parity.ts';
import { s3Server, s3ServerAvailable } from './s3-server.ts';

describe.skipIf(!s3ServerAvailable())('storage API on an S3-compatible store', () => {
  paritySuite(async () => {
    const server = await s3Server();
    await server.createBucket('parity');
    const { endpoint, accessKeyId, secretAccessKey } = server;
    return {
      provider: { type: 's3', bucket: 'parity', region: undefined, endpoint, accessKeyId, secretAccessKey },
    };
  });
});
