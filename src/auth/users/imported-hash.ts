// Verifies stored password hashes, and decides which hashes may be imported.
import { createCipheriv, scrypt, timingSafeEqual } from 'node:crypto';
import { Problem } from '../../problem/problem.ts';
import { problems } from '../problem.ts';
import { argon2, hasNativePart, type Resolve } from './argon2.ts';

const bcrypt = () => import('@node-rs/bcrypt');

/** Returns whether bcrypt is installed. Only imported hashes use it, so a server starts without it. */
export const hasBcrypt = (resolve?: Resolve): boolean => hasNativePart('@node-rs/bcrypt', resolve);

export async function verifyHash(password: string, hash: string, canBcrypt = hasBcrypt): Promise<boolean> {
  const isBcrypt = /^\$2[aby]\$/.test(hash);
  if (isBcrypt && !canBcrypt()) throw bcryptMissing();
  try {
    if (isBcrypt) return await (await bcrypt()).verify(password, hash);
    if (/^\$argon2(?:i|id)\$/.test(hash)) return await (await argon2()).verify(hash, password);
    if (hash.startsWith('$fbscrypt$')) return await verifyFirebaseScrypt(password, hash);
  } catch {
    // An unreadable hash matches no password.
  }
  return false;
}

/**
 * Differs from a wrong password: otherwise users with such a hash could not sign in, and the reason would
 * be hidden.
 */
const bcryptMissing = (): Problem =>
  new Problem(
    'native_module_missing',
    500,
    `This password cannot be verified: @node-rs/bcrypt lacks its native module for ${process.platform}-${process.arch}`,
    { hint: 'Run npm install again, on this machine and without --omit=optional.' },
  );

/** Limits on imported hashes: verifying one must not cost more than a sign-in may. */
const MAX_BCRYPT_COST = 14;
const MAX_MEMORY_KIB = 256 * 1024;

/** Throws unless the hash can be verified at an acceptable cost. */
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
  if (parseFirebaseScrypt(hash)) return;
  throw problems.validationFailed('password_hash must be a bcrypt, argon2i, argon2id or fbscrypt hash');
}

function parseFirebaseScrypt(hash: string) {
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

function within(value: number | undefined, min: number, max: number): boolean {
  return value !== undefined && value >= min && value <= max;
}
