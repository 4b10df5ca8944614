// Reads CPU time and memory of processes from /proc.
import { readdirSync, readFileSync } from 'node:fs';

const TICK_MS = 10;

/** Returns the CPU milliseconds that the process has used, including its ended children. */
export function readCpuMs(pid: number): number {
  const fields = statFields(pid);
  if (!fields) return 0;
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15).map(Number);
  return (user + system + childUser + childSystem) * TICK_MS;
}

/** Returns the CPU milliseconds of a server with all its backends. */
export function readFamilyCpuMs(pid: number): number {
  let total = readCpuMs(pid);
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const fields = statFields(Number(entry));
    if (fields && Number(fields[1]) === pid) total += readCpuMs(Number(entry));
  }
  return total;
}

export function readParentPid(pid: number): number {
  return Number(statFields(pid)?.[1] ?? 0);
}

/** Resident memory in MB, and the part that the process does not share with others (proportional set size). */
export function readMemory(pid: number): { readonly rssMb: number; readonly pssMb: number } {
  const text = readText(`/proc/${pid}/smaps_rollup`);
  const read = (field: string): number =>
    Number(new RegExp(String.raw`^${field}:\s+(\d+) kB`, 'm').exec(text)?.[1] ?? 0) / 1024;
  return { rssMb: read('Rss'), pssMb: read('Pss') };
}

/** Returns the fields after the command name, which may contain spaces and parentheses. */
function statFields(pid: number): string[] | undefined {
  const text = readText(`/proc/${pid}/stat`);
  return text === '' ? undefined : text.slice(text.lastIndexOf(')') + 2).split(' ');
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // The process has ended.
    return '';
  }
}
