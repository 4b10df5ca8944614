// Identifies processes. Ids are reused, so a process is identified by id and start time. On Linux from /proc, on macOS
// from ps; elsewhere only the id is available.
import { execFile } from 'node:child_process';
import { readdir, readFile, stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { hasCode } from '../lib/error-code.ts';

/** Is the id in use, possibly by a zombie? */
export function pidExists(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // It exists, but belongs to another user.
    return hasCode(error, 'EPERM');
  }
}

/** True while the process runs; false for a zombie. */
export async function isAlive(pid: number): Promise<boolean> {
  if (!pidExists(pid)) return false;
  if (process.platform !== 'linux') return true;
  // A container without an init process keeps zombies, for which signal 0 always succeeds.
  const state = (await linuxStat(pid))?.[0];
  return state !== undefined && state !== 'Z' && state !== 'X';
}

/** An opaque start time that distinguishes processes with the same id; empty where unavailable. */
export async function readStartTime(pid: number): Promise<string> {
  if (process.platform === 'linux') {
    const ticks = (await linuxStat(pid))?.[19];
    if (ticks === undefined) return '';
    // Ticks are relative to boot.
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
    return `${boot.trim()}:${ticks}`;
  }
  if (process.platform === 'darwin') return (await ps(pid, 'lstart=')).trim();
  return '';
}

/**
 * Checks whether the process is PostgreSQL on this data directory. Returns `undefined` if the system cannot answer.
 */
export async function isPostgresIn(pid: number, dataDirectory: string): Promise<boolean | undefined> {
  if (process.platform === 'linux') {
    // The working directory of every server process is the data directory. Inodes, unlike paths, survive a move of the
    // project, and distinguish a copied project (with a copied postmaster.pid) from the original.
    try {
      const [cwd, directory] = await Promise.all([stat(`/proc/${pid}/cwd`), stat(dataDirectory)]);
      const name = await readFile(`/proc/${pid}/comm`, 'utf8');
      return cwd.ino === directory.ino && cwd.dev === directory.dev && name.trim() === 'postgres';
    } catch {
      // Exited, or another user's: not our server.
      return false;
    }
  }
  if (process.platform === 'darwin') return (await ps(pid, 'comm=')).trim().endsWith('postgres');
  return undefined;
}

/** All PostgreSQL processes of this data directory. Linux only; elsewhere empty. */
export async function processesIn(dataDirectory: string): Promise<readonly number[]> {
  if (process.platform !== 'linux') return [];
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const matches = await Promise.all(
    pids.map(async (pid) => (await isPostgresIn(pid, dataDirectory)) === true && (await isAlive(pid))),
  );
  return pids.filter((_, index) => matches[index]);
}

/** The fields of /proc/pid/stat from the state on; the name before them may contain spaces and parentheses. */
async function linuxStat(pid: number): Promise<readonly string[] | undefined> {
  try {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

async function ps(pid: number, column: string): Promise<string> {
  try {
    return (await promisify(execFile)('/bin/ps', ['-o', column, '-p', String(pid)])).stdout;
  } catch {
    // ps exits with 1 if the process does not exist.
    return '';
  }
}
