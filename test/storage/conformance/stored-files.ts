import { readdir } from 'node:fs/promises';
import { MARK_FILE } from '../../../src/storage/backend/store-mark.ts';

/** Returns the names of all blobs in a local store, including staged ones. */
export async function storedFiles(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile() && entry.name !== MARK_FILE).map((entry) => entry.name);
}
