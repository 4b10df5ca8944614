// A sign-in provider as the rest of auth sees it: a URL to send the browser to, and a profile when it comes back.
import type { JsonObject } from '../fields.ts';

export type ProviderEmail = { readonly email: string; readonly verified: boolean; readonly primary: boolean };

export type ProviderProfile = {
  /** The provider's own id of the person, never an address. */
  readonly subject: string;
  readonly emails: readonly ProviderEmail[];
  /** What becomes `identity_data` and is merged into `user_metadata`. */
  readonly claims: JsonObject;
};

export type ProviderTokens = {
  readonly accessToken: string | undefined;
  readonly refreshToken: string | undefined;
};

export type ProviderSignIn = ProviderTokens & { readonly profile: ProviderProfile };

/** Kept, sealed in the flow's row, while the browser is at the provider. */
export type FlowSecrets = { readonly verifier?: string | undefined; readonly nonce?: string | undefined };

export type AuthorizeOrder = {
  readonly state: string;
  readonly scopes: readonly string[];
  /** The application's parameters for the provider, without reserved ones. */
  readonly passthrough: ReadonlyArray<readonly [string, string]>;
};

export type Authorization = { readonly url: string; readonly secrets: FlowSecrets };

export type CallbackParameters = Readonly<Record<string, string>>;

export interface Provider {
  readonly name: string;
  readonly emailOptional: boolean;
  authorizationUrl(order: AuthorizeOrder): Promise<Authorization>;
  /** Exchanges the code and reads the profile. Throws on any failure, which is logged and never shown. */
  signIn(parameters: CallbackParameters, secrets: FlowSecrets): Promise<ProviderSignIn>;
  /** Checks an ID token that a client got itself; undefined when this provider issues none. */
  readonly verifyIdToken: ((order: IdTokenOrder) => Promise<ProviderProfile>) | undefined;
}

export type IdTokenOrder = {
  readonly idToken: string;
  readonly accessToken: string | undefined;
  readonly nonce: string | undefined;
};

/** The configured provider of that name, undefined when there is none. */
export type FindProvider = (name: string) => Provider | undefined;

/** An ID token from a client that is not valid; the message may be shown. */
export class IdTokenRefused extends Error {
  readonly oauthError: string;

  constructor(message: string, cause?: unknown, oauthError = 'invalid request') {
    super(message, { cause });
    this.name = 'IdTokenRefused';
    this.oauthError = oauthError;
  }
}
