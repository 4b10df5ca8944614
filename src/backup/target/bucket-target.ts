// Backups in a bucket of an S3-compatible store.
import type { Readable } from 'node:stream';
import { Problem } from '../../problem/problem.ts';
import type { S3Place } from '../../storage/backend/backend.ts';
import { type ListedObject, ObjectMissing, S3Objects } from '../../storage/backend/s3-objects.ts';
import { isStorageFull } from '../../storage/problem.ts';
import { FileMissing, type KeptFile, type Target, targetFull } from './target.ts';

/**
 * Assumed size of a dump, whose size is unknown beforehand. A larger limit increases the parts that are kept in
 * memory.
 */
const MAX_FILE_BYTES = 256 * 1024 ** 3;

export class BucketTarget implements Target {
  readonly name: string;
  readonly place: S3Place;
  readonly #prefix: string;
  readonly #objects: S3Objects;

  constructor(bucket: string, prefix: string, env: Readonly<Record<string, string | undefined>>) {
    const { AWS_REGION: region, AWS_DEFAULT_REGION: otherRegion } = env;
    // Session keys require a token, which only the client's default credential lookup reads.
    const isSession = Boolean(env['AWS_SESSION_TOKEN']);
    const endpoint = env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'];
    this.#prefix = prefix === '' ? '' : `${prefix}/`;
    this.name = `s3://${bucket}/${prefix}`.replace(/\/$/, '');
    this.place = {
      kind: 's3',
      endpoint: endpoint ?? region ?? otherRegion ?? 'us-east-1',
      bucket,
      prefix,
    };
    this.#objects = new S3Objects({
      bucket,
      region: region ?? otherRegion,
      endpoint,
      accessKeyId: isSession ? undefined : env['AWS_ACCESS_KEY_ID'],
      secretAccessKey: isSession ? undefined : env['AWS_SECRET_ACCESS_KEY'],
    });
  }

  async write(path: string, source: AsyncIterable<Uint8Array>, atMostBytes = MAX_FILE_BYTES): Promise<void> {
    await this.#told(
      async () => await this.#objects.put(this.#prefix + path, inBuffers(source), atMostBytes),
    );
  }

  async read(path: string): Promise<Readable> {
    return await this.#told(async () => await this.#objects.get(this.#prefix + path)).catch(
      (error: unknown) => {
        throw error instanceof ObjectMissing ? new FileMissing(path) : error;
      },
    );
  }

  async readSize(path: string): Promise<number | undefined> {
    return await this.#told(async () => await this.#objects.readSize(this.#prefix + path));
  }

  async remove(path: string): Promise<void> {
    await this.#told(async () => await this.#objects.delete(this.#prefix + path));
  }

  async removeFolder(folder: string): Promise<void> {
    for await (const { path } of this.list(folder)) await this.remove(path);
  }

  async folders(): Promise<string[]> {
    const found = await this.#told(async () => await this.#objects.folders(this.#prefix));
    return found.map((key) => key.slice(this.#prefix.length));
  }

  async *list(folder: string): AsyncIterable<KeptFile> {
    const found = this.#objects.objects(`${this.#prefix}${folder}/`)[Symbol.asyncIterator]();
    const next = (): Promise<IteratorResult<ListedObject>> => this.#told(async () => await found.next());
    for (let one = await next(); !one.done; one = await next()) {
      const { key, bytes, modifiedAt = new Date() } = one.value;
      yield { path: key.slice(this.#prefix.length), bytes, modifiedAt };
    }
  }

  close(): void {
    this.#objects.close();
  }

  /** Adds the name of the target to errors of the store. */
  async #told<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (isStorageFull(error)) throw targetFull(this.name, error);
      if (!(error instanceof Error) || !('$metadata' in error)) throw error;
      throw new Problem(
        'backup_target_unusable',
        500,
        `${this.name} cannot be used: ${error.name}: ${error.message}`,
        {
          hint:
            'The bucket must exist, and the key of AWS_ACCESS_KEY_ID must be allowed to read, write, ' +
            'list and delete in it; AWS_ENDPOINT_URL_S3 selects another store than AWS.',
          cause: error,
        },
      );
    }
  }
}

async function* inBuffers(source: AsyncIterable<Uint8Array>): AsyncIterable<Buffer> {
  for await (const chunk of source)
    yield Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}
