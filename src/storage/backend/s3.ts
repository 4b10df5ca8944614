// Blobs in an S3-compatible store: `blobs/<version>`, and `staging/<version>/<part>` for resumable uploads. The
// SDK is loaded at the first use, so that a server with a local directory never pays for it.
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type * as sdkModule from '@aws-sdk/client-s3';
import { isStorageFull } from '../problem.ts';
import { releaseBytes } from '../../lib/release-bytes.ts';
import { Problem } from '../../problem/problem.ts';
import {
  BlobMissing,
  isVersion,
  type Backend,
  type BlobRange,
  type Doomed,
  type ListedBlob,
  type StagedPart,
} from './backend.ts';

type Sdk = typeof sdkModule;
type Opened = { readonly sdk: Sdk; readonly client: sdkModule.S3Client };

export type S3Settings = {
  readonly bucket: string;
  readonly region: string | undefined;
  readonly accessKeyId: string | undefined;
  readonly secretAccessKey: string | undefined;
  readonly endpoint: string | undefined;
};

/** The smallest part a store takes, and with it the memory of one upload: one part under way, one being filled. */
const PART_BYTES = 5 * 1024 * 1024;
/** Parts of one upload; a store takes 10,000. */
const MAX_PARTS = 9_000;
/** The largest piece a store copies by itself. */
const MAX_COPY_BYTES = 1024 ** 3;
const DELETE_CONCURRENCY = 8;
const MAX_IDLE_SOCKETS = 64;

export class S3Backend implements Backend {
  readonly location: string;
  readonly #settings: S3Settings;
  #opened: Promise<Opened> | undefined;

  constructor(settings: S3Settings) {
    this.#settings = settings;
    const place = withoutCredentials(settings.endpoint) ?? settings.region ?? 'us-east-1';
    this.location = `s3:${place}/${settings.bucket}`;
  }

