// Which rows an assistant asked for: a line for each statement in `.svc/mcp.log`, with how many rows it got. Statements have
// values in them, so the file is for the owner of the project alone.
import { appendFile, mkdir, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ifExists } from '../../lib/error-code.ts';

export type Question = {
  readonly sql: string;
  /** As whom, where it was as somebody. */
  readonly as: string | undefined;
  /** That came back; undefined where it failed. */
  readonly rows?: number;
  /** Why it failed. */
  readonly error?: string;
};

/** One file of this size is kept beside the one that is written. */
const MOST_BYTES = 1024 * 1024;

/** Where the folder cannot be written, nothing is kept: that is no reason to answer nothing. */
export async function logQuestion(directory: string, question: Question): Promise<void> {
  const folder = join(directory, '.svc');
  const file = join(folder, 'mcp.log');
  const line = JSON.stringify({ time: new Date().toISOString(), ...question });
  try {
    await mkdir(folder, { recursive: true });
    const size = (await ifExists(stat(file)))?.size ?? 0;
    // Another call may have done it meanwhile.
    if (size > MOST_BYTES) await ifExists(rename(file, `${file}.1`));
    await appendFile(file, `${line}\n`, { mode: 0o600 });
  } catch (error) {
    process.stderr.write(`svc mcp: mcp.log could not be written: ${String(error)}\n`);
  }
}
