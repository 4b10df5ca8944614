// What a request presents: `apikey` and `Authorization`, each classified once. A key in Authorization is a key,
// never a malformed token: supabase-js sends its key as the bearer whenever there is no session.
import { keyMatcher, looksLikeKey, type ApiKeys, type KeyMatch } from './api-key.ts';
import type { Claims } from './claims.ts';
import type { TokenFault, TokenVerifier, Verification } from './token.ts';

export type Credential =
  | { readonly kind: 'none' }
  | { readonly kind: 'publishable' }
  | { readonly kind: 'secret' }
  /** Starts like one of our keys and is neither. */
  | { readonly kind: 'keylike' }
  | { readonly kind: 'token'; readonly claims: Claims; readonly token: string }
  /** Three parts, but it does not verify. */
  | { readonly kind: 'bad-token'; readonly fault: TokenFault }
  | { readonly kind: 'other'; readonly fault: TokenFault };

export type Presented = { readonly apikey: Credential; readonly bearer: Credential };

export type CredentialHeaders = {
  readonly apikey?: string | string[] | undefined;
  readonly authorization?: string | undefined;
};

type Aliases = { accepts(text: string): boolean };

const NO_ALIASES: Aliases = { accepts: () => false };
const NONE: Credential = { kind: 'none' };
const EMPTY_BEARER: Credential = {
  kind: 'other',
  fault: { kind: 'unreadable', message: 'Empty JWT is sent in Authorization header' },
};
const OF_KEY: Readonly<Record<KeyMatch, Credential>> = {
  publishable: { kind: 'publishable' },
  secret: { kind: 'secret' },
  unknown: { kind: 'keylike' },
};

export class CredentialReader {
  readonly #match: (candidate: string) => KeyMatch;
  readonly #verifier: TokenVerifier;
  readonly #aliases: Aliases;

  /** `aliases`: keys of a former product that stand for the publishable one. */
  constructor(keys: ApiKeys, verifier: TokenVerifier, aliases: Aliases = NO_ALIASES) {
    this.#match = keyMatcher(keys);
    this.#verifier = verifier;
    this.#aliases = aliases;
  }

  /** `queryKey` is the `apikey` of the query string, for links that cannot carry headers. */
  async read(headers: CredentialHeaders, queryKey?: string): Promise<Presented> {
    const known = this.readKnown(headers, queryKey);
    if (known) return known;
    const apikey = apikeyOf(headers, queryKey);
    const bearer = bearerOf(headers.authorization);
    return { apikey: await this.#classify(apikey), bearer: await this.#classify(bearer) };
  }

  /** The same without waiting; undefined when a token has to be verified first. */
  readKnown(headers: CredentialHeaders, queryKey?: string): Presented | undefined {
    const apikey = this.#classifyKnown(apikeyOf(headers, queryKey));
    if (!apikey) return undefined;
    const bearer = this.#classifyKnown(bearerOf(headers.authorization));
    return bearer && { apikey, bearer };
  }

  async #classify(value: string | undefined): Promise<Credential> {
    return this.#classifyKnown(value) ?? toCredential(value ?? '', await this.#verifier.verify(value ?? ''));
  }

  #classifyKnown(value: string | undefined): Credential | undefined {
    if (value === undefined) return NONE;
    if (value === '') return EMPTY_BEARER;
    if (looksLikeKey(value)) return OF_KEY[this.#match(value)];
    // Before tokens: an old key may be one, of a product whose tokens are accepted.
    if (this.#aliases.accepts(value)) return OF_KEY.publishable;
    const verification = this.#verifier.remembered(value);
    return verification && toCredential(value, verification);
  }
}

function apikeyOf({ apikey }: CredentialHeaders, queryKey: string | undefined): string | undefined {
  const value = (Array.isArray(apikey) ? apikey[0] : apikey) ?? queryKey;
  return value === '' ? undefined : value;
}

/** Undefined when there is none, empty when the word stands alone. */
function bearerOf(authorization: string | undefined): string | undefined {
  if (authorization === undefined) return undefined;
  const match = /^bearer(?: +(.*))?$/i.exec(authorization.trim());
  // Basic and the like are somebody else's business (a proxy's, a webhook sender's).
  return match ? (match[1] ?? '').trim() : undefined;
}

function toCredential(token: string, verification: Verification): Credential {
  if (verification.ok) return { kind: 'token', claims: verification.claims, token };
  const kind = token.split('.').length === 3 ? 'bad-token' : 'other';
  return { kind, fault: verification.fault };
}
