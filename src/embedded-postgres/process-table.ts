// Which process a process id is. Ids are reused, so only an id and a start time together tell whether the process that
// wrote a file still runs. Linux answers from /proc, macOS from ps; elsewhere the id has to do.
import { execFile } from 'node:child_process';
import { readdir, readFile, stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { hasCode } from '../lib/error-code.ts';

/** Is the id in use, if only by a process that has ended and was not reaped? */
export function isTaken(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // It exists and is somebody else's.
    return hasCode(error, 'EPERM');
  }
}

/** True while the process runs; a process that ended and waits to be reaped does not run. */
export async function isAlive(pid: number): Promise<boolean> {
  if (!isTaken(pid)) return false;
  if (process.platform !== 'linux') return true;
  // In a container without an init process nobody reaps orphans; signal 0 reaches them for ever.
  const state = (await linuxStat(pid))?.[0];
  return state !== undefined && state !== 'Z' && state !== 'X';
}

/** A text that differs between two processes with the same id; empty where the system does not tell. */
export async function startOf(pid: number): Promise<string> {
  if (process.platform === 'linux') {
    const ticks = (await linuxStat(pid))?.[19];
    if (ticks === undefined) return '';
    // Ticks count from boot.
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
    return `${boot.trim()}:${ticks}`;
  }
  if (process.platform === 'darwin') return (await ps(pid, 'lstart=')).trim();
  return '';
}

/** Is this a PostgreSQL process at work in this data directory? `undefined`: the system does not tell. */
export async function worksIn(pid: number, dataDirectory: string): Promise<boolean | undefined> {
  if (process.platform === 'linux') {
    // Every process of a cluster works in its data directory. Inodes, unlike paths, stay the same when the project is
    // moved, and tell a copied project (with a copied postmaster.pid) from the original.
    try {
      const [works, directory] = await Promise.all([stat(`/proc/${pid}/cwd`), stat(dataDirectory)]);
      const name = await readFile(`/proc/${pid}/comm`, 'utf8');
      return works.ino === directory.ino && works.dev === directory.dev && name.trim() === 'postgres';
    } catch {
      // Gone, or somebody else's: not the process we look for.
      return false;
    }
  }
  if (process.platform === 'darwin') return (await ps(pid, 'comm=')).trim().endsWith('postgres');
  return undefined;
}

/** Every PostgreSQL process at work in this data directory. Linux only; elsewhere an empty list. */
export async function processesIn(dataDirectory: string): Promise<readonly number[]> {
  if (process.platform !== 'linux') return [];
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const works = await Promise.all(
    pids.map(async (pid) => (await worksIn(pid, dataDirectory)) === true && (await isAlive(pid))),
  );
  return pids.filter((_, index) => works[index]);
}

/** The fields of /proc/pid/stat from the state on; the name before them may hold spaces and parentheses. */
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
    // ps answers 1 for a process that is gone.
    return '';
  }
}
