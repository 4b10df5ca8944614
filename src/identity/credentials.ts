// What a request presents: `apikey` and `Authorization`, each classified once. A key in Authorization is a key,
// never a malformed token: supabase-js sends its key as the bearer whenever there is no session.
import { keyMatcher, looksLikeKey, type ApiKeys, type KeyMatch } from './api-key.ts';
import type { Claims } from './claims.ts';
import type { TokenFault, TokenVerifier } from './token.ts';

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

const NONE: Credential = { kind: 'none' };

export class CredentialReader {
  readonly #match: (candidate: string) => KeyMatch;
  readonly #verifier: TokenVerifier;

  constructor(keys: ApiKeys, verifier: TokenVerifier) {
    this.#match = keyMatcher(keys);
    this.#verifier = verifier;
  }

  /** `queryKey` is the `apikey` of the query string, for links that cannot carry headers. */
  async read(headers: CredentialHeaders, queryKey?: string): Promise<Presented> {
    const header = headers.apikey;
    const apikey = (Array.isArray(header) ? header[0] : header) ?? queryKey;
    return {
      apikey: apikey === undefined || apikey === '' ? NONE : await this.#classify(apikey),
      bearer: await this.#readBearer(headers.authorization),
    };
  }

  async #readBearer(authorization: string | undefined): Promise<Credential> {
    if (authorization === undefined) return NONE;
    const match = /^bearer(?: +(.*))?$/i.exec(authorization.trim());
    // Basic and the like are somebody else's business (a proxy's, a webhook sender's).
    if (!match) return NONE;
    const value = (match[1] ?? '').trim();
    if (value === '') {
      return {
        kind: 'other',
        fault: { kind: 'unreadable', message: 'Empty JWT is sent in Authorization header' },
      };
    }
    return await this.#classify(value);
  }

  async #classify(value: string): Promise<Credential> {
    if (looksLikeKey(value)) {
      const match = this.#match(value);
      return match === 'unknown' ? { kind: 'keylike' } : { kind: match };
    }
    const verification = this.#verifier.remembered(value) ?? (await this.#verifier.verify(value));
    if (verification.ok) return { kind: 'token', claims: verification.claims, token: value };
    const kind = value.split('.').length === 3 ? 'bad-token' : 'other';
    return { kind, fault: verification.fault };
  }
}
