// Blobs in an S3-compatible store: `blobs/<version>`, and `staging/<version>/<part>` for resumable uploads.
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import type * as sdkModule from '@aws-sdk/client-s3';
import { isStorageFull } from '../problem.ts';
import {
  assertVersion,
  BlobMissing,
  isVersion,
  once,
  readAtMost,
  removeEach,
  totalBytes,
  unusable,
  type Backend,
  type BlobRange,
  type Deletion,
  type ListedBlob,
  type S3Place,
  type StagedPart,
} from './backend.ts';
import { isMissing, MAX_PARTS, ObjectMissing, PART_BYTES, S3Objects, type S3Settings } from './s3-objects.ts';

/** Larger blobs are copied in ranges of this size. */
const MAX_COPY_BYTES = 1024 ** 3;
const DELETE_CONCURRENCY = 8;

export class S3Backend implements Backend {
  readonly place: S3Place;
  readonly #objects: S3Objects;

  constructor(settings: S3Settings) {
    this.#objects = new S3Objects(settings);
    const endpoint = withoutCredentials(settings.endpoint) ?? settings.region ?? 'us-east-1';
    this.place = { kind: 's3', endpoint, bucket: settings.bucket, prefix: '' };
  }

  async check(): Promise<void> {
    const version = randomUUID();
    try {
      // A full store still serves reads and deletions.
      const full = await this.write(version, once(Buffer.from('probe')), 5).then(
        () => false,
        (error: unknown) => {
          if (!isStorageFull(error)) throw error;
          return true;
        },
      );
      // Reads the whole body: otherwise the connection stays in use.
      if (!full) await readAtMost(await this.read(version, 5));
      const failures = await this.remove([{ version, staged: false }]);
      for (const error of failures.values()) throw error;
    } catch (cause) {
      throw unusable(
        'storage_bucket',
        `The S3 bucket "${this.place.bucket}"`,
        'Check providers.storage.s3 in svc.yaml: the bucket must exist and the key must be allowed to read, ' +
          'write, list and delete in it.',
        cause,
      );
    }
  }

  async write(version: string, source: AsyncIterable<Buffer>, atMostBytes: number): Promise<void> {
    await this.#objects.put(blobKey(version), source, atMostBytes);
  }

  async read(version: string, _size: number, range?: BlobRange): Promise<Readable | Buffer> {
    return await this.#get(blobKey(version), version, range);
  }

  async copy(from: string, to: string, size: number): Promise<void> {
    await this.#join(blobKey(to), [{ key: blobKey(from), bytes: size }], from);
  }

  remove(deletions: readonly Deletion[]): Promise<ReadonlyMap<string, Error>> {
    return removeEach(deletions, DELETE_CONCURRENCY, async ({ version, staged }) => {
      if (staged) await this.#abort(version);
      await this.#objects.delete(blobKey(version));
    });
  }

