// A sign-in provider as the rest of auth sees it: it creates a URL for the browser, and reads the profile
// afterwards.
import type { JsonObject } from '../fields.ts';

export type ProviderEmail = { readonly email: string; readonly verified: boolean; readonly primary: boolean };

export type ProviderProfile = {
  /** The provider's id of the person, never an address. */
  readonly subject: string;
  readonly emails: readonly ProviderEmail[];
  /** Claims that become `identity_data` and are merged into `user_metadata`. */
  readonly claims: JsonObject;
};

export type ProviderTokens = {
  readonly accessToken: string | undefined;
  readonly refreshToken: string | undefined;
};

export type ProviderSignIn = ProviderTokens & { readonly profile: ProviderProfile };

/** Secrets that are sealed in the flow's row while the browser is at the provider. */
export type FlowSecrets = { readonly verifier?: string | undefined; readonly nonce?: string | undefined };

export type AuthorizeOrder = {
  readonly state: string;
  readonly scopes: readonly string[];
  /** The application's parameters for the provider, without the reserved ones. */
  readonly passthrough: ReadonlyArray<readonly [string, string]>;
};

export type Authorization = { readonly url: string; readonly secrets: FlowSecrets };

export type CallbackParameters = Readonly<Record<string, string>>;

export interface Provider {
  readonly name: string;
  readonly emailOptional: boolean;
  authorizationUrl(order: AuthorizeOrder): Promise<Authorization>;
  /** Exchanges the code and reads the profile. Throws on any failure; the error is logged and never shown. */
  signIn(parameters: CallbackParameters, secrets: FlowSecrets): Promise<ProviderSignIn>;
  /** Checks an ID token that a client got itself. Undefined if this provider does not issue ID tokens. */
  readonly verifyIdToken: ((order: IdTokenOrder) => Promise<ProviderProfile>) | undefined;
}

export type IdTokenOrder = {
  readonly idToken: string;
  readonly accessToken: string | undefined;
  readonly nonce: string | undefined;
};

/** Returns the configured provider with that name, or undefined. */
export type FindProvider = (name: string) => Provider | undefined;

/** An ID token from a client is not valid. The message may be shown. */
export class IdTokenRefused extends Error {
  readonly oauthError: string;

  constructor(message: string, cause?: unknown, oauthError = 'invalid request') {
    super(message, { cause });
    this.name = 'IdTokenRefused';
    this.oauthError = oauthError;
  }
}
