// Temporary files of a test run. They are kept in memory if there is enough of it: PostgreSQL creates thousands of
// files for the databases of the tests, and a file system in memory takes a third of the processor time of a disk.
import { mkdirSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';

const MEMORY = '/dev/shm';
const PREFIX = 'svc-run-';
const GIBIBYTE = 1024 ** 3;
/** A run with all projects needs about half of this. */
const MIN_FREE_BYTES = 12 * GIBIBYTE;

/**
 * Sets TMPDIR for this process and those that it starts, and removes the folder when this process exits. Does
 * nothing if TMPDIR is set, or if memory is short.
 */
export function keepTemporaryFilesInMemory(): void {
  if (process.env['TMPDIR'] !== undefined || freeBytes() < MIN_FREE_BYTES) return;
  removeAbandoned();
  const folder = join(MEMORY, `${PREFIX}${process.pid}`);
  // PostgreSQL runs as another account where the tests run as root.
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  process.env['TMPDIR'] = folder;
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
}

function freeBytes(): number {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return Math.min(bavail * bsize, process.availableMemory());
  } catch {
    return 0;
  }
}

/** A run that was killed could not remove its folder. */
function removeAbandoned(): void {
  for (const name of readdirSync(MEMORY)) {
    if (!name.startsWith(PREFIX) || isRunning(Number(name.slice(PREFIX.length)))) continue;
    try {
      rmSync(join(MEMORY, name), { recursive: true, force: true });
    } catch {
      // A container of the killed run is still mounted there. It only takes memory.
    }
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
