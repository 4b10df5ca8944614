// Passwords: the rules, and hashing off the main thread. Verifying takes the same time for an unknown user as for a known
// one.
import { createCipheriv, scrypt, timingSafeEqual } from 'node:crypto';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { Problem } from '../../problem/problem.ts';
import { problems } from '../problem.ts';

/** What bcrypt reads; kept for every scheme, so that a password means the same everywhere. */
const MAX_BYTES = 72;
const MIN_CHARACTERS = 6;

export type Weakness = 'length' | 'characters' | 'pwned';

/** Refuses what no password may be, whatever its strength. */
export function checkPasswordForm(password: string): void {
  if (password === '') throw problems.validationFailed('Signup requires a valid password');
  if (Buffer.byteLength(password) > MAX_BYTES) {
    throw problems.validationFailed(`Password cannot be longer than ${MAX_BYTES} characters`);
  }
  // A C library would stop reading here, and ignore what follows.
  if (password.includes('\0')) throw problems.validationFailed('Password must not contain a NUL character');
}

export function weaknesses(password: string): Weakness[] {
  // Code points, not bytes: three accented letters are not six characters.
  return Array.from(password).length < MIN_CHARACTERS ? ['length'] : [];
}

export const WEAK_MESSAGE = `Password should be at least ${MIN_CHARACTERS} characters.`;

/** Form and strength of a new password. */
export function checkPassword(password: string): void {
  checkPasswordForm(password);
  checkPasswordStrength(password);
}

export function checkPasswordStrength(password: string): void {
  const reasons = weaknesses(password);
  if (reasons.length > 0) throw problems.weakPassword(WEAK_MESSAGE, reasons);
}

// Native code, loaded at the first password: it costs 10 MB that a server without passwords need not hold.
const argon2 = () => import('@node-rs/argon2');
const bcrypt = () => import('@node-rs/bcrypt');

const NATIVE_SUFFIXES = ['', '-gnu', '-musl', '-msvc', '-gnueabihf'];

/**
 * Refuses to start where no password could be hashed: npm installs the native part of each library as an optional
 * package. Only looked for, not loaded.
 */
export function checkPasswordHashing(
  resolve: (name: string) => string = createRequire(import.meta.url).resolve,
): void {
  const platform = `${process.platform}-${process.arch}`;
  for (const library of ['@node-rs/argon2', '@node-rs/bcrypt']) {
    const isThere = NATIVE_SUFFIXES.some((suffix) => {
      try {
        return resolve(`${library}-${platform}${suffix}`) !== '';
      } catch {
        return false;
      }
    });
    if (isThere) continue;
    throw new Problem(
      'native_module_missing',
      500,
      `Passwords cannot be hashed: ${library} lacks its native half for ${platform}`,
      {
        hint: 'Run npm install again, on this machine and without --omit=optional.',
      },
    );
  }
}

const ARGON2ID = 2;
/** Memory in KiB, and passes over it. */
export type HashingCost = { readonly memoryCost: number; readonly timeCost: number };
const COST: HashingCost = { memoryCost: 19_456, timeCost: 2 };
/** Beyond this many waiting requests, the next one gets a 503. */
const MAX_WAITING = 200;

export class PasswordHasher {
  readonly #cost: HashingCost;
  readonly #width: number;
  readonly #waiting: Array<() => void> = [];
  #running = 0;
  #dummy: Promise<string> | undefined;

  /** Hashing uses the thread pool that DNS and files use too: one at a time per core, at most 3. */
  constructor(cost: HashingCost = COST, width: number = Math.max(1, Math.min(3, availableParallelism()))) {
    this.#cost = cost;
    this.#width = width;
  }

  async hash(password: string): Promise<string> {
    const options = { algorithm: ARGON2ID, parallelism: 1, ...this.#cost };
    return await this.#run(async () => (await argon2()).hash(password, options));
  }

  /** False for a wrong password and for no hash at all, after the same amount of work. */
  async verify(password: string, hash: string | null | undefined): Promise<boolean> {
    // Longer than any stored password: surely wrong, but it must take the same time.
    const tooLong = Buffer.byteLength(password) > MAX_BYTES || password.includes('\0');
    if (!hash || tooLong) {
      this.#dummy ??= this.hash('no user has this password');
      const dummy = await this.#dummy;
      await this.#run(async () => (await argon2()).verify(dummy, tooLong ? '' : password));
      return false;
    }
    return await this.#run(() => verifyHash(password, hash));
  }

  /** False for a hash of another kind or cost, which is replaced at the next sign-in. */
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
      // The slot goes straight to the next in line, so that no newcomer takes it.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running -= 1;
    }
  }
}

