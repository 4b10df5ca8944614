// CPU time and memory of processes, from /proc.
import { readdirSync, readFileSync } from 'node:fs';

const TICK_MS = 10;

/** CPU milliseconds the process has used so far, its ended children included. */
export function cpuOf(pid: number): number {
  const fields = statFields(pid);
  if (!fields) return 0;
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15).map(Number);
  return (user + system + childUser + childSystem) * TICK_MS;
}

/** The server with all its backends. */
export function cpuOfFamily(pid: number): number {
  let total = cpuOf(pid);
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const fields = statFields(Number(entry));
    if (fields && Number(fields[1]) === pid) total += cpuOf(Number(entry));
  }
  return total;
}

export function parentOf(pid: number): number {
  return Number(statFields(pid)?.[1] ?? 0);
}

/** Resident memory now, in MB. */
export function memoryOf(pid: number): number {
  const match = /VmRSS:\s+(\d+) kB/.exec(readText(`/proc/${pid}/status`));
  return Number(match?.[1] ?? 0) / 1024;
}

/** Fields behind the command's name, which may itself hold blanks and parentheses. */
function statFields(pid: number): string[] | undefined {
  const text = readText(`/proc/${pid}/stat`);
  return text === '' ? undefined : text.slice(text.lastIndexOf(')') + 2).split(' ');
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // The process ended meanwhile.
    return '';
  }
}
