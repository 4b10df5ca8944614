// PostgreSQL's own log. The server writes straight to the file, so that its log survives a killed svc; when the file
// grows too long, we empty it under the running server.
import { open, rename, stat, truncate } from 'node:fs/promises';
import { giveTo, type Account } from './account.ts';
import { ifThere } from './if-there.ts';

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
  // Append mode: after the file is emptied, the next write goes to its new end and leaves no hole.
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

/** Empties the log whenever it is too long; the result ends that. */
export function keepShort(path: string): () => void {
  const timer = setInterval(() => void empty(path), LOOK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}

async function empty(path: string): Promise<void> {
  try {
    if ((await sizeOf(path)) > MAX_BYTES) await truncate(path);
  } catch {
    // No reason to disturb the server; the next start rotates the log.
  }
}

async function sizeOf(path: string): Promise<number> {
  return (await ifThere(stat(path)))?.size ?? 0;
}
