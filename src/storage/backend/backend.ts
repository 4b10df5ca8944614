// The port to whatever keeps bytes. It knows versions only: a version is a fresh UUID that names one blob for
// ever, is written once and never changed, so a backend needs neither locks nor overwrites nor renames by name.
import type { Readable } from 'node:stream';

export type BlobRange = { readonly start: number; /** Last byte, included. */ readonly end: number };

export type ListedBlob = {
  readonly version: string;
  readonly modifiedAt: Date;
  /** Not complete: an upload that is under way or was given up. */
  readonly staged: boolean;
};

/** A piece of a resumable upload as the backend remembers it; opaque to everybody else. */
export type StagedPart = { readonly id: string; readonly bytes: number };

export type Doomed = { readonly version: string; readonly staged: boolean };

export interface Backend {
  /** Recorded with the data, so that a changed `providers.storage` cannot silently point at other bytes. */
  readonly location: string;

  /** Fails with a Problem when the place cannot do what is needed of it. */
  check(): Promise<void>;

  /**
   * Takes the bytes to a durable blob. When it throws, nothing readable is left under the version. `atMostBytes` is
   * no check, only what a store that wants parts of a size plans with.
   */
  write(version: string, source: AsyncIterable<Buffer>, atMostBytes: number): Promise<void>;

  /** Bytes of a blob; throws BlobMissing before the first one when there is none. */
  read(version: string, size: number, range?: BlobRange): Promise<Readable | Buffer>;

  /** A second blob with the bytes of the first; throws BlobMissing. */
  copy(from: string, to: string, size: number): Promise<void>;

  /** Deletes blobs, and with `staged` what is staged under their versions; what is not there counts as deleted. */
  remove(doomed: readonly Doomed[]): Promise<ReadonlyMap<string, Error>>;

  /** Deletes only what is staged under a version whose blob is in use. */
  removeStaged(version: string): Promise<void>;

  list(): AsyncIterable<ListedBlob>;

  /** Appends to a staged upload; `parts` is what earlier calls returned. Durable when it returns. */
  append(
    version: string,
    parts: readonly StagedPart[],
    source: AsyncIterable<Buffer>,
    atMostBytes: number,
  ): Promise<StagedPart>;

  /** Turns the staged parts into a blob. Repeatable: a blob that is already complete is success. */
  assemble(version: string, parts: readonly StagedPart[]): Promise<void>;

  /** Bytes of the staged parts in order, to look at before they become a blob. */
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

/** A version comes from our own tables, but those can be written with SQL: nothing else may become part of a path. */
export function isVersion(text: string): boolean {
  return UUID.test(text);
}