async function verifyHash(password: string, hash: string): Promise<boolean> {
  try {
    if (/^\$2[aby]\$/.test(hash)) return await (await bcrypt()).verify(password, hash);
    if (/^\$argon2(?:i|id)\$/.test(hash)) return await (await argon2()).verify(hash, password);
    if (hash.startsWith('$fbscrypt$')) return await verifyFirebaseScrypt(password, hash);
  } catch {
    // An unreadable hash matches no password.
  }
  return false;
}

/** Limits on imported hashes: verifying one must not cost more than a sign-in may. */
const MAX_BCRYPT_COST = 14;
const MAX_MEMORY_KIB = 256 * 1024;

/** Throws unless it is a hash that can be verified at an acceptable cost. */
export function checkImportedHash(hash: string): void {
  const bcrypt = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/.exec(hash);
  if (bcrypt) {
    const cost = Number(bcrypt[1]);
    if (cost < 4 || cost > MAX_BCRYPT_COST)
      throw problems.validationFailed(`bcrypt cost must be between 4 and ${MAX_BCRYPT_COST}`);
    return;
  }
  const argon2 =
    /^\$argon2(?:i|id)\$v=19\$m=(\d{1,8}),t=(\d{1,3}),p=(\d{1,3})\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+$/.exec(
      hash,
    );
  if (argon2) {
    const [, memory, time, parallelism] = argon2.map(Number);
    const inBounds = within(memory, 8, MAX_MEMORY_KIB) && within(time, 1, 20) && within(parallelism, 1, 16);
    if (!inBounds) throw problems.validationFailed('argon2 parameters are out of bounds');
    return;
  }
  const firebase = parseFirebaseScrypt(hash);
  if (firebase) return;
  throw problems.validationFailed('password_hash must be a bcrypt, argon2i, argon2id or fbscrypt hash');
}

type FirebaseScrypt = {
  readonly n: number;
  readonly r: number;
  readonly p: number;
  readonly salt: Buffer;
  readonly signerKey: Buffer;
  readonly expected: Buffer;
};

function parseFirebaseScrypt(hash: string): FirebaseScrypt | undefined {
  const match =
    /^\$fbscrypt\$v=1,n=(\d{1,3}),r=(\d{1,3}),p=(\d{1,3})(?:,ss=([A-Za-z0-9+/]+={0,2}))?(?:,sk=([A-Za-z0-9+/]+={0,2}))?\$([A-Za-z0-9+/]+={0,2})\$([A-Za-z0-9+/]+={0,2})$/.exec(
      hash,
    );
  if (!match) return undefined;
  const [n, r, p] = [Number(match[1]), Number(match[2]), Number(match[3])];
  const isAffordable =
    within(n, 1, 17) && r >= 1 && within(p, 1, 16) && 128 * r * 2 ** n <= MAX_MEMORY_KIB * 1024;
  if (!isAffordable) throw problems.validationFailed('fbscrypt parameters are out of bounds');
  const separator = Buffer.from(match[4] ?? '', 'base64');
  return {
    n,
    r,
    p,
    salt: Buffer.concat([Buffer.from(match[6] ?? '', 'base64'), separator]),
    signerKey: Buffer.from(match[5] ?? '', 'base64'),
    expected: Buffer.from(match[7] ?? '', 'base64'),
  };
}

async function verifyFirebaseScrypt(password: string, hash: string): Promise<boolean> {
  const parsed = parseFirebaseScrypt(hash);
  if (!parsed) return false;
  const { n, r, p, salt, signerKey, expected } = parsed;
  const key = await new Promise<Buffer>((resolve, reject) => {
    const options = { N: 2 ** n, r, p, maxmem: 130 * r * 2 ** n + 1024 * 1024 };
    scrypt(password, salt, 32, options, (error, derived) => (error ? reject(error) : resolve(derived)));
  });
  const cipher = createCipheriv('aes-256-ctr', key, Buffer.alloc(16));
  const actual = Buffer.concat([cipher.update(signerKey), cipher.final()]);
  return actual.length === expected.length && timingSafeEqual(actual, expected);
}

function within(value: number | undefined, least: number, most: number): boolean {
  return value !== undefined && value >= least && value <= most;
}
