// The client of an S3-compatible store. The SDK is loaded at the first use, because it is large.
import type * as sdkModule from '@aws-sdk/client-s3';

export type S3Sdk = typeof sdkModule;
export type S3Client = { readonly sdk: S3Sdk; readonly client: sdkModule.S3Client };

export type S3Access = {
  readonly region: string | undefined;
  readonly accessKeyId: string | undefined;
  readonly secretAccessKey: string | undefined;
  readonly endpoint: string | undefined;
};

const MAX_IDLE_SOCKETS = 64;

export async function openS3({
  region,
  endpoint,
  accessKeyId,
  secretAccessKey,
}: S3Access): Promise<S3Client> {
  const sdk = await import('@aws-sdk/client-s3');
  const client = new sdk.S3Client({
    region: region ?? 'us-east-1',
    // Other stores than AWS rarely have a host name per bucket; some do not know the newer checksums.
    ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
    ...(accessKeyId === undefined || secretAccessKey === undefined
      ? {}
      : { credentials: { accessKeyId, secretAccessKey } }),
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    maxAttempts: 3,
    requestHandler: {
      connectionTimeout: 5_000,
      socketTimeout: 60_000,
      // A download holds a connection as long as its reader takes. With the SDK's limit of 50, as many slow
      // readers would block every other transfer of this process.
      httpAgent: { keepAlive: true, maxSockets: Infinity, maxFreeSockets: MAX_IDLE_SOCKETS },
      httpsAgent: { keepAlive: true, maxSockets: Infinity, maxFreeSockets: MAX_IDLE_SOCKETS },
    },
  });
  return { sdk, client };
}
