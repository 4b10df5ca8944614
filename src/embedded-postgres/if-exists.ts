import { hasCode } from '../lib/error-code.ts';

/** The result of a file operation; undefined if the file does not exist. */
export async function ifExists<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}