  async removeStaged(version: string): Promise<void> {
    for await (const { key } of this.#objects.objects(`staging/${version}/`)) await this.#objects.delete(key);
  }

  async *list(): AsyncIterable<ListedBlob> {
    yield* listed(this.#objects.objects('blobs/'), false);
    yield* listed(this.#objects.objects('staging/'), true);
    yield* listed(this.#multipartUploads(''), true);
  }

  async append(
    version: string,
    parts: readonly StagedPart[],
    source: AsyncIterable<Buffer>,
    atMostBytes: number,
  ): Promise<StagedPart> {
    // Every attempt has its own key, so that a writer that lost its lease cannot overwrite the next one's part.
    const id = `${String(parts.length).padStart(6, '0')}-${randomUUID()}`;
    const bytes = await this.#objects.put(stagedKey(version, id), source, atMostBytes);
    return { id, bytes };
  }

  async assemble(version: string, parts: readonly StagedPart[]): Promise<void> {
    const total = totalBytes(parts);
    if ((await this.#objects.readSize(blobKey(version))) === total) return;
    const pieces = parts
      .filter((part) => part.bytes > 0)
      .map((part) => ({ key: stagedKey(version, part.id), bytes: part.bytes }));
    const copyable = pieces.slice(0, -1).every((piece) => piece.bytes >= PART_BYTES);
    if (pieces.length > 0 && copyable && pieces.length <= MAX_PARTS) {
      await this.#join(blobKey(version), pieces, version);
    } else {
      await this.#objects.put(blobKey(version), this.readStaged(version, parts), total);
    }
    await this.removeStaged(version);
  }

  async *readStaged(version: string, parts: readonly StagedPart[]): AsyncIterable<Buffer> {
    for (const part of parts) {
      if (part.bytes > 0) yield* await this.#get(stagedKey(version, part.id), version);
    }
  }

  close(): void {
    this.#objects.close();
  }

  async #get(key: string, version: string, range?: BlobRange): Promise<Readable> {
    return await this.#objects.get(key, range).catch((error: unknown) => {
      throw error instanceof ObjectMissing ? new BlobMissing(version) : error;
    });
  }

  /** Joins blobs of the store without their bytes passing through here. */
  async #join(
    key: string,
    pieces: ReadonlyArray<{ readonly key: string; readonly bytes: number }>,
    version: string,
  ): Promise<void> {
    const { sdk, client, Bucket } = await this.#objects.open();
    const [only] = pieces;
    try {
      if (pieces.length === 1 && only && only.bytes <= MAX_COPY_BYTES) {
        const CopySource = `${Bucket}/${only.key}`;
        await client.send(new sdk.CopyObjectCommand({ Bucket, Key: key, CopySource }));
        return;
      }
      await this.#objects.multipart(key, async (UploadId, etags) => {
        for (const { key: from, bytes } of pieces) {
          for (let start = 0; start < bytes; start += MAX_COPY_BYTES) {
            const end = Math.min(start + MAX_COPY_BYTES, bytes) - 1;
            const copied = await client.send(
              new sdk.UploadPartCopyCommand({
                Bucket,
                Key: key,
                UploadId,
                PartNumber: etags.length + 1,
                CopySource: `${Bucket}/${from}`,
                CopySourceRange: `bytes=${start}-${end}`,
              }),
            );
            etags.push(copied.CopyPartResult?.ETag);
          }
        }
      });
    } catch (error) {
      throw isMissing(error) ? new BlobMissing(version) : error;
    }
  }

  /** Deletes what an abandoned upload may have left: staged parts and multipart uploads. */
  async #abort(version: string): Promise<void> {
    const { sdk, client, Bucket } = await this.#objects.open();
    for (const prefix of [blobKey(version), `staging/${version}/`]) {
      for await (const { key: Key, uploadId: UploadId } of this.#multipartUploads(prefix)) {
        await client
          .send(new sdk.AbortMultipartUploadCommand({ Bucket, Key, UploadId }))
          .catch((error: unknown) => {
            if (!isMissing(error)) throw error;
          });
      }
    }
    await this.removeStaged(version);
  }

  async *#multipartUploads(Prefix: string): AsyncIterable<ListedKey & { readonly uploadId: string }> {
    const { sdk, client, Bucket } = await this.#objects.open();
    let KeyMarker: string | undefined;
    let UploadIdMarker: string | undefined;
    do {
      const page: sdkModule.ListMultipartUploadsCommandOutput | undefined = await client
        .send(new sdk.ListMultipartUploadsCommand({ Bucket, Prefix, KeyMarker, UploadIdMarker }))
        .catch((error: unknown) => {
          // Some stores cannot list them; there a lifecycle rule has to end incomplete uploads.
          if (error instanceof Error && error.name === 'NotImplemented') return undefined;
          throw error;
        });
      for (const { Key = '', UploadId = '', Initiated } of page?.Uploads ?? []) {
        // Some stores ignore the prefix.
        if (Key.startsWith(Prefix)) yield { key: Key, uploadId: UploadId, modifiedAt: Initiated };
      }
      KeyMarker = page?.IsTruncated ? page.NextKeyMarker : undefined;
      UploadIdMarker = page?.IsTruncated ? page.NextUploadIdMarker : undefined;
    } while (KeyMarker !== undefined);
  }
}

type ListedKey = { readonly key: string; readonly modifiedAt: Date | undefined };

/** Both kinds of keys have the version as their second segment. */
async function* listed(keys: AsyncIterable<ListedKey>, staged: boolean): AsyncIterable<ListedBlob> {
  for await (const { key, modifiedAt = new Date() } of keys) {
    const version = key.split('/')[1] ?? '';
    if (isVersion(version)) yield { version, modifiedAt, staged };
  }
}

/** The location is recorded in the database and appears in messages. */
function withoutCredentials(endpoint: string | undefined): string | undefined {
  return endpoint?.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@]*@/i, '$1');
}

function blobKey(version: string): string {
  assertVersion(version);
  return `blobs/${version}`;
}

function stagedKey(version: string, id: string): string {
  assertVersion(version);
  return `staging/${version}/${id}`;
}
