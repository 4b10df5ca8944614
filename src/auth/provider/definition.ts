// What distinguishes one provider from another, as data: endpoints, scopes, and how its profile is read. The
// protocol itself is in `oauth-provider.ts`.
import { isJsonObject, type JsonObject } from '../fields.ts';
import type { OAuthSettings } from '../settings.ts';
import type { CallbackParameters, ProviderEmail, ProviderProfile } from './provider.ts';

export type Endpoints = { readonly authorize: string; readonly token: string };

/** What a profile is made from. */
export type ProfileSource = {
  readonly settings: OAuthSettings;
  readonly accessToken: string;
  /** Verified claims of the ID token, when there is one. */
  readonly idToken: JsonObject | undefined;
  /** The whole answer of the token endpoint. */
  readonly tokenAnswer: JsonObject;
  readonly callback: CallbackParameters;
  /** GET of the provider's API as the user, parsed. */
  readonly get: (url: string, headers?: Readonly<Record<string, string>>) => Promise<unknown>;
};

export type ProviderDefinition = {
  /** OIDC discovery; also what its ID tokens are checked against. */
  readonly issuer?: (settings: OAuthSettings) => string;
  /** Issuers besides the discovered one, or a check of its own for issuers that differ by tenant. */
  readonly acceptsIssuer?: (issuer: string, claims: JsonObject, settings: OAuthSettings) => boolean;
  /** Plain OAuth 2: no discovery in the sign-in. */
  readonly endpoints?: (settings: OAuthSettings) => Endpoints;
  readonly scopes: readonly string[];
  /** How scopes are joined; a space unless the provider differs. */
  readonly scopeSeparator?: string;
  /** PKCE towards the provider with a verifier we keep. */
  readonly pkce: boolean;
  readonly clientAuth: 'post' | 'basic';
  readonly authorizeParameters?: Readonly<Record<string, string>>;
  /** The application's own parameters are not passed on. */
  readonly ignoresPassthrough?: boolean;
  readonly emailOptional?: boolean;
  /** An ID token without a nonce is accepted although one was given. */
  readonly skipsNonce?: boolean;
  readonly profile: (source: ProfileSource) => Promise<ProviderProfile> | ProviderProfile;
};

/** The base of a provider that is hosted by whoever configures it. */
export function requireUrl(settings: OAuthSettings, provider: string): string {
  if (!settings.url) throw new Error(`auth.oauth.${provider}.url is not set`);
  return settings.url.replace(/\/+$/, '');
}

// Reading what providers send: any field may be missing or of another type.
export const asObject = (value: unknown): JsonObject => (isJsonObject(value) ? value : {});
export const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const asText = (value: unknown): string | undefined => {
  if (typeof value === 'string') return value === '' ? undefined : value;
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : undefined;
};
/** True for true, and for nothing that merely looks like it; `"true"` only where a provider is known to send it. */
export const isTrue = (value: unknown): boolean => value === true;
export const isTrueText = (value: unknown): boolean =>
  value === true || value === 'true' || value === '1' || value === 1;

export type ProfileParts = {
  readonly subject: unknown;
  readonly issuer: string;
  readonly emails: readonly ProviderEmail[];
  readonly name?: unknown;
  readonly userName?: unknown;
  readonly picture?: unknown;
  readonly more?: Readonly<Record<string, unknown>>;
};

/** The claims every provider's profile is shown as; empty ones are left out. */
export function makeProfile(parts: ProfileParts): ProviderProfile {
  const subject = asText(parts.subject);
  if (subject === undefined) throw new Error('the provider names no subject');
  const primary = parts.emails.find((email) => email.primary) ?? parts.emails[0];
  const name = asText(parts.name);
  const userName = asText(parts.userName);
  const picture = asText(parts.picture);
  const optional = {
    name: name ?? userName,
    full_name: name ?? userName,
    user_name: userName,
    preferred_username: userName,
    avatar_url: picture,
    picture,
    email: primary?.email,
    ...parts.more,
  };
  const claims: JsonObject = {
    iss: parts.issuer,
    sub: subject,
    provider_id: subject,
    email_verified: primary?.verified ?? false,
    phone_verified: false,
  };
  for (const [key, value] of Object.entries(optional)) {
    if (value !== undefined && value !== null && value !== '') claims[key] = value;
  }
  return { subject, emails: parts.emails, claims };
}

export function oneEmail(email: unknown, verified: boolean): readonly ProviderEmail[] {
  const text = asText(email);
  return text === undefined ? [] : [{ email: text, verified, primary: true }];
}

/** Standard OIDC claims, for whatever speaks OIDC properly. */
export function oidcProfile(
  claims: JsonObject,
  verified: boolean,
  more: Readonly<Record<string, unknown>> = {},
): ProviderProfile {
  const pick = (name: string): unknown => asText(claims[name]);
  return makeProfile({
    subject: claims['sub'],
    issuer: asText(claims['iss']) ?? '',
    emails: oneEmail(claims['email'], verified),
    name: claims['name'],
    userName: claims['preferred_username'],
    picture: claims['picture'],
    more: {
      given_name: pick('given_name'),
      family_name: pick('family_name'),
      nickname: pick('nickname'),
      profile: pick('profile'),
      website: pick('website'),
      locale: pick('locale'),
      ...more,
    },
  });
}
