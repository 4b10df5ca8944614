// Passwords as PostgreSQL stores them. It is given the verifier and never the password: statements are logged.
import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from 'node:crypto';

/** PostgreSQL's own default; the passwords behind ours are random, so more would protect nothing. */
const ITERATIONS = 4096;

/** A SCRAM-SHA-256 verifier (RFC 5803) of an ASCII password, which SASLprep leaves as it is. */
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

/** Whether this is the password behind what `pg_authid.rolpassword` holds; only SCRAM is recognised. */
export function isPasswordOf(verifier: string | null, password: string): boolean {
  const [, iterations, salt] = /^SCRAM-SHA-256\$(\d+):([^$]+)\$/.exec(verifier ?? '') ?? [];
  if (verifier === null || iterations === undefined || salt === undefined) return false;
  const own = Buffer.from(scramVerifier(password, Buffer.from(salt, 'base64'), Number(iterations)));
  const stored = Buffer.from(verifier);
  return own.length === stored.length && timingSafeEqual(own, stored);
}
