// The two API keys. They are opaque strings, not tokens. `svc_publishable_…` may be used in a browser, `svc_secret_…`
// must not.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { Problem } from '../problem/problem.ts';

const PUBLISHABLE_PREFIX = 'svc_publishable_';
const SECRET_PREFIX = 'svc_secret_';

/** Minimum number of characters after the prefix, so that a key cannot be guessed. */
const MIN_KEY_LENGTH = 20;

export type ApiKeys = {
  readonly publishable: string;
  readonly secret: string;
};

export function generateApiKeys(): ApiKeys {
  return {
    publishable: PUBLISHABLE_PREFIX + randomBytes(24).toString('base64url'),
    secret: SECRET_PREFIX + randomBytes(32).toString('base64url'),
  };
}

/** Returns the problems of a configured key pair. Messages never contain a key. */
export function checkApiKeys(keys: ApiKeys): Problem[] {
  const { publishable, secret } = keys;
  const faults = [
    findFault('SVC_PUBLISHABLE_KEY', publishable, PUBLISHABLE_PREFIX),
    findFault('SVC_SECRET_KEY', secret, SECRET_PREFIX),
  ].filter((fault) => fault !== undefined);
  if (
    faults.length === 0 &&
    publishable.slice(PUBLISHABLE_PREFIX.length) === secret.slice(SECRET_PREFIX.length)
  )
    faults.push(
      'SVC_SECRET_KEY equals SVC_PUBLISHABLE_KEY except for the prefix: each key reveals the other',
    );
  const hint = 'Run `svc keys` to make a valid pair.';
  return faults.map((fault) => new Problem('bad_api_key', 500, fault, { hint }));
}

function findFault(variable: string, key: string, prefix: string): string | undefined {
  if (!key.startsWith(prefix)) return `${variable} must start with ${prefix}`;
  if (!/^[\x21-\x7e]+$/.test(key)) return `${variable} contains characters that are not allowed in a header`;
  if (key.length - prefix.length >= MIN_KEY_LENGTH) return undefined;
  return `${variable} is too short: at least ${MIN_KEY_LENGTH} characters must follow the prefix`;
}

export type KeyMatch = 'publishable' | 'secret' | 'unknown';

/**
 * Compares SHA-256 digests in constant time, so that the duration shows neither a common prefix nor the length. A key
 * that has matched is then looked up by its text. The cache contains only valid keys, so at most two.
 */
export function keyMatcher(keys: ApiKeys): (candidate: string) => KeyMatch {
  const publishable = sha256(keys.publishable);
  const secret = sha256(keys.secret);
  const matched = new Map<string, KeyMatch>();
  return (candidate) => {
    const known = matched.get(candidate);
    if (known !== undefined) return known;
    const presented = sha256(candidate);
    const isPublishable = timingSafeEqual(presented, publishable);
    const isSecret = timingSafeEqual(presented, secret);
    const match = isSecret ? 'secret' : isPublishable ? 'publishable' : 'unknown';
    if (match !== 'unknown') matched.set(candidate, match);
    return match;
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Returns true for a value with the prefix of a key. Such a value is never parsed as a token. */
export function looksLikeKey(value: string): boolean {
  return value.startsWith(PUBLISHABLE_PREFIX) || value.startsWith(SECRET_PREFIX);
}
