// A directory as a store of files.
import { createReadStream } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode, ifExists } from '../../lib/error-code.ts';
import { GONE, unreadable } from './bytes-source.ts';
import type { FileStore } from './file-store.ts';

export function directoryStore(root: string): FileStore {
  return {
    name: root,
    async folders(path) {
      const entries = await ifExists(readdir(join(root, path), { withFileTypes: true })).catch(refuse);
      return (entries ?? []).filter((entry) => entry.isDirectory()).map((entry) => entry.name);
    },
    async open(path, start) {
      const handle = await open(join(root, path)).catch((error: unknown) =>
        isGone(error) ? undefined : refuse(error),
      );
      if (handle === undefined) return GONE;
      if ((await handle.stat()).isFile()) return createReadStream('', { fd: handle, start });
      await handle.close();
      return GONE;
    },
    close() {},
  };

  function refuse(error: unknown): never {
    const code = errorCode(error);
    if (code === undefined) throw error;
    throw unreadable(
      `${root} cannot be read: ${code}`,
      'Run the command as a user who can read these files.',
    );
  }
}

const isGone = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '');
