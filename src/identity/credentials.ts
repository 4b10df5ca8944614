// Classifies the credentials of a request: `apikey` and `Authorization`. A key in `Authorization` counts as a key and
// not as a malformed token, because supabase-js sends its key as the bearer token while there is no session.
import { keyMatcher, looksLikeKey, type ApiKeys, type KeyMatch } from './api-key.ts';
import type { Claims } from './claims.ts';
import type { TokenFault, TokenVerifier, Verification } from './token.ts';

export type Credential =
  | { readonly kind: 'none' }
  | { readonly kind: 'publishable' }
  | { readonly kind: 'secret' }
  /** Has the prefix of a key but is not a valid key. */
  | { readonly kind: 'keylike' }
  /** `hasEnded` is true for a verified token whose session has ended or whose user is banned or deleted. */
  | { readonly kind: 'token'; readonly claims: Claims; readonly token: string; readonly hasEnded: boolean }
  /** Has the form of a token but cannot be verified. */
  | { readonly kind: 'bad-token'; readonly fault: TokenFault }
  | { readonly kind: 'other'; readonly fault: TokenFault };

export type Presented = { readonly apikey: Credential; readonly bearer: Credential };

export type CredentialHeaders = {
  readonly apikey?: string | string[] | undefined;
  readonly authorization?: string | undefined;
};

type Aliases = { accepts(text: string): boolean };
type Ended = { has(claims: Claims): boolean };

const NO_ALIASES: Aliases = { accepts: () => false };
const NONE_ENDED: Ended = { has: () => false };
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
  readonly #ended: Ended;

  /**
   * `aliases` are keys of a former product that replace the publishable key. `ended` knows tokens of ended sessions.
   */
  constructor(
    keys: ApiKeys,
    verifier: TokenVerifier,
    { aliases = NO_ALIASES, ended = NONE_ENDED }: { aliases?: Aliases; ended?: Ended } = {},
  ) {
    this.#match = keyMatcher(keys);
    this.#verifier = verifier;
    this.#aliases = aliases;
    this.#ended = ended;
  }

  /** `queryKey` is the parameter `apikey` of the query string, for links without headers. */
  async read(headers: CredentialHeaders, queryKey?: string): Promise<Presented> {
    const known = this.readKnown(headers, queryKey);
    if (known) return known;
    const apikey = readApikey(headers, queryKey);
    const bearer = readBearer(headers.authorization);
    return { apikey: await this.#classify(apikey), bearer: await this.#classify(bearer) };
  }

  /** Classifies without waiting. Returns undefined if a token must be verified first. */
  readKnown(headers: CredentialHeaders, queryKey?: string): Presented | undefined {
    const apikey = this.#classifyKnown(readApikey(headers, queryKey));
    if (!apikey) return undefined;
    const bearer = this.#classifyKnown(readBearer(headers.authorization));
    return bearer && { apikey, bearer };
  }

  async #classify(value: string | undefined): Promise<Credential> {
    return (
      this.#classifyKnown(value) ?? this.#toCredential(value ?? '', await this.#verifier.verify(value ?? ''))
    );
  }

  #classifyKnown(value: string | undefined): Credential | undefined {
    if (value === undefined) return NONE;
    if (value === '') return EMPTY_BEARER;
    if (looksLikeKey(value)) return OF_KEY[this.#match(value)];
    // Before tokens, because an old key may also be a token of a product whose tokens are accepted.
    if (this.#aliases.accepts(value)) return OF_KEY.publishable;
    const verification = this.#verifier.remembered(value);
    return verification && this.#toCredential(value, verification);
  }

  #toCredential(token: string, verification: Verification): Credential {
    if (verification.ok) {
      const { claims } = verification;
      return { kind: 'token', claims, token, hasEnded: this.#ended.has(claims) };
    }
    const kind = token.split('.').length === 3 ? 'bad-token' : 'other';
    return { kind, fault: verification.fault };
  }
}

function readApikey({ apikey }: CredentialHeaders, queryKey: string | undefined): string | undefined {
  const value = (Array.isArray(apikey) ? apikey[0] : apikey) ?? queryKey;
  return value === '' ? undefined : value;
}

/** Returns undefined without a bearer scheme, and an empty text for a scheme without a token. */
function readBearer(authorization: string | undefined): string | undefined {
  if (authorization === undefined) return undefined;
  const match = /^bearer(?: +(.*))?$/i.exec(authorization.trim());
  // Ignore other schemes such as Basic. They belong to a proxy or a webhook sender.
  return match ? (match[1] ?? '').trim() : undefined;
}