  async check(): Promise<void> {
    const version = randomUUID();
    try {
      // A store that is full can still be read, and be made room in.
      const full = await this.write(version, once(Buffer.from('probe')), 5).then(
        () => false,
        (error: unknown) => {
          if (!isStorageFull(error)) throw error;
          return true;
        },
      );
      if (!full) await this.#discard(await this.read(version, 5));
      const failures = await this.remove([{ version, staged: false }]);
      for (const error of failures.values()) throw error;
    } catch (cause) {
      throw new Problem(
        'storage_bucket',
        500,
        `The S3 bucket "${this.#settings.bucket}" cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`,
        {
          cause,
          hint: 'Check providers.storage.s3 in svc.yaml: the bucket must exist and the key must be allowed to read, write, list and delete in it.',
        },
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

  async remove(doomed: readonly Doomed[]): Promise<ReadonlyMap<string, Error>> {
    const failures = new Map<string, Error>();
    const queue = doomed.filter(({ version }) => isVersion(version));
    const work = async (): Promise<void> => {
      for (let next = queue.pop(); next; next = queue.pop()) {
        try {
          if (next.staged) await this.#abort(next.version);
          await this.#delete(blobKey(next.version));
        } catch (error) {
          failures.set(next.version, error instanceof Error ? error : new Error(String(error)));
        }
      }
    };
    await Promise.all(Array.from({ length: DELETE_CONCURRENCY }, work));
    return failures;
  }

  async removeStaged(version: string): Promise<void> {
    for await (const { Key } of this.#objects(`staging/${version}/`)) {
      if (Key !== undefined) await this.#delete(Key);
    }
  }

  async *list(): AsyncIterable<ListedBlob> {
    for await (const { Key, LastModified } of this.#objects('blobs/')) {
      const version = Key?.slice('blobs/'.length) ?? '';
      if (isVersion(version)) yield { version, modifiedAt: LastModified ?? new Date(), staged: false };
    }
    for await (const { Key, LastModified } of this.#objects('staging/')) {
      const version = Key?.split('/')[1] ?? '';
      if (isVersion(version)) yield { version, modifiedAt: LastModified ?? new Date(), staged: true };
    }
    for await (const { Key, Initiated } of this.#multipartUploads('')) {
      const version = Key?.split('/')[1] ?? '';
      if (isVersion(version)) yield { version, modifiedAt: Initiated ?? new Date(), staged: true };
    }
  }

  async append(
    version: string,
    parts: readonly StagedPart[],
    source: AsyncIterable<Buffer>,
    atMostBytes: number,
  ): Promise<StagedPart> {
    // A name of its own for every attempt: a writer that was given up and still runs cannot touch the next one's.
    const id = `${String(parts.length).padStart(6, '0')}-${randomUUID()}`;
    const bytes = await this.#put(stagedKey(version, id), source, atMostBytes);
    return { id, bytes };
  }

  async assemble(version: string, parts: readonly StagedPart[]): Promise<void> {
    const total = parts.reduce((sum, part) => sum + part.bytes, 0);
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

  /** An answer that is not read to its end keeps its connection. */
  async #discard(body: Readable | Buffer): Promise<void> {
    if (!Buffer.isBuffer(body)) for await (const chunk of body) void chunk;
  }

  close(): void {
    void this.#opened?.then(({ client }) => client.destroy());
  }

  #open(): Promise<Opened> {
    this.#opened ??= import('@aws-sdk/client-s3').then((sdk) => {
      const { region, endpoint, accessKeyId, secretAccessKey } = this.#settings;
      const client = new sdk.S3Client({
        region: region ?? 'us-east-1',
        // Stores other than AWS rarely have a host name per bucket, and not all know the newer checksums.
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
          // A download keeps its connection for as long as its reader takes. With the SDK's fifty, as many slow
          // readers would stop every upload, deletion and other download of this process.
          httpAgent: { keepAlive: true, maxSockets: Infinity, maxFreeSockets: MAX_IDLE_SOCKETS },
          httpsAgent: { keepAlive: true, maxSockets: Infinity, maxFreeSockets: MAX_IDLE_SOCKETS },
        },
      });
      return { sdk, client };
    });
    return this.#opened;
  }

  /** Streams to a key with the memory of two parts; what fits into one part is a single request. */
  async #put(key: string, source: AsyncIterable<Buffer>, atMostBytes: number): Promise<number> {
    const { sdk, client } = await this.#open();
    const { bucket: Bucket } = this.#settings;
    const partBytes = Math.max(PART_BYTES, Math.ceil(atMostBytes / MAX_PARTS));
    let upload: string | undefined;
    let underWay: Promise<unknown> = Promise.resolve();
    const etags: Array<string | undefined> = [];
    let bytes = 0;
    try {
      for await (const { part, last } of inParts(source, partBytes)) {
        bytes += part.length;
        if (last && upload === undefined) {
          await client.send(new sdk.PutObjectCommand({ Bucket, Key: key, Body: part }));
          return bytes;
        }
        upload ??= await this.#begin(key);
        await underWay;
        const PartNumber = etags.push(undefined);
        underWay = client
          .send(new sdk.UploadPartCommand({ Bucket, Key: key, UploadId: upload, PartNumber, Body: part }))
          .then(({ ETag }) => {
            etags[PartNumber - 1] = ETag;
            releaseBytes(part);
          });
        // Awaited by the next turn; a source that fails first must not leave it unhandled.
        underWay.catch(() => {});
      }
      await underWay;
      await client.send(
        new sdk.CompleteMultipartUploadCommand({
          Bucket,
          Key: key,
          UploadId: upload,
          MultipartUpload: { Parts: etags.map((ETag, index) => ({ ETag, PartNumber: index + 1 })) },
        }),
      );
      return bytes;
    } catch (error) {
      if (upload !== undefined) {
        await underWay.catch(() => {});
        await client
          .send(new sdk.AbortMultipartUploadCommand({ Bucket, Key: key, UploadId: upload }))
          .catch(() => {});
      }
      throw error;
    }
  }

  /** Puts pieces the store already has together, without their bytes passing through here. */
  async #join(
    key: string,
    pieces: ReadonlyArray<{ readonly key: string; readonly bytes: number }>,
    version: string,
  ): Promise<void> {
    const { sdk, client } = await this.#open();
    const { bucket: Bucket } = this.#settings;
    const source = (piece: { key: string }): string => `${Bucket}/${piece.key}`;
    const [only] = pieces;
    try {
      if (pieces.length === 1 && only && only.bytes <= MAX_COPY_BYTES) {
        await client.send(new sdk.CopyObjectCommand({ Bucket, Key: key, CopySource: source(only) }));
        return;
      }
      const upload = await this.#begin(key);
      try {
        const Parts: Array<{ PartNumber: number; ETag: string | undefined }> = [];
        for (const piece of pieces) {
          for (let start = 0; start < piece.bytes; start += MAX_COPY_BYTES) {
            const end = Math.min(start + MAX_COPY_BYTES, piece.bytes) - 1;
            const PartNumber: number = Parts.length + 1;
            const copied = await client.send(
              new sdk.UploadPartCopyCommand({
                Bucket,
                Key: key,
                UploadId: upload,
                PartNumber,
                CopySource: source(piece),
                CopySourceRange: `bytes=${start}-${end}`,
              }),
            );
            Parts.push({ PartNumber, ETag: copied.CopyPartResult?.ETag });
          }
        }
        await client.send(
          new sdk.CompleteMultipartUploadCommand({
            Bucket,
            Key: key,
            UploadId: upload,
            MultipartUpload: { Parts },
          }),
        );
      } catch (error) {
        await client
          .send(new sdk.AbortMultipartUploadCommand({ Bucket, Key: key, UploadId: upload }))
          .catch(() => {});
        throw error;
      }
    } catch (error) {
      throw isMissing(error) ? new BlobMissing(version) : error;
    }
  }

  async #begin(key: string): Promise<string> {
    const { sdk, client } = await this.#open();
    const begun = await client.send(
      new sdk.CreateMultipartUploadCommand({ Bucket: this.#settings.bucket, Key: key }),
    );
    if (begun.UploadId === undefined) throw new Error('the store began an upload without naming it');
    return begun.UploadId;
  }

  async #get(key: string, version: string, range?: BlobRange): Promise<Readable> {
    const { sdk, client } = await this.#open();
    try {
      const { Body } = await client.send(
        new sdk.GetObjectCommand({
          Bucket: this.#settings.bucket,
          Key: key,
          ...(range ? { Range: `bytes=${range.start}-${range.end}` } : {}),
        }),
      );
      if (!(Body instanceof Readable)) throw new Error('the store answered without a body');
      return Body;
    } catch (error) {
      throw isMissing(error) ? new BlobMissing(version) : error;
    }
  }

  async #sizeOf(key: string): Promise<number | undefined> {
    const { sdk, client } = await this.#open();
    try {
      const head = await client.send(new sdk.HeadObjectCommand({ Bucket: this.#settings.bucket, Key: key }));
      return head.ContentLength;
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async #delete(key: string): Promise<void> {
    const { sdk, client } = await this.#open();
    try {
      await client.send(new sdk.DeleteObjectCommand({ Bucket: this.#settings.bucket, Key: key }));
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  /** What an upload that was given up may have left: parts of it, whole or begun. */
  async #abort(version: string): Promise<void> {
    const { sdk, client } = await this.#open();
    for (const prefix of [blobKey(version), `staging/${version}/`]) {
      for await (const { Key, UploadId } of this.#multipartUploads(prefix)) {
        await client
          .send(new sdk.AbortMultipartUploadCommand({ Bucket: this.#settings.bucket, Key, UploadId }))
          .catch((error: unknown) => {
            if (!isMissing(error)) throw error;
          });
      }
    }
    await this.removeStaged(version);
  }

  async *#objects(
    Prefix: string,
  ): AsyncIterable<{ Key?: string | undefined; LastModified?: Date | undefined }> {
    const { sdk, client } = await this.#open();
    let ContinuationToken: string | undefined;
    do {
      const page = await client.send(
        new sdk.ListObjectsV2Command({ Bucket: this.#settings.bucket, Prefix, ContinuationToken }),
      );
      yield* page.Contents ?? [];
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
  }

  async *#multipartUploads(Prefix: string): AsyncIterable<{
    Key?: string | undefined;
    UploadId?: string | undefined;
    Initiated?: Date | undefined;
  }> {
    const { sdk, client } = await this.#open();
    let KeyMarker: string | undefined;
    let UploadIdMarker: string | undefined;
    do {
      const page = await client
        .send(
          new sdk.ListMultipartUploadsCommand({
            Bucket: this.#settings.bucket,
            Prefix,
            KeyMarker,
            UploadIdMarker,
          }),
        )
        .catch((error: unknown) => {
          // Some stores cannot tell; theirs is the rule that ends incomplete uploads after a time.
          if (error instanceof Error && error.name === 'NotImplemented')
            return { Uploads: [], IsTruncated: false };
          throw error;
        });
      // A store without prefixes here answers with everything.
      for (const upload of page.Uploads ?? []) if (upload.Key?.startsWith(Prefix)) yield upload;
      KeyMarker = 'NextKeyMarker' in page && page.IsTruncated ? page.NextKeyMarker : undefined;
      UploadIdMarker = 'NextUploadIdMarker' in page && page.IsTruncated ? page.NextUploadIdMarker : undefined;
    } while (KeyMarker !== undefined);
  }
}

/** The place is written into the database and into messages. */
function withoutCredentials(endpoint: string | undefined): string | undefined {
  return endpoint?.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@]*@/i, '$1');
}

function blobKey(version: string): string {
  if (!isVersion(version)) throw new BlobMissing('with a malformed version');
  return `blobs/${version}`;
}

function stagedKey(version: string, id: string): string {
  if (!isVersion(version)) throw new BlobMissing('with a malformed version');
  return `staging/${version}/${id}`;
}

/** Chunks gathered to parts of one size; the last one is marked and may be smaller, or empty when it is the only one. */
async function* inParts(
  source: AsyncIterable<Buffer>,
  partBytes: number,
): AsyncGenerator<{ part: Buffer; last: boolean }> {
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
      chunks.forEach(releaseBytes);
      chunks = [];
      bytes = 0;
      yielded = true;
      yield { part, last: false };
    }
    if (rest.length > 0) chunks.push(rest);
    bytes += rest.length;
  }
  if (bytes > 0 || !yielded) yield { part: Buffer.concat(chunks), last: true };
}

async function* once(bytes: Buffer): AsyncIterable<Buffer> {
  yield bytes;
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && /^(NoSuchKey|NotFound|NoSuchUpload)$/.test(error.name);
}
