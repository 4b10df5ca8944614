// Blobs in an S3-compatible store: `blobs/<version>`, and `staging/<version>/<part>` for resumable uploads.
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type * as sdkModule from '@aws-sdk/client-s3';
import { isStorageFull } from '../problem.ts';
import { freeChunk } from '../../lib/free-chunk.ts';
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
import { openS3, type S3Access, type S3Client } from './s3-client.ts';

type Opened = S3Client & { readonly Bucket: string };

export type S3Settings = S3Access & { readonly bucket: string };

/** The smallest part of a multipart upload. An upload holds two in memory: one being sent, one being filled. */
const PART_BYTES = 5 * 1024 * 1024;
/** S3 allows 10,000 parts. */
const MAX_PARTS = 9_000;
/** Larger blobs are copied in ranges of this size. */
const MAX_COPY_BYTES = 1024 ** 3;
const DELETE_CONCURRENCY = 8;

export class S3Backend implements Backend {
  readonly place: S3Place;
  readonly #settings: S3Settings;
  #opened: Promise<Opened> | undefined;

  constructor(settings: S3Settings) {
    this.#settings = settings;
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
        `The S3 bucket "${this.#settings.bucket}"`,
        'Check providers.storage.s3 in svc.yaml: the bucket must exist and the key must be allowed to read, write, list and delete in it.',
        cause,
      );
    }
  }

  async write(version: string, source: AsyncIterable<Buffer>, atMostBytes: number): Promise<void> {
    await this.#put(blobKey(version), source, atMostBytes);
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
      await this.#delete(blobKey(version));
    });
  }

  async removeStaged(version: string): Promise<void> {
    for await (const { key } of this.#objects(`staging/${version}/`)) await this.#delete(key);
  }

  async *list(): AsyncIterable<ListedBlob> {
    yield* listed(this.#objects('blobs/'), false);
    yield* listed(this.#objects('staging/'), true);
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
    const bytes = await this.#put(stagedKey(version, id), source, atMostBytes);
    return { id, bytes };
  }

  async assemble(version: string, parts: readonly StagedPart[]): Promise<void> {
    const total = totalBytes(parts);
    if ((await this.#sizeOf(blobKey(version))) === total) return;
    const pieces = parts
      .filter((part) => part.bytes > 0)
      .map((part) => ({ key: stagedKey(version, part.id), bytes: part.bytes }));
    const copyable = pieces.slice(0, -1).every((piece) => piece.bytes >= PART_BYTES);
    if (pieces.length > 0 && copyable && pieces.length <= MAX_PARTS) {
      await this.#join(blobKey(version), pieces, version);
    } else {
      await this.#put(blobKey(version), this.readStaged(version, parts), total);
    }
    await this.removeStaged(version);
  }

  async *readStaged(version: string, parts: readonly StagedPart[]): AsyncIterable<Buffer> {
    for (const part of parts) {
      if (part.bytes > 0) yield* await this.#get(stagedKey(version, part.id), version);
    }
  }

  close(): void {
    void this.#opened?.then(({ client }) => client.destroy());
  }

  #open(): Promise<Opened> {
    this.#opened ??= openS3(this.#settings).then((opened) => ({ ...opened, Bucket: this.#settings.bucket }));
    return this.#opened;
  }

  /** Streams to a key, holding two parts in memory; a source of at most one part is a single request. */
  async #put(key: string, source: AsyncIterable<Buffer>, atMostBytes: number): Promise<number> {
    const { sdk, client, Bucket } = await this.#open();
    const parts = inParts(source, Math.max(PART_BYTES, Math.ceil(atMostBytes / MAX_PARTS)));
    let bytes = 0;
    try {
      const { value: first } = await parts.next();
      if (!first) throw new Error('a source has at least one part');
      bytes += first.part.length;
      if (first.last) {
        await client.send(new sdk.PutObjectCommand({ Bucket, Key: key, Body: first.part }));
        return bytes;
      }
      await this.#multipart(key, async (UploadId, etags) => {
        const send = async (Body: Buffer): Promise<void> => {
          const PartNumber = etags.length + 1;
          const { ETag } = await client.send(
            new sdk.UploadPartCommand({ Bucket, Key: key, UploadId, PartNumber, Body }),
          );
          etags.push(ETag);
          freeChunk(Body);
        };
        let sending = send(first.part);
        try {
          for (;;) {
            // Handled below, also when the source fails first.
            sending.catch(() => {});
            const { value: next } = await parts.next();
            await sending;
            if (!next) return;
            bytes += next.part.length;
            sending = send(next.part);
          }
        } catch (error) {
          await sending.catch(() => {});
          throw error;
        }
      });
      return bytes;
    } finally {
      await parts.return(undefined);
    }
  }

  /** Joins blobs of the store without their bytes passing through here. */
  async #join(
    key: string,
    pieces: ReadonlyArray<{ readonly key: string; readonly bytes: number }>,
    version: string,
  ): Promise<void> {
    const { sdk, client, Bucket } = await this.#open();
    const [only] = pieces;
    try {
      if (pieces.length === 1 && only && only.bytes <= MAX_COPY_BYTES) {
        const CopySource = `${Bucket}/${only.key}`;
        await client.send(new sdk.CopyObjectCommand({ Bucket, Key: key, CopySource }));
        return;
      }
      await this.#multipart(key, async (UploadId, etags) => {
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

  /** A multipart upload: `work` sends the parts and collects their entity tags. Aborted when it throws. */
  async #multipart(
    key: string,
    work: (uploadId: string, etags: Array<string | undefined>) => Promise<void>,
  ): Promise<void> {
    const { sdk, client, Bucket } = await this.#open();
    const { UploadId } = await client.send(new sdk.CreateMultipartUploadCommand({ Bucket, Key: key }));
    if (UploadId === undefined) throw new Error('the store began an upload without naming it');
    const etags: Array<string | undefined> = [];
    try {
      await work(UploadId, etags);
      const Parts = etags.map((ETag, index) => ({ ETag, PartNumber: index + 1 }));
      await client.send(
        new sdk.CompleteMultipartUploadCommand({ Bucket, Key: key, UploadId, MultipartUpload: { Parts } }),
      );
    } catch (error) {
      await client.send(new sdk.AbortMultipartUploadCommand({ Bucket, Key: key, UploadId })).catch(() => {});
      throw error;
    }
  }

  async #get(key: string, version: string, range?: BlobRange): Promise<Readable> {
    const { sdk, client, Bucket } = await this.#open();
    try {
      const Range = range && `bytes=${range.start}-${range.end}`;
      const { Body } = await client.send(new sdk.GetObjectCommand({ Bucket, Key: key, Range }));
      if (!(Body instanceof Readable)) throw new Error('the store answered without a body');
      return Body;
    } catch (error) {
      throw isMissing(error) ? new BlobMissing(version) : error;
    }
  }

  async #sizeOf(key: string): Promise<number | undefined> {
    const { sdk, client, Bucket } = await this.#open();
    try {
      const head = await client.send(new sdk.HeadObjectCommand({ Bucket, Key: key }));
      return head.ContentLength;
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async #delete(key: string): Promise<void> {
    const { sdk, client, Bucket } = await this.#open();
    try {
      await client.send(new sdk.DeleteObjectCommand({ Bucket, Key: key }));
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  /** Deletes what an abandoned upload may have left: staged parts and multipart uploads. */
  async #abort(version: string): Promise<void> {
    const { sdk, client, Bucket } = await this.#open();
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

  async *#objects(Prefix: string): AsyncIterable<ListedKey> {
    const { sdk, client, Bucket } = await this.#open();
    let ContinuationToken: string | undefined;
    do {
      const page = await client.send(new sdk.ListObjectsV2Command({ Bucket, Prefix, ContinuationToken }));
      for (const { Key = '', LastModified } of page.Contents ?? [])
        yield { key: Key, modifiedAt: LastModified };
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
  }

  async *#multipartUploads(Prefix: string): AsyncIterable<ListedKey & { readonly uploadId: string }> {
    const { sdk, client, Bucket } = await this.#open();
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

/** Chunks as parts of one size; the last is marked, may be smaller, and is empty when it is the only one. */
async function* inParts(
  source: AsyncIterable<Buffer>,
  partBytes: number,
): AsyncGenerator<{ part: Buffer; last: boolean }, undefined> {
  let chunks: Buffer[] = [];
  let bytes = 0;
  let yielded = false;
  for await (const chunk of source) {
    let rest = chunk;
    while (bytes + rest.length > partBytes) {
      const fitting = rest.subarray(0, partBytes - bytes);
      chunks.push(fitting);
      const part = Buffer.concat(chunks);
      rest = rest.subarray(fitting.length);
      chunks.forEach(freeChunk);
      chunks = [];
      bytes = 0;
      yielded = true;
      yield { part, last: false };
    }
    if (rest.length > 0) chunks.push(rest);
    bytes += rest.length;
  }
  if (bytes > 0 || !yielded) yield { part: Buffer.concat(chunks), last: true };
  return undefined;
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && /^(NoSuchKey|NotFound|NoSuchUpload)$/.test(error.name);
}
