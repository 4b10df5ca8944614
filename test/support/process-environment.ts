// Reads what Linux shows other processes of the same user about a process and its descendants.
import { readdirSync, readFileSync } from 'node:fs';

export type ShownProcess = { readonly pid: number; readonly command: string; readonly environment: string };

/** The process and all its descendants. */
export function processesBelow(root: number): ShownProcess[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    const status = /^\d+$/.test(name) ? readOrNothing(`/proc/${name}/status`) : '';
    const parent = /^PPid:\s*(\d+)/m.exec(status)?.[1];
    if (parent !== undefined) parents.set(Number(name), Number(parent));
  }
  const found = new Set([root]);
  // Repeats until nothing is added: process ids are in no particular order.
  for (let size = 0; size !== found.size;) {
    size = found.size;
    for (const [pid, parent] of parents) if (found.has(parent)) found.add(pid);
  }
  return [...found].map((pid) => ({
    pid,
    command: readOrNothing(`/proc/${pid}/cmdline`).replaceAll('\0', ' '),
    environment: readOrNothing(`/proc/${pid}/environ`),
  }));
}

function readOrNothing(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    // It has exited, or is another user's.
    return '';
  }
}
