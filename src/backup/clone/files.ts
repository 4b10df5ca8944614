// The bytes of stored files that a clone names, out of a backup.
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import type { Backend } from '../../storage/backend/backend.ts';
import { blobPath } from '../manifest.ts';
import type { OpenFile } from '../seal.ts';
import { reportProgress } from '../../lib/progress.ts';

const AT_ONCE = 8;

export type StoredFile = { readonly version: string; readonly size: number };

export async function storedFiles(database: Queryable): Promise<StoredFile[]> {
  return await database.query<StoredFile>(
    raw(`select version, coalesce((metadata ->> 'size')::float8, 0) as size from storage.objects`),
  );
}

/** Location of a backup's files: the store in its target, and how to open files. */
export type FilesOfBackup = { readonly store: string; readonly open: OpenFile };

/** Answers how many. */
export async function copyFiles(
  { store, open }: FilesOfBackup,
  files: readonly StoredFile[],
  backend: Backend,
): Promise<number> {
  await backend.check();
  const waiting = [...files];
  const work = async (): Promise<void> => {
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      reportProgress('copying files', files.length - waiting.length, files.length);
      await backend.write(
        next.version,
        (await open(blobPath(store, next.version))) as AsyncIterable<Buffer>,
        next.size,
      );
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return files.length;
}
