// Who calls, as the data APIs see it. Authorization decides who you are; an API key only lets the request in.
import type { CallerSettings, DatabaseRole } from '../postgres/pool/caller-pool.ts';
import type { Claims } from './claims.ts';
import type { Credential, Presented } from './credentials.ts';
import type { TokenFault } from './token.ts';

export type Caller = CallerSettings & {
  readonly role: DatabaseRole;
  /** The verified token; null for keys, and for tokens that are nobody's: the anon key of another product. */
  readonly user: Claims | null;
  /** The raw token, for code that acts on the caller's behalf. */
  readonly token: string | null;
  /** When the token ends, in Unix seconds; null where it does not, and for keys. */
  readonly expiresAt: number | null;
};

export const ANON: Caller = keyCaller('anon');
export const SERVICE: Caller = keyCaller('service_role');

/** A caller without a user: `request.jwt.claims` still names the role. */
function keyCaller(role: DatabaseRole): Caller {
  return { role, claims: JSON.stringify({ role }), user: null, token: null, expiresAt: null };
}

export type Refusal =
  | { readonly reason: 'no-key' | 'unknown-key' }
  | { readonly reason: 'bad-token'; readonly fault: TokenFault };

export type Refused = { readonly ok: false; readonly refusal: Refusal };
export type Resolution = { readonly ok: true; readonly caller: Caller } | Refused;

const NO_KEY: Refused = { ok: false, refusal: { reason: 'no-key' } };
const UNKNOWN_KEY: Refused = { ok: false, refusal: { reason: 'unknown-key' } };

/** For `/rest/v1` and `/storage/v1`. */
export function resolveDataCaller({ apikey, bearer }: Presented): Resolution {
  const refused = withoutApiKey(apikey, bearer);
  if (refused) return refused;
  switch (bearer.kind) {
    case 'none':
      return { ok: true, caller: apikey.kind === 'secret' ? SERVICE : ANON };
    case 'publishable':
      // Also beside the secret key: the least privilege that was asked for.
      return { ok: true, caller: ANON };
    case 'secret':
      return { ok: true, caller: SERVICE };
    case 'keylike':
      return UNKNOWN_KEY;
    case 'token':
      return { ok: true, caller: tokenCaller(bearer) };
    case 'bad-token':
    case 'other':
      return { ok: false, refusal: { reason: 'bad-token', fault: bearer.fault } };
  }
}

/** `/functions/v1`: no key is needed, a key is no user, and an unusable bearer is an anonymous caller. */
export function resolveFunctionCaller({ bearer }: Presented): Caller {
  return bearer.kind === 'token' ? tokenCaller(bearer) : ANON;
}

/** The refusal when neither header holds an API key: a user token alone is not enough. Undefined when one does. */
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
