// PostgreSQL's own log. It writes straight to the file, so a killed svc does not take the log with it;
// the price is that we cut the file behind its back when it grows.
import { open, rename, stat, truncate } from 'node:fs/promises';
import { giveTo, type Account } from './account.ts';
import { hasCode } from '../lib/error-code.ts';

const MAX_BYTES = 4 * 1024 * 1024;
const LOOK_EVERY_MS = 60_000;

export type LogFile = {
  readonly path: string;
  /** For the child's standard output and error. */
  readonly fd: number;
  /** What was written since this was opened, at most the last 64 KB. */
  tail(): Promise<string>;
  close(): Promise<void>;
};

export async function openLogFile(path: string, owner: Account | undefined): Promise<LogFile> {
  if ((await sizeOf(path)) > MAX_BYTES) await rename(path, `${path}.1`);
  // Append: the next write after a cut goes to the new end, not behind a hole.
  const file = await open(path, 'a+', 0o600);
  await giveTo(path, owner);
  const from = (await file.stat()).size;
  return {
    path,
    fd: file.fd,
    close: () => file.close(),
    async tail() {
      const { size } = await file.stat();
      const start = Math.max(Math.min(from, size), size - 64 * 1024);
      const buffer = Buffer.alloc(size - start);
      await file.read(buffer, 0, buffer.length, start);
      return buffer.toString('utf8');
    },
  };
}

/** Empties the log whenever it has grown too long; returns how to end that. */
export function keepShort(path: string): () => void {
  const timer = setInterval(() => void cut(path), LOOK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}

export async function cut(path: string, maxBytes: number = MAX_BYTES): Promise<void> {
  try {
    if ((await sizeOf(path)) > maxBytes) await truncate(path);
  } catch {
    // A log that cannot be cut is no reason to disturb the server; the next start rotates it.
  }
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return 0;
    throw error;
  }
}
