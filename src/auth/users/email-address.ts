// Which texts are email addresses, and the form they are stored and compared in: lower case, otherwise unchanged. Similar
// characters are not folded: two addresses that differ are two addresses.
import { AuthProblem } from '../problem.ts';

const LONGEST = 255;

// One @, no spaces, quotes or control characters, a dot-separated domain. Only a mail shows whether it can be delivered.
const ADDRESS =
  /^[a-z0-9.!#$%&'*+/=?^_`{|}~\u{80}-\u{10ffff}-]+@[a-z0-9\u{80}-\u{10ffff}](?:[a-z0-9\u{80}-\u{10ffff}-]{0,61}[a-z0-9\u{80}-\u{10ffff}])?(?:\.[a-z0-9\u{80}-\u{10ffff}](?:[a-z0-9\u{80}-\u{10ffff}-]{0,61}[a-z0-9\u{80}-\u{10ffff}])?)*$/u;

// Spaces and invisible characters beyond ASCII would make two addresses look the same.
const INVISIBLE = /[\p{C}\p{Z}]/u;

/** The stored form of an address; throws `validation_failed` with the status of the route. */
export function parseEmail(text: string | undefined, status: 400 | 422 = 400): string {
  const email = readEmail(text ?? '');
  if (email !== undefined) return email;
  throw new AuthProblem('validation_failed', status, 'Unable to validate email address: invalid format');
}

/** The stored form of an address; undefined when the text is none. */
export function readEmail(text: string): string | undefined {
  if (text.length === 0 || Buffer.byteLength(text) > LONGEST || INVISIBLE.test(text)) return undefined;
  const email = text.toLowerCase();
  const at = email.indexOf('@');
  const local = email.slice(0, at);
  if (local.startsWith('.') || local.endsWith('.') || local.includes('..') || local.length > 64)
    return undefined;
  // An encoded word (RFC 2047): mail software that decodes it would deliver to another address.
  if (local.includes('=?')) return undefined;
  return ADDRESS.test(email) ? email : undefined;
}
