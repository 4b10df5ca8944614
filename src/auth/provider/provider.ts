// What a sign-in provider is to the rest of auth: a place to send the browser, and a profile when it comes back.
import type { JsonObject } from '../fields.ts';

export type ProviderEmail = { readonly email: string; readonly verified: boolean; readonly primary: boolean };

export type ProviderProfile = {
  /** The provider's own id of the person; never an address. */
  readonly subject: string;
  readonly emails: readonly ProviderEmail[];
  /** What becomes `identity_data` and is merged into `user_metadata`. */
  readonly claims: JsonObject;
};

export type ProviderSignIn = {
  readonly profile: ProviderProfile;
  readonly accessToken: string | undefined;
  readonly refreshToken: string | undefined;
};

/** What must survive the round trip through the browser, sealed in the flow's row. */
export type FlowSecrets = { readonly verifier?: string | undefined; readonly nonce?: string | undefined };

export type AuthorizeOrder = {
  readonly state: string;
  readonly scopes: readonly string[];
  /** Parameters of the application for the provider; reserved ones are gone already. */
  readonly passthrough: ReadonlyArray<readonly [string, string]>;
};

export type CallbackParameters = Readonly<Record<string, string>>;

export interface Provider {
  readonly name: string;
  readonly emailOptional: boolean;
  authorizationUrl(order: AuthorizeOrder): Promise<{ readonly url: string; readonly secrets: FlowSecrets }>;
  /** Exchanges the code and reads the profile; throws on any failure, which is logged and never shown. */
  signIn(parameters: CallbackParameters, secrets: FlowSecrets): Promise<ProviderSignIn>;
  /** Checks an ID token a client got by itself; undefined when this provider issues none. */
  readonly verifyIdToken: ((order: IdTokenOrder) => Promise<ProviderProfile>) | undefined;
}

export type IdTokenOrder = {
  readonly idToken: string;
  readonly accessToken: string | undefined;
  readonly nonce: string | undefined;
};

export interface ProviderSet {
  /** The configured provider of that name, undefined when there is none. */
  find(name: string): Provider | undefined;
}

/** An ID token that a client presented and that does not hold; the description may be shown. */
export class IdTokenRefused extends Error {
  readonly oauthError: string;

  constructor(message: string, cause?: unknown, oauthError = 'invalid request') {
    super(message, { cause });
    this.name = 'IdTokenRefused';
    this.oauthError = oauthError;
  }
}
