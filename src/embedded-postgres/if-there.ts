import { hasCode } from '../lib/error-code.ts';

/** What was read of a file; undefined when the file is not there. */
export async function ifThere<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}
