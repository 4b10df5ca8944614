// How long a process has not answered, without the time for which the machine gave it no processor. A busy machine must
// not make a healthy worker look hung (docs/decisions/0158).
import { readFileSync } from 'node:fs';

/** Clock ticks per second in /proc. Linux uses 100 on all architectures that Node supports. */
const TICKS_PER_SECOND = 100;

export type ProcessTimes = {
  /** Processor time of all its threads, in ms. */
  readonly cpuMs: number;
  /** The main thread waits for a processor or for a disk. */
  readonly isHeldUp: boolean;
};

/** Returns undefined on systems without /proc, and for a process that has ended. */
export function readProcessTimes(pid: number): ProcessTimes | undefined {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return undefined;
  }
}

/** Parses /proc/<pid>/stat. The name in parentheses can contain spaces. */
export function parseStat(stat: string): ProcessTimes | undefined {
  const [state = '', ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[10]) + Number(fields[11]);
  if (!Number.isFinite(ticks)) return undefined;
  return { cpuMs: (ticks * 1000) / TICKS_PER_SECOND, isHeldUp: state === 'R' || state === 'D' };
}

export class Silence {
  readonly #read: () => ProcessTimes | undefined;
  #ms = 0;
  #cpuMs = 0;

  constructor(read: () => ProcessTimes | undefined) {
    this.#read = read;
  }

  /** The process has answered. */
  reset(): void {
    this.#ms = 0;
  }

  /** Called every `ms`. Returns for how long the process could have answered and did not. */
  add(ms: number): number {
    const times = this.#read();
    const worked = times === undefined ? ms : Math.min(ms, times.cpuMs - this.#cpuMs);
    this.#cpuMs = times?.cpuMs ?? 0;
    this.#ms += times?.isHeldUp === true ? worked : ms;
    return this.#ms;
  }
}
