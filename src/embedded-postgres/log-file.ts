// PostgreSQL's log file. The server writes to it directly, so that logging survives a killed svc; when it grows too
// large, svc truncates it while the server runs.
import { open, rename, stat, truncate } from 'node:fs/promises';
import { giveTo, type Account } from './account.ts';
import { ifExists } from '../lib/error-code.ts';

const MAX_BYTES = 4 * 1024 * 1024;
const CHECK_EVERY_MS = 60_000;

export type LogFile = {
  readonly path: string;
  /** File descriptor for stdout and stderr of the child. */
  readonly fd: number;
  /** Text written since this was opened, at most the last 64 KB. */
  tail(): Promise<string>;
  close(): Promise<void>;
};

export async function openLogFile(path: string, owner: Account | undefined): Promise<LogFile> {
  if ((await readSize(path)) > MAX_BYTES) await rename(path, `${path}.1`);
  // Append mode: after a truncation, writes continue at the new end instead of leaving a hole.
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

/**
 * Truncates the log whenever it is too large; if that fails, the next start rotates it. Returns a function that stops
 * this.
 */
export function limitSize(path: string): () => void {
  const timer = setInterval(() => void truncateIfLarge(path).catch(() => {}), CHECK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}

async function truncateIfLarge(path: string): Promise<void> {
  if ((await readSize(path)) > MAX_BYTES) await truncate(path);
}

async function readSize(path: string): Promise<number> {
  return (await ifExists(stat(path)))?.size ?? 0;
}
