// Computes password verifiers for PostgreSQL. The server never receives the password, because statements may be logged.
import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from 'node:crypto';

/** Default of PostgreSQL. The passwords are random, so more iterations would not increase security. */
const ITERATIONS = 4096;

/** Returns a SCRAM-SHA-256 verifier (RFC 5803) of an ASCII password, which SASLprep does not change. */
export function scramVerifier(
  password: string,
  salt: Buffer = randomBytes(16),
  iterations = ITERATIONS,
): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, 'sha256');
  const clientKey = createHmac('sha256', salted).update('Client Key').digest();
  const storedKey = createHash('sha256').update(clientKey).digest('base64');
  const serverKey = createHmac('sha256', salted).update('Server Key').digest('base64');
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`;
}

/** Returns true if the password matches the SCRAM verifier. */
export function matchesVerifier(verifier: string | null, password: string): boolean {
  const [, iterations, salt] = /^SCRAM-SHA-256\$(\d+):([^$]+)\$/.exec(verifier ?? '') ?? [];
  if (verifier === null || iterations === undefined || salt === undefined) return false;
  const own = Buffer.from(scramVerifier(password, Buffer.from(salt, 'base64'), Number(iterations)));
  const stored = Buffer.from(verifier);
  return own.length === stored.length && timingSafeEqual(own, stored);
}
