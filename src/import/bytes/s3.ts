// Through the S3 protocol: the endpoint of a project, where a bucket is a bucket, or the store behind a storage server.
import { Readable } from 'node:stream';
import { openS3, type S3Access, type S3Client } from '../../storage/backend/s3-client.ts';
import { answered, AWAY, GONE, unreadable, type BytesSource, type Refusal } from './bytes-source.ts';
import type { FileStore } from './file-store.ts';

export function s3Endpoint(access: S3Access): BytesSource {
  const s3 = new Reader(access);
  return {
    open: ({ bucket, name }, start) => s3.read(bucket, name, start),
    close: () => s3.close(),
  };
}

/** `prefix`: where in the bucket, as folders. */
export function s3Store(access: S3Access, bucket: string, prefix: string): FileStore {
  const s3 = new Reader(access);
  const objectKey = (path: string): string => [prefix, path].filter((part) => part !== '').join('/');
  return {
    name: `s3://${[bucket, prefix].filter((part) => part !== '').join('/')}`,
    folders: (path) => s3.folders(bucket, objectKey(path)),
    open: (path, start) => s3.read(bucket, objectKey(path), start),
    close: () => s3.close(),
  };
}

class Reader {
  readonly #access: S3Access;
  #opened: Promise<S3Client> | undefined;

  constructor(access: S3Access) {
    this.#access = access;
  }

  async read(Bucket: string, Key: string, start: number): Promise<AsyncIterable<Uint8Array> | Refusal> {
    const { sdk, client } = await this.#open();
    const Range = start > 0 ? `bytes=${start}-` : undefined;
    try {
      const { Body } = await client.send(new sdk.GetObjectCommand({ Bucket, Key, Range }));
      return Body instanceof Readable ? Body : AWAY;
    } catch (error) {
      return this.#toRefusal(error, Bucket);
    }
  }

  async folders(Bucket: string, path: string): Promise<string[]> {
    const { sdk, client } = await this.#open();
    const Prefix = path === '' ? '' : `${path}/`;
    const found: string[] = [];
    let ContinuationToken: string | undefined;
    do {
      const page = await client
        .send(new sdk.ListObjectsV2Command({ Bucket, Prefix, Delimiter: '/', ContinuationToken }))
        .catch((error: unknown) => {
          const { why } = this.#toRefusal(error, Bucket);
          throw unreadable(`${Bucket} at ${this.#where()} cannot be listed: ${why}`, NAME_IT);
        });
      for (const { Prefix: folder = '' } of page.CommonPrefixes ?? [])
        found.push(folder.slice(Prefix.length, -1));
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
    return found;
  }

  close(): void {
    void this.#opened?.then(({ client }) => client.destroy());
  }

  #open(): Promise<S3Client> {
    this.#opened ??= openS3(this.#access);
    return this.#opened;
  }

  #where = (): string => this.#access.endpoint ?? 'AWS';

  /** Throws an error that would affect every file. */
  #toRefusal(error: unknown, bucket: string): Refusal {
    if (!(error instanceof Error)) throw error;
    if (error.name === 'NoSuchKey' || error.name === 'NotFound') return GONE;
    if (REFUSED_KEY.has(error.name))
      throw unreadable(`${this.#where()} refuses the key: ${error.name}`, KEYS);
    if (error.name === 'NoSuchBucket')
      throw unreadable(`There is no bucket ${bucket} at ${this.#where()}`, NAME_IT);
    const status = errorStatus(error);
    return status === undefined ? AWAY : answered(status);
  }
}

const REFUSED_KEY = new Set([
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'InvalidToken',
  'ExpiredToken',
  'AuthorizationHeaderMalformed',
]);

const KEYS =
  'Check the variables with the access key and its secret, and --s3-region: ' +
  'Supabase shows all three under Storage → S3.';
const NAME_IT = 'Check --s3 and the bucket.';

function errorStatus(error: Error): number | undefined {
  const { $metadata: metadata } = error as { $metadata?: { httpStatusCode?: number } };
  return metadata?.httpStatusCode;
}
