// The format of refresh tokens: version, session id, counter, a truncated HMAC over these, and a checksum that
// distinguishes a damaged token from a foreign one. Only the session's key and last counter are stored. The current
// token is computed from them, so two tabs that refresh at the same time get the same token.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';

export type RefreshToken = {
  readonly sessionId: string;
  readonly counter: number;
  /** The bytes that the HMAC covers. */
  readonly covered: Buffer;
  readonly mac: Buffer;
};

export type RefreshTokenText =
  | { readonly kind: 'token'; readonly token: RefreshToken }
  /** The older format of the hosted service. svc never issues it, but it may be imported. */
  | { readonly kind: 'opaque'; readonly text: string }
  | { readonly kind: 'malformed' };

const VERSION = 0;
const MAC_BYTES = 16;
const CHECKSUM_BYTES = 4;
const MIN_BYTES = 1 + 16 + 1 + MAC_BYTES + CHECKSUM_BYTES;
/** A larger counter would take centuries of refreshes. */
const MAX_COUNTER_BYTES = 7;

export function makeRefreshToken(sessionId: string, counter: number, key: Buffer): string {
  const covered = Buffer.concat([
    Buffer.from([VERSION]),
    Buffer.from(sessionId.replaceAll('-', ''), 'hex'),
    toUvarint(counter),
  ]);
  const signed = Buffer.concat([covered, computeMac(covered, key)]);
  return Buffer.concat([signed, computeChecksum(signed)]).toString('base64url');
}

export function parseRefreshToken(text: string): RefreshTokenText {
  if (text.length < 12) return { kind: 'malformed' };
  if (text.length === 12)
    return /^[a-z0-9]{12}$/.test(text) ? { kind: 'opaque', text } : { kind: 'malformed' };
  if (text.length > 128 || !/^[\w-]+$/.test(text)) return { kind: 'malformed' };
  const bytes = Buffer.from(text, 'base64url');
  // A token has exactly one spelling, so set trailing bits are rejected.
  if (bytes.length < MIN_BYTES || bytes.toString('base64url') !== text) return { kind: 'malformed' };
  const signed = bytes.subarray(0, -CHECKSUM_BYTES);
  if (!computeChecksum(signed).equals(bytes.subarray(-CHECKSUM_BYTES))) return { kind: 'malformed' };
  const covered = signed.subarray(0, -MAC_BYTES);
  const counter = readUvarint(covered.subarray(17));
  if (covered[0] !== VERSION || counter === undefined) return { kind: 'malformed' };
  const hex = covered.subarray(1, 17).toString('hex');
  const sessionId = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  return { kind: 'token', token: { sessionId, counter, covered, mac: signed.subarray(-MAC_BYTES) } };
}

export function isSignedBy(token: RefreshToken, key: Buffer): boolean {
  return timingSafeEqual(computeMac(token.covered, key), token.mac);
}

export type RefreshPolicy = {
  /** How long after a refresh an older token is still answered with the current token. */
  readonly reuseIntervalMs: number;
};

export type RefreshVerdict =
  /** The current token: issue a new one. */
  | 'rotate'
  /** The client lost the last response, or is a second tab: send the current token again. */
  | 'repeat'
  /** A token from just before a second factor was verified: reject it, but keep the session. */
  | 'below-floor'
  /** A token that was used long ago, so it may be stolen: end the session. */
  | 'reuse'
  /** The counter was never issued. */
  | 'foreign';

/** Returns the verdict on a token. docs/auth-states.md has the decision table, section "Refresh token". */
export function judgeRefresh(
  tokenCounter: number,
  stored: { readonly counter: number; readonly floor: number },
  sinceLastRefreshMs: number,
  policy: RefreshPolicy,
): RefreshVerdict {
  const behind = stored.counter - tokenCounter;
  const isRecent = sinceLastRefreshMs <= policy.reuseIntervalMs;
  if (behind < 0) return 'foreign';
  if (tokenCounter < stored.floor) return isRecent ? 'below-floor' : 'reuse';
  if (behind === 0) return 'rotate';
  return behind === 1 || isRecent ? 'repeat' : 'reuse';
}

function computeMac(covered: Buffer, key: Buffer): Buffer {
  return createHmac('sha256', key).update(covered).digest().subarray(0, MAC_BYTES);
}

function computeChecksum(signed: Buffer): Buffer {
  return createHash('sha256').update(signed).digest().subarray(0, CHECKSUM_BYTES);
}

function toUvarint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}

/** Returns the number if the bytes are exactly one uvarint in its shortest form. */
function readUvarint(bytes: Buffer): number | undefined {
  if (bytes.length === 0 || bytes.length > MAX_COUNTER_BYTES) return undefined;
  let value = 0;
  let scale = 1;
  for (const [index, byte] of bytes.entries()) {
    const isLast = index === bytes.length - 1;
    if (byte < 0x80 !== isLast) return undefined;
    value += (byte & 0x7f) * scale;
    scale *= 0x80;
  }
  return bytes.length > 1 && bytes.at(-1) === 0 ? undefined : value;
}
