// Storage of backups: a folder, or a prefix of a bucket. Paths are relative to it and use slashes.
import type { Readable } from 'node:stream';
import { Problem } from '../../problem/problem.ts';
import type { S3Place } from '../../storage/backend/backend.ts';

export type KeptFile = { readonly path: string; readonly bytes: number; readonly modifiedAt: Date };

export interface Target {
  /** Name for messages and metrics. */
  readonly name: string;
  /** The bucket and its prefix. Undefined for a folder. */
  readonly place?: S3Place | undefined;
  /** The whole file or none of it; durable when it returns. `atMostBytes` is a hint for choosing part sizes. */
  write(path: string, source: AsyncIterable<Uint8Array>, atMostBytes?: number): Promise<void>;
  /** Throws FileMissing. */
  read(path: string): Promise<Readable>;
  /** Returns undefined for a missing file. */
  readSize(path: string): Promise<number | undefined>;
  /** A missing file counts as removed. */
  remove(path: string): Promise<void>;
  removeFolder(folder: string): Promise<void>;
  /** Names of those at the top. */
  folders(): Promise<string[]>;
  /** Lists all files below a folder, recursively. Empty for a missing folder. */
  list(folder: string): AsyncIterable<KeptFile>;
  close(): void;
}

export class FileMissing extends Error {
  constructor(path: string) {
    super(`no file ${path}`);
    this.name = 'FileMissing';
  }
}

export function targetFull(name: string, cause: unknown): Problem {
  return new Problem('backup_target_full', 500, `There is no room left in ${name}`, {
    hint: 'Remove old backups with svc backup prune, or name another place.',
    cause,
  });
}

/**
 * Opens a target. The caller resolves a folder to an absolute path. `env` contains the credentials of a bucket in the
 * standard variables.
 */
export async function openTarget(
  text: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Target> {
  if (!/^\w+:\/\//.test(text)) {
    const { FolderTarget } = await import('./folder-target.ts');
    return new FolderTarget(text);
  }
  const { bucket, prefix = '' } =
    /^s3:\/\/(?<bucket>[^/?#@]+)(?:\/(?<prefix>[^?#]*?))?\/*$/i.exec(text)?.groups ?? {};
  if (bucket === undefined)
    throw new Problem('bad_backup_target', 400, `${text} is not a valid backup target`, {
      hint: 'It is a folder, or a bucket with a prefix: s3://bucket/prefix.',
    });
  const { BucketTarget } = await import('./bucket-target.ts');
  return new BucketTarget(bucket, prefix, env);
}
