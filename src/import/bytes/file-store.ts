// The store behind a storage server that its owner runs: a directory, or a bucket that holds all buckets. Either has
// `<bucket>/<name>/<version>`, below the name of the tenant and, in a directory, that of the store.
import { unreadable, type BytesSource, type Refusal, type WantedFile } from './bytes-source.ts';

export type FileStore = {
  /** Name for messages. */
  readonly name: string;
  /** Returns the sorted names of the subfolders, or an empty list for a missing folder. `''` is the root. */
  folders(path: string): Promise<readonly string[]>;
  open(path: string, start: number): Promise<AsyncIterable<Uint8Array> | Refusal>;
  close(): void;
};

export function fileStore(store: FileStore): BytesSource {
  const homes = new Map<string, Promise<string>>();
  return {
    async open({ bucket, name, version }, start) {
      let home = homes.get(bucket);
      if (home === undefined) homes.set(bucket, (home = findHome(bucket, store)));
      return await store.open(filePath(await home, { bucket, name, version }), start);
    },
    close: () => store.close(),
  };
}

function filePath(home: string, { bucket, name, version }: WantedFile): string {
  return [home, bucket, name, version ?? ''].filter((part) => part !== '').join('/');
}

const MAX_DEPTH = 2;

/** Returns the path of the folder that contains the bucket's folder: the root, or a tenant's folder. */
async function findHome(bucket: string, store: FileStore): Promise<string> {
  const found: string[] = [];
  let level: readonly string[] = [''];
  for (let depth = 0; depth <= MAX_DEPTH && found.length === 0; depth += 1) {
    const next: string[] = [];
    for (const path of level) {
      const folders = await store.folders(path);
      if (folders.includes(bucket)) found.push(path);
      next.push(...folders.map((folder) => (path === '' ? folder : `${path}/${folder}`)));
    }
    level = next;
  }
  const [home, ...others] = found;
  if (home !== undefined && others.length === 0) return home;
  if (home === undefined)
    throw unreadable(
      `There is no folder of the bucket ${bucket} in ${store.name}`,
      '--files names the folder in which each bucket has one: <directory>/<bucket>/<name>/<version>.',
    );
  throw unreadable(
    `Several folders of ${store.name} have the bucket ${bucket}: ${found.join(', ')}`,
    'Name the one of this project with --files.',
  );
}
