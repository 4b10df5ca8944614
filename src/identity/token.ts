// Verifies and signs access tokens. The algorithm comes from the key, never from the token. A verified token is cached
// until it expires, because verification is more expensive than many statements.
import { compactVerify, decodeProtectedHeader, SignJWT, type CryptoKey, type KeyObject } from 'jose';
import { Cache } from '../lib/cache.ts';
import type { DatabaseRole } from '../postgres/pool/caller-pool.ts';
import { isDatabaseRole, type Claims } from './claims.ts';

export type VerificationKey = {
  readonly alg: 'ES256' | 'RS256' | 'HS256';
  readonly key: CryptoKey | KeyObject | Uint8Array;
  /**
   * Roles that tokens under a key of another product may have. Undefined for own keys, which sign trusted claims
   * only.
   */
  readonly accepts?: readonly DatabaseRole[] | undefined;
};

/** Source of verification keys. An unknown `kid` may cause one reload. */
export interface KeySource {
  findKey(kid: string | undefined): Promise<VerificationKey | undefined>;
}

export type TokenFault = {
  /** PGRST301 for a token that cannot be verified, PGRST303 for invalid claims. */
  readonly kind: 'unreadable' | 'claims';
  readonly message: string;
  readonly details?: string | undefined;
};

export type Verification =
  | { readonly ok: true; readonly claims: Claims }
  | { readonly ok: false; readonly fault: TokenFault };

/** Tolerated difference between clocks, in seconds. */
const CLOCK_SKEW_SECONDS = 30;
const MAX_REMEMBERED = 5_000;
/** Maximum length of a token. A longer value is not a token of svc. */
const MAX_TOKEN_LENGTH = 16_384;

export class TokenVerifier {
  readonly #keys: KeySource;
  readonly #now: () => number;
  readonly #verified = new Cache<string, Claims>(MAX_REMEMBERED);

  constructor(keys: KeySource, now: () => number = () => Math.floor(Date.now() / 1000)) {
    this.#keys = keys;
    this.#now = now;
  }

  /** Clears the cache. Must be called after keys rotate or are revoked. */
  forget(): void {
    this.#verified.clear();
  }

  /** Returns a cached token after checking its time claims again, or undefined if it must be verified. */
  remembered(token: string): Verification | undefined {
    const claims = this.#verified.get(token);
    if (!claims) return undefined;
    const fault = this.#checkTime(claims);
    return fault ? { ok: false, fault } : { ok: true, claims };
  }

  async verify(token: string): Promise<Verification> {
    const remembered = this.remembered(token);
    if (remembered) return remembered;
    const read = await this.#read(token);
    if (!read.ok) return read;
    const fault = this.#checkTime(read.claims);
    if (fault) return { ok: false, fault };
    this.#verified.set(token, read.claims);
    return read;
  }

  async #read(token: string): Promise<Verification> {
    const parts = token.split('.').length;
    if (parts !== 3) {
      return unreadable(parts === 5 ? 'Unsupported token type' : `Expected 3 parts in JWT; got ${parts}`);
    }
    if (token.length > MAX_TOKEN_LENGTH) return unreadable('JWT cryptographic operation failed');
    const header = readHeader(token);
    if (!header) return unreadable('JWT cryptographic operation failed');
    const key = await this.#keys.findKey(header.kid);
    if (!key) {
      if (header.alg === undefined || header.alg === 'none')
        return unreadable('Wrong or unsupported encoding algorithm');
      return unreadable('No suitable key or wrong key type', 'None of the keys was able to decode the JWT');
    }
    if (header.alg !== key.alg) return unreadable('Wrong or unsupported encoding algorithm');
    let payload: unknown;
    try {
      const verified = await compactVerify(token, key.key, { algorithms: [key.alg] });
      payload = JSON.parse(new TextDecoder().decode(verified.payload));
    } catch {
      return unreadable('JWT cryptographic operation failed');
    }
    const read = readClaims(payload);
    return read.ok && key.accepts ? foreign(read.claims, key.accepts) : read;
  }

  #checkTime(claims: Claims): TokenFault | undefined {
    const now = this.#now();
    const message =
      claims.expiresAt !== null && claims.expiresAt + CLOCK_SKEW_SECONDS <= now
        ? 'JWT expired'
        : claims.notBefore !== null && claims.notBefore - CLOCK_SKEW_SECONDS > now
          ? 'JWT not yet valid'
          : claims.issuedAt !== null && claims.issuedAt - CLOCK_SKEW_SECONDS > now
            ? 'JWT issued at future'
            : undefined;
    return message === undefined ? undefined : { kind: 'claims', message };
  }
}

export type SigningKey = { readonly kid: string; readonly alg: 'ES256'; readonly privateKey: CryptoKey };

/** Signs a payload as a compact JWS. The caller must set `exp` and `iat`. */
export function signToken(payload: Readonly<Record<string, unknown>>, key: SigningKey): Promise<string> {
  return new SignJWT({ ...payload })
    .setProtectedHeader({ alg: key.alg, kid: key.kid, typ: 'JWT' })
    .sign(key.privateKey);
}

function readHeader(token: string): ReturnType<typeof decodeProtectedHeader> | undefined {
  try {
    return decodeProtectedHeader(token);
  } catch {
    // Not base64url JSON. The response is the same as for an invalid signature.
    return undefined;
  }
}

function readClaims(payload: unknown): Verification {
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
    return unfit('Parsing claims failed');
  }
  const claims: Record<string, unknown> = { ...payload };
  for (const name of ['exp', 'nbf', 'iat']) {
    const value = claims[name];
    if (value !== undefined && value !== null && typeof value !== 'number') {
      return unfit(`The JWT '${name}' claim must be a number`);
    }
  }
  const { aud } = claims;
  const audiences = Array.isArray(aud) ? aud : aud === undefined || aud === null ? [] : [aud];
  if (audiences.some((audience) => typeof audience !== 'string')) {
    return unfit("The JWT 'aud' claim must be a string or an array of strings");
  }
  const role = claims['role'] ?? 'anon';
  if (!isDatabaseRole(role)) return unfit(`role ${JSON.stringify(role)} does not exist`);
  return {
    ok: true,
    claims: {
      role,
      sub: text(claims['sub']),
      sessionId: text(claims['session_id']),
      email: text(claims['email']),
      isAnonymous: claims['is_anonymous'] === true,
      aal: text(claims['aal']),
      expiresAt: number(claims['exp']),
      notBefore: number(claims['nbf']),
      issuedAt: number(claims['iat']),
      json: JSON.stringify({ ...claims, role }),
      payload: claims,
    },
  };
}

const USER_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Checks a token of another product: its role must be allowed for its key, and a signed-in token must name a user. */
function foreign(claims: Claims, accepts: readonly DatabaseRole[]): Verification {
  const { role, sub } = claims;
  if (!accepts.includes(role)) return unfit(`An imported key is not accepted for the role ${role}`);
  if (sub !== null && USER_ID.test(sub)) return { ok: true, claims };
  if (role === 'authenticated') {
    return unfit('An imported key is accepted for the role authenticated only where the token names a user');
  }
  // For example the former anon key. Policies read its payload unchanged.
  return { ok: true, claims: { ...claims, sub: null } };
}

function unreadable(message: string, details?: string): Verification {
  return { ok: false, fault: { kind: 'unreadable', message, details } };
}

function unfit(message: string): Verification {
  return { ok: false, fault: { kind: 'claims', message } };
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

function number(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}
