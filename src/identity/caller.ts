// Resolves the caller of a data API. Authorization determines the identity. An API key only admits the request.
import type { CallerSettings, DatabaseRole } from '../postgres/pool/caller-pool.ts';
import type { Claims } from './claims.ts';
import type { Credential, Presented } from './credentials.ts';
import type { TokenFault } from './token.ts';

export type Caller = CallerSettings & {
  readonly role: DatabaseRole;
  /**
   * The verified token. Null for keys, and for tokens without a user, such as the anon key of another product.
   */
  readonly user: Claims | null;
  /** The raw token, for code that acts on behalf of the caller. */
  readonly token: string | null;
  /** Expiry of the token in Unix seconds. Null for keys and for tokens that do not expire. */
  readonly expiresAt: number | null;
};

export const ANON: Caller = keyCaller('anon');
export const SERVICE: Caller = keyCaller('service_role');

/** A caller without a user. `request.jwt.claims` still contains the role. */
function keyCaller(role: DatabaseRole): Caller {
  return { role, claims: JSON.stringify({ role }), user: null, token: null, expiresAt: null };
}

export type Refusal =
  | { readonly reason: 'no-key' | 'unknown-key' | 'restricted' | 'session-ended' }
  | { readonly reason: 'bad-token'; readonly fault: TokenFault };

export type Refused = { readonly ok: false; readonly refusal: Refusal };
export type Resolution = { readonly ok: true; readonly caller: Caller } | Refused;

const NO_KEY: Refused = { ok: false, refusal: { reason: 'no-key' } };
const UNKNOWN_KEY: Refused = { ok: false, refusal: { reason: 'unknown-key' } };
const SESSION_ENDED: Refused = { ok: false, refusal: { reason: 'session-ended' } };
const RESTRICTED: Refused = { ok: false, refusal: { reason: 'restricted' } };

/** Message of all APIs for the token of a restricted session. The code is `insufficient_aal`. */
export const SESSION_RESTRICTED = 'Verify the second factor of this account first';

/** Returns true for a session that proved only the email address of an account with a verified second factor. */
export function isRestricted({ payload }: Claims): boolean {
  return payload['restricted'] === true;
}

/** Resolves the caller of `/rest/v1` and `/storage/v1`. */
export function resolveDataCaller({ apikey, bearer }: Presented): Resolution {
  const refused = withoutApiKey(apikey, bearer);
  if (refused) return refused;
  switch (bearer.kind) {
    case 'none':
      return { ok: true, caller: apikey.kind === 'secret' ? SERVICE : ANON };
    case 'publishable':
      // The publishable key takes precedence over the secret key, because it has fewer rights.
      return { ok: true, caller: ANON };
    case 'secret':
      return { ok: true, caller: SERVICE };
    case 'keylike':
      return UNKNOWN_KEY;
    case 'token':
      return resolveToken(bearer);
    case 'bad-token':
    case 'other':
      return { ok: false, refusal: { reason: 'bad-token', fault: bearer.fault } };
  }
}

/**
 * Resolves the caller of `/functions/v1`. It requires no key, and a key does not identify a user. A caller with an
 * unusable or restricted bearer is anonymous.
 */
export function resolveFunctionCaller({ bearer }: Presented): Caller {
  const isUsable = bearer.kind === 'token' && !bearer.hasEnded && !isRestricted(bearer.claims);
  return isUsable ? tokenCaller(bearer) : ANON;
}

export function isRestrictedBearer({ bearer }: Presented): boolean {
  return bearer.kind === 'token' && isRestricted(bearer.claims);
}

/** Resolves a user token without a key. Rejects tokens of restricted and ended sessions. */
export function resolveToken(bearer: Extract<Credential, { kind: 'token' }>): Resolution {
  if (bearer.hasEnded) return SESSION_ENDED;
  return isRestricted(bearer.claims) ? RESTRICTED : { ok: true, caller: tokenCaller(bearer) };
}

/** Returns a refusal if neither header contains an API key, because a user token alone is not sufficient. */
export function withoutApiKey(apikey: Credential, bearer: Credential): Refused | undefined {
  if (hasApiKey(apikey) || (apikey.kind === 'none' && hasApiKey(bearer))) return undefined;
  return apikey.kind !== 'none' || bearer.kind === 'keylike' ? UNKNOWN_KEY : NO_KEY;
}

function hasApiKey({ kind }: Credential): boolean {
  return kind === 'publishable' || kind === 'secret';
}

export function tokenCaller({ claims, token }: Extract<Credential, { kind: 'token' }>): Caller {
  const { role, json, sub, expiresAt } = claims;
  const isNobody = role === 'anon' && sub === null;
  return { role, claims: json, user: isNobody ? null : claims, token, expiresAt };
}
