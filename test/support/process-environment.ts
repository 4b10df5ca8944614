// What Linux shows of a process and of those it started to every process of the same user.
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
  // Children follow their parents, whatever their numbers.
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
    // It ended meanwhile, or is another user's.
    return '';
  }
}
