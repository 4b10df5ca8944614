// Recognises email addresses and computes their canonical form: trimmed, NFC, lower case, the domain in Unicode. One
// mailbox has one canonical form. Similar characters and dots are not merged, because those are different mailboxes.
import { domainToASCII, domainToUnicode } from 'node:url';
import { AuthProblem } from '../problem.ts';

const MAX_BYTES = 255;

// One @, no spaces, quotes or control characters, a dot-separated domain. Only a mail can show whether it is
// deliverable.
const ADDRESS =
  /^[a-z0-9.!#$%&'*+/=?^_`{|}~\u{80}-\u{10ffff}-]+@[a-z0-9\u{80}-\u{10ffff}](?:[a-z0-9\u{80}-\u{10ffff}-]{0,61}[a-z0-9\u{80}-\u{10ffff}])?(?:\.[a-z0-9\u{80}-\u{10ffff}](?:[a-z0-9\u{80}-\u{10ffff}-]{0,61}[a-z0-9\u{80}-\u{10ffff}])?)*$/u;

// Spaces and invisible characters outside ASCII would make two addresses look the same.
const INVISIBLE = /[\p{C}\p{Z}]/u;

// The Kelvin sign and the dotted capital I become ASCII letters in lower case. An address with one of them would match
// the account of the address with the letter.
const BECOMES_ASCII = /[\u212a\u0130]/u;

const MARGIN = /^[ \t\r\n]+|[ \t\r\n]+$/g;

/** Returns the canonical form. Throws `validation_failed` with the status of the route. */
export function parseEmail(text: string | undefined, status: 400 | 422 = 400): string {
  const email = readEmail(text ?? '');
  if (email !== undefined) return email;
  throw new AuthProblem('validation_failed', status, 'Unable to validate email address: invalid format');
}

/** Returns the canonical form, or undefined if the text is not an address. */
export function readEmail(text: string): string | undefined {
  const trimmed = text.replaceAll(MARGIN, '');
  if (trimmed.length === 0 || Buffer.byteLength(trimmed) > MAX_BYTES) return undefined;
  if (INVISIBLE.test(trimmed) || BECOMES_ASCII.test(trimmed)) return undefined;
  const typed = trimmed.normalize('NFC').toLowerCase();
  const at = typed.indexOf('@');
  const local = typed.slice(0, at);
  if (local.startsWith('.') || local.endsWith('.') || local.includes('..') || local.length > 64)
    return undefined;
  // An encoded word (RFC 2047): mail software that decodes it would deliver to another address.
  if (local.includes('=?')) return undefined;
  if (!ADDRESS.test(typed)) return undefined;
  const email = `${local}@${canonicalDomain(typed.slice(at + 1))}`;
  return ADDRESS.test(email) && Buffer.byteLength(email) <= MAX_BYTES ? email : undefined;
}

/**
 * Returns the forms in which an account may have stored a typed address, in lookup order. Versions without a
 * canonical
 * form could create two accounts for one mailbox, so each of them is found by its own spelling.
 */
export function storedForms(text: string): readonly string[] {
  const canonical = readEmail(text);
  if (canonical === undefined) return [];
  const typed = text.replaceAll(MARGIN, '');
  return [...new Set([typed, typed.toLowerCase(), canonical])];
}

/** Returns the address for a mail provider, with the domain in ASCII. */
export function wireAddress(email: string): string {
  const at = email.lastIndexOf('@');
  const domain = email.slice(at + 1);
  return isAscii(domain) ? email : `${email.slice(0, at + 1)}${domainToASCII(domain)}`;
}

/**
 * Returns the domain in Unicode, or an empty text if the name is not valid. Keeps ASCII names without an
 * encoded label,
 * because `domainToASCII` would read numbers as IPv4.
 */
function canonicalDomain(domain: string): string {
  if (isAscii(domain) && !/(?:^|\.)xn--/.test(domain)) return domain;
  return domainToUnicode(domainToASCII(domain)).normalize('NFC').toLowerCase();
}

function isAscii(text: string): boolean {
  // oxlint-disable-next-line no-control-regex
  return /^[\u0000-\u007f]*$/.test(text);
}
