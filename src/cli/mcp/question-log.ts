// Logs the statements of an assistant to `.svc/mcp.log`, one line each, with the number of rows. Statements contain
// values, so only the owner of the project can read the file.
import { appendFile, mkdir, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ifExists } from '../../lib/error-code.ts';

export type Question = {
  readonly sql: string;
  /** Caller of the statement, if it is not the owner. */
  readonly as: string | undefined;
  /** Number of rows. Undefined if the statement failed. */
  readonly rows?: number;
  /** Error of a failed statement. */
  readonly error?: string;
};

/** Maximum size. A full log is renamed, and one renamed log is kept. */
const MAX_BYTES = 1024 * 1024;

/** Writes a line. A failure is only reported, so that it does not fail the statement. */
export async function logQuestion(directory: string, question: Question): Promise<void> {
  const folder = join(directory, '.svc');
  const file = join(folder, 'mcp.log');
  const line = JSON.stringify({ time: new Date().toISOString(), ...question });
  try {
    await mkdir(folder, { recursive: true });
    const size = (await ifExists(stat(file)))?.size ?? 0;
    // Another call may have renamed the log in between.
    if (size > MAX_BYTES) await ifExists(rename(file, `${file}.1`));
    await appendFile(file, `${line}\n`, { mode: 0o600 });
  } catch (error) {
    process.stderr.write(`svc mcp: mcp.log could not be written: ${String(error)}\n`);
  }
}
