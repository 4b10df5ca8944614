// Identical reads that wait for a connection share one run. It helps when many people ask the very same while all
// connections are busy: a page that becomes popular. It costs ordinary reads nothing, because only what waits is looked
// up (docs/decisions/0037). Only a job that has not been started can be shared: its snapshot is then newer than every
// question it answers.
import type { WireStatement } from '../wire/statement.ts';
import type { Job } from './job.ts';

type Entry = { readonly job: Job; readonly until: number };

/** A power of two. Of two different questions in one slot the later one can be shared. */
const SLOTS = 512;
/** A caller that came this much earlier times out this much earlier, and would take the others with it. */
const MAX_AGE_MS = 1_000;

export class SingleFlight {
  /** By the hash of the question. Not a Map: at this rate a Map keeps deleted entries alive (docs/decisions/0034). */
  readonly #slots: Array<Entry | undefined> = Array.from({ length: SLOTS });

  /**
   * True when an identical job that waits already answers this one too; otherwise others may share this one until
   * `remove`. `until`: `performance.now()` at which its wait times out.
   */
  share(job: Job, until: number): boolean {
    if (!job.isRepeatable || job.attempts > 0) return false;
    const slot = hashOf(job.statements) & (SLOTS - 1);
    const entry = this.#slots[slot];
    if (entry?.job.isWanted && isSameQuestion(entry.job, job) && until - entry.until <= MAX_AGE_MS) {
      entry.job.takeCallersOf(job);
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

/** The same prepared statements with the same values; the caller's role, claims and settings are the first of them. */
function isSameQuestion({ statements }: Job, other: Job): boolean {
  const { length } = statements;
  if (length !== other.statements.length) return false;
  for (let at = 0; at < length; at += 1) {
    if (!isSameStatement(statements[at], other.statements[at])) return false;
  }
  return true;
}

function isSameStatement(one: WireStatement | undefined, other: WireStatement | undefined): boolean {
  if (one?.name === undefined || one.name !== other?.name) return false;
  // A name stands for one text, and so for one number of values.
  const { values } = other;
  return one.values.every((value, at) => value === values[at]);
}

/** Characters of a value that count. */
const MAX_HASHED = 400;

/** FNV-1a over names and values, 32 bits. */
function hashOf(statements: readonly WireStatement[]): number {
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
