// Lets identical reads that wait for a connection share one run. It helps when many clients send the same read while
// all connections are busy, such as for a popular page. Ordinary reads cost nothing, because only waiting jobs are
// looked up (docs/decisions/0037). Only a job that has not started can be shared, so its snapshot is newer than every
// request it serves.
import type { WireStatement } from '../wire/statement.ts';
import type { Job } from './job.ts';

type Entry = { readonly job: Job; readonly until: number };

/** Number of slots, a power of two. If two different reads share a slot, only the later one can be shared. */
const SLOTS = 512;
/** Maximum age difference of shared callers. The earliest caller times out first, and the job with it. */
const MAX_AGE_MS = 1_000;

export class SingleFlight {
  /** Slots indexed by hash. Not a Map: at this rate a Map keeps deleted entries alive (docs/decisions/0034). */
  readonly #slots: Array<Entry | undefined> = Array.from({ length: SLOTS });

  /**
   * Returns true if a waiting identical job serves this one too. Otherwise other jobs can share this one until
   * `remove`. `until`: `performance.now()` at which its wait times out.
   */
  share(job: Job, until: number): boolean {
    if (!job.isRepeatable || job.attempts > 0) return false;
    const slot = hash(job.statements) & (SLOTS - 1);
    const entry = this.#slots[slot];
    if (entry?.job.isWanted && isSameQuestion(entry.job, job) && until - entry.until <= MAX_AGE_MS) {
      entry.job.adoptWaiters(job);
      return true;
    }
    job.slot = slot;
    this.#slots[slot] = { job, until };
    return false;
  }

  remove(job: Job): void {
    if (this.#slots[job.slot]?.job === job) this.#slots[job.slot] = undefined;
  }
}

/** Compares prepared statements and values. The caller's role, claims and settings are the first values. */
function isSameQuestion({ statements }: Job, second: Job): boolean {
  const { length } = statements;
  if (length !== second.statements.length) return false;
  for (let at = 0; at < length; at += 1) {
    if (!isSameStatement(statements[at], second.statements[at])) return false;
  }
  return true;
}

function isSameStatement(left: WireStatement | undefined, right: WireStatement | undefined): boolean {
  if (left?.name === undefined || left.name !== right?.name) return false;
  // Equal names imply equal texts, and so equal numbers of values.
  const { values } = right;
  return left.values.every((value, at) => value === values[at]);
}

/** Characters of a value that count. */
const MAX_HASHED = 400;

/** FNV-1a over names and values, 32 bits. */
function hash(statements: readonly WireStatement[]): number {
  let hash = 0x811c9dc5;
  const add = (text: string): void => {
    const end = Math.min(text.length, MAX_HASHED);
    for (let at = 0; at < end; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  };
  for (const { name, values } of statements) {
    if (name !== undefined) add(name);
    for (const value of values) if (typeof value === 'string') add(value);
  }
  return hash >>> 0;
}
