// The two API keys: opaque strings, not tokens. `svc_publishable_…` may be in a browser, `svc_secret_…` never.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { Problem } from '../problem/problem.ts';

const PUBLISHABLE_PREFIX = 'svc_publishable_';
const SECRET_PREFIX = 'svc_secret_';

/** Characters after the prefix; fewer can be guessed. */
const SHORTEST_KEY = 20;

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

/** The problems of a key pair that came from outside; the keys themselves are never repeated. */
export function checkApiKeys(keys: ApiKeys): Problem[] {
  const { publishable, secret } = keys;
  const faults = [
    faultOf('SVC_PUBLISHABLE_KEY', publishable, PUBLISHABLE_PREFIX),
    faultOf('SVC_SECRET_KEY', secret, SECRET_PREFIX),
  ].filter((fault) => fault !== undefined);
  if (
    faults.length === 0 &&
    publishable.slice(PUBLISHABLE_PREFIX.length) === secret.slice(SECRET_PREFIX.length)
  )
    faults.push(
      'SVC_SECRET_KEY is SVC_PUBLISHABLE_KEY with another prefix: whoever reads one knows the other',
    );
  const hint = 'Run `svc keys` to make a valid pair.';
  return faults.map((fault) => new Problem('bad_api_key', 500, fault, { hint }));
}

function faultOf(variable: string, key: string, prefix: string): string | undefined {
  if (!key.startsWith(prefix)) return `${variable} must start with ${prefix}`;
  if (!/^[\x21-\x7e]+$/.test(key)) return `${variable} contains characters no header can carry`;
  if (key.length - prefix.length >= SHORTEST_KEY) return undefined;
  return `${variable} is too short: ${SHORTEST_KEY} characters after the prefix are the least`;
}

export type KeyMatch = 'publishable' | 'secret' | 'unknown';

/**
 * Compares SHA-256 digests in constant time: neither a common prefix nor the length shows. A key that has matched
 * is found by its text from then on; only values that are a key are remembered, so there are two at most.
 */
export function keyMatcher(keys: ApiKeys): (candidate: string) => KeyMatch {
  const publishable = digestOf(keys.publishable);
  const secret = digestOf(keys.secret);
  const matched = new Map<string, KeyMatch>();
  return (candidate) => {
    const known = matched.get(candidate);
    if (known !== undefined) return known;
    const presented = digestOf(candidate);
    const isPublishable = timingSafeEqual(presented, publishable);
    const isSecret = timingSafeEqual(presented, secret);
    const match = isSecret ? 'secret' : isPublishable ? 'publishable' : 'unknown';
    if (match !== 'unknown') matched.set(candidate, match);
    return match;
  };
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** True for anything that claims to be one of our keys: such a value is never read as a token. */
export function looksLikeKey(value: string): boolean {
  return value.startsWith(PUBLISHABLE_PREFIX) || value.startsWith(SECRET_PREFIX);
}
