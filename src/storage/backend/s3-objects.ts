// Objects of a bucket of an S3-compatible store, by their keys.
import { Readable } from 'node:stream';
import { freeChunk } from '../../lib/memory/free-chunk.ts';
import { openS3, type S3Access, type S3Client } from './s3-client.ts';

export type Opened = S3Client & { readonly Bucket: string };

export type S3Settings = S3Access & { readonly bucket: string };

/** The smallest part of a multipart upload. An upload holds two in memory: one being sent, one being filled. */
export const PART_BYTES = 5 * 1024 * 1024;
/** S3 allows 10,000 parts. */
export const MAX_PARTS = 9_000;

export type ListedObject = {
  readonly key: string;
  readonly bytes: number;
  readonly modifiedAt: Date | undefined;
};

export class S3Objects {
  readonly #settings: S3Settings;
  #opened: Promise<Opened> | undefined;

  constructor(settings: S3Settings) {
    this.#settings = settings;
  }

  close(): void {
    void this.#opened?.then(({ client }) => client.destroy());
  }

  open(): Promise<Opened> {
    this.#opened ??= openS3(this.#settings).then((opened) => ({ ...opened, Bucket: this.#settings.bucket }));
    return this.#opened;
  }

  /** Streams to a key, holding two parts in memory; a source of at most one part is a single request. */
  async put(key: string, source: AsyncIterable<Buffer>, atMostBytes: number): Promise<number> {
    const { sdk, client, Bucket } = await this.open();
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
      await this.multipart(key, async (UploadId, etags) => {
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

  /** A multipart upload: `work` sends the parts and collects their entity tags. Aborted when it throws. */
  async multipart(
    key: string,
    work: (uploadId: string, etags: Array<string | undefined>) => Promise<void>,
  ): Promise<void> {
    const { sdk, client, Bucket } = await this.open();
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

  /** Throws ObjectMissing. */
  async get(key: string, range?: { readonly start: number; readonly end: number }): Promise<Readable> {
    const { sdk, client, Bucket } = await this.open();
    try {
      const Range = range && `bytes=${range.start}-${range.end}`;
      const { Body } = await client.send(new sdk.GetObjectCommand({ Bucket, Key: key, Range }));
      if (!(Body instanceof Readable)) throw new Error('the store answered without a body');
      return Body;
    } catch (error) {
      throw isMissing(error) ? new ObjectMissing(key) : error;
    }
  }

  /** Undefined where there is none. */
  async readSize(key: string): Promise<number | undefined> {
    const { sdk, client, Bucket } = await this.open();
    try {
      const head = await client.send(new sdk.HeadObjectCommand({ Bucket, Key: key }));
      return head.ContentLength;
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  /** Deletes an object. A missing object counts as deleted. */
  async delete(key: string): Promise<void> {
    const { sdk, client, Bucket } = await this.open();
    try {
      await client.send(new sdk.DeleteObjectCommand({ Bucket, Key: key }));
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  /** Lists the objects with a key prefix. */
  async *objects(Prefix: string): AsyncIterable<ListedObject> {
    const { sdk, client, Bucket } = await this.open();
    let ContinuationToken: string | undefined;
    do {
      const page = await client.send(new sdk.ListObjectsV2Command({ Bucket, Prefix, ContinuationToken }));
      for (const { Key = '', Size = 0, LastModified } of page.Contents ?? [])
        yield { key: Key, bytes: Size, modifiedAt: LastModified };
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
  }

  /** Returns the distinct folders directly below the prefix, including the prefix. */
  async folders(Prefix: string): Promise<string[]> {
    const { sdk, client, Bucket } = await this.open();
    const found: string[] = [];
    let ContinuationToken: string | undefined;
    do {
      const page = await client.send(
        new sdk.ListObjectsV2Command({ Bucket, Prefix, Delimiter: '/', ContinuationToken }),
      );
      for (const one of page.CommonPrefixes ?? []) found.push((one.Prefix ?? '').replace(/\/$/, ''));
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
    return found;
  }
}

export class ObjectMissing extends Error {
  constructor(key: string) {
    super(`no object ${key}`);
    this.name = 'ObjectMissing';
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && /^(NoSuchKey|NotFound|NoSuchUpload)$/.test(error.name);
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
