// Interface to the stored bytes. A backend knows versions only: a version is a fresh UUID that names one blob. A blob
// is written once and never changed, so a backend needs no locks, overwrites or renames by name.
import type { Readable } from 'node:stream';
import { Problem } from '../../problem/problem.ts';
import type { StoreMark } from './store-mark.ts';

/** Both ends included. */
export type BlobRange = { readonly start: number; readonly end: number };

export type ListedBlob = {
  readonly version: string;
  readonly modifiedAt: Date;
  /** Incomplete: an upload that is under way or was abandoned. */
  readonly staged: boolean;
};

/** A part of a resumable upload; `id` belongs to the backend. */
export type StagedPart = { readonly id: string; readonly bytes: number };

export type Deletion = { readonly version: string; readonly staged: boolean };

/** `endpoint` is a URL without credentials, or the region of AWS. */
export type S3Place = {
  readonly kind: 's3';
  readonly endpoint: string;
  readonly bucket: string;
  readonly prefix: string;
};

export interface Backend {
  /** Identity of this store, recorded in the database by `verifyLocation`. */
  readonly place: S3Place | StoreMark;

  /** Throws a Problem when the location cannot be used. */
  check(): Promise<void>;

  /**
   * Stores a durable blob. When it throws, nothing readable is left. `atMostBytes` is a hint for choosing part
   * sizes, not a limit.
   */
  write(version: string, source: AsyncIterable<Buffer>, atMostBytes: number): Promise<void>;

  /** Throws BlobMissing before the first byte. */
  read(version: string, size: number, range?: BlobRange): Promise<Readable | Buffer>;

  /** Stores a second blob with the same bytes; throws BlobMissing. */
  copy(from: string, to: string, size: number): Promise<void>;

  /**
   * Deletes blobs, and with `staged` also what is staged under their versions; a missing blob counts as deleted.
   * Returns the failures by version.
   */
  remove(deletions: readonly Deletion[]): Promise<ReadonlyMap<string, Error>>;

  /** Deletes only what is staged under a version. */
  removeStaged(version: string): Promise<void>;

  list(): AsyncIterable<ListedBlob>;

  /** Appends a part to a staged upload; `parts` are those recorded so far. Durable when it returns. */
  append(
    version: string,
    parts: readonly StagedPart[],
    source: AsyncIterable<Buffer>,
    atMostBytes: number,
  ): Promise<StagedPart>;

  /** Turns the staged parts into a blob. Idempotent. */
  assemble(version: string, parts: readonly StagedPart[]): Promise<void>;

  /** The staged bytes in order; throws BlobMissing. */
  readStaged(version: string, parts: readonly StagedPart[]): AsyncIterable<Buffer>;

  close(): void;
}

export class BlobMissing extends Error {
  constructor(version: string) {
    super(`no blob ${version}`);
    this.name = 'BlobMissing';
  }
}

const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

/** The tables can be written with SQL: nothing but a UUID may become part of a path. */
export function isVersion(text: string): boolean {
  return UUID.test(text);
}

export function assertVersion(version: string): void {
  if (!isVersion(version)) throw new BlobMissing('with a malformed version');
}

export function totalBytes(parts: readonly StagedPart[]): number {
  return parts.reduce((sum, part) => sum + part.bytes, 0);
}

export async function* once(bytes: Buffer): AsyncIterable<Buffer> {
  yield bytes;
}

/** Returns the Problem that `check` throws. */
export function unusable(code: string, subject: string, hint: string, cause: unknown): Problem {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new Problem(code, 500, `${subject} cannot be used: ${reason}`, { hint, cause });
}

/** Runs a deletion for each version and collects the failures. Ignores what is not a version. */
export async function removeEach(
  deletions: readonly Deletion[],
  concurrency: number,
  remove: (deletion: Deletion) => Promise<void>,
): Promise<ReadonlyMap<string, Error>> {
  const failures = new Map<string, Error>();
  const queue = deletions.filter(({ version }) => isVersion(version));
  const work = async (): Promise<void> => {
    for (let next = queue.pop(); next; next = queue.pop()) {
      const { version } = next;
      await remove(next).catch((error: unknown) =>
        failures.set(version, error instanceof Error ? error : new Error(String(error))),
      );
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  return failures;
}

/** The first `bytes` bytes of a body. */
export async function readAtMost(body: AsyncIterable<unknown> | Buffer, bytes = Infinity): Promise<Buffer> {
  if (Buffer.isBuffer(body)) return body.subarray(0, bytes);
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body) {
    if (!Buffer.isBuffer(chunk)) continue;
    chunks.push(chunk);
    length += chunk.length;
    if (length >= bytes) break;
  }
  return Buffer.concat(chunks).subarray(0, bytes);
}
