// Password rules, and hashing off the main thread. Verifying takes the same time for an unknown user as for a
// known one.
import { availableParallelism } from 'node:os';
import { Problem } from '../../problem/problem.ts';
import { problems } from '../problem.ts';
import { argon2, hasArgon2 } from './argon2.ts';
import { verifyHash } from './imported-hash.ts';

/** The limit of bcrypt, applied to every scheme so that a password means the same everywhere. */
const MAX_BYTES = 72;
const MIN_CHARACTERS = 6;

export type Weakness = 'length' | 'characters' | 'pwned';

/** Rejects passwords that are invalid whatever their strength. */
export function checkPasswordForm(password: string): void {
  if (password === '') throw problems.validationFailed('Signup requires a valid password');
  if (Buffer.byteLength(password) > MAX_BYTES) {
    throw problems.validationFailed(`Password cannot be longer than ${MAX_BYTES} characters`);
  }
  // A C library would stop reading here and ignore the rest.
  if (password.includes('\0')) throw problems.validationFailed('Password must not contain a NUL character');
}

export function weaknesses(password: string): Weakness[] {
  // Code points, not bytes: three accented letters are not six characters.
  return Array.from(password).length < MIN_CHARACTERS ? ['length'] : [];
}

export const WEAK_MESSAGE = `Password should be at least ${MIN_CHARACTERS} characters.`;

/** Checks form and strength of a new password. */
export function checkPassword(password: string): void {
  checkPasswordForm(password);
  checkPasswordStrength(password);
}

export function checkPasswordStrength(password: string): void {
  const reasons = weaknesses(password);
  if (reasons.length > 0) throw problems.weakPassword(WEAK_MESSAGE, reasons);
}

/** Throws if this installation cannot hash passwords. */
export function checkPasswordHashing(isThere: boolean = hasArgon2()): void {
  if (isThere) return;
  throw new Problem(
    'native_module_missing',
    500,
    `Passwords cannot be hashed: @node-rs/argon2 lacks its native module for ${process.platform}-${process.arch}`,
    {
      hint: 'Run npm install again, on this machine and without --omit=optional, or use Node 24.7 or newer.',
    },
  );
}

/** Memory in KiB, and number of passes over it. */
export type HashingCost = { readonly memoryCost: number; readonly timeCost: number };
const COST: HashingCost = { memoryCost: 19_456, timeCost: 2 };
/** Maximum number of queued requests. The next request gets a 503. */
const MAX_WAITING = 200;

export class PasswordHasher {
  readonly #cost: HashingCost;
  readonly #width: number;
  readonly #waiting: Array<() => void> = [];
  #running = 0;
  #dummy: Promise<string> | undefined;

  /** `width`: parallel hashes, one per core and at most 3, because DNS and files use the same thread pool. */
  constructor(cost: HashingCost = COST, width: number = Math.max(1, Math.min(3, availableParallelism()))) {
    this.#cost = cost;
    this.#width = width;
  }

  async hash(password: string): Promise<string> {
    const options = { parallelism: 1, ...this.#cost };
    return await this.#run(async () => (await argon2()).hash(password, options));
  }

  /** Returns false for a wrong password and for a missing hash, after the same amount of work. */
  async verify(password: string, hash: string | null | undefined): Promise<boolean> {
    // Longer than any stored password, so certainly wrong, but the check must take the same time.
    const tooLong = Buffer.byteLength(password) > MAX_BYTES || password.includes('\0');
    if (!hash || tooLong) {
      this.#dummy ??= this.hash('no user has this password');
      const dummy = await this.#dummy;
      await this.#run(async () => (await argon2()).verify(dummy, tooLong ? '' : password));
      return false;
    }
    return await this.#run(() => verifyHash(password, hash));
  }

  /** Returns false for a hash of another kind or cost, which is replaced at the next sign-in. */
  isCurrent(hash: string): boolean {
    const { memoryCost, timeCost } = this.#cost;
    return hash.startsWith(`$argon2id$v=19$m=${memoryCost},t=${timeCost},p=1$`);
  }

  async #run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#width) {
      if (this.#waiting.length >= MAX_WAITING) throw problems.hashingBusy();
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#running += 1;
    try {
      return await work();
    } finally {
      // The slot passes directly to the next in the queue, so that no newcomer takes it.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running -= 1;
    }
  }
}
