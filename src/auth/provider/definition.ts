// Describes the differences of providers as data: endpoints, scopes and profile. `oauth-provider.ts` has the
// protocol.
import { toStorableJson } from '../../http/storable-json.ts';
import { isJsonObject, type JsonObject } from '../fields.ts';
import type { OAuthSettings } from '../settings.ts';
import type { CallbackParameters, ProviderEmail, ProviderProfile } from './provider.ts';

export type Endpoints = { readonly authorize: string; readonly token: string };

/** Returns two endpoints with the same base URL. */
export const endpointsAt = (base: string, authorize: string, token: string): Endpoints => ({
  authorize: base + authorize,
  token: base + token,
});

/** The sources from which a profile can be read. */
export type ProfileSource = {
  readonly settings: OAuthSettings;
  readonly accessToken: string;
  /** Verified claims of the ID token, if there is one. */
  readonly idToken: JsonObject | undefined;
  /** The whole response of the token endpoint. */
  readonly tokenAnswer: JsonObject;
  readonly callback: CallbackParameters;
  /** Sends a GET to the provider's API as the user. Returns the parsed response. */
  readonly get: (url: string, headers?: Readonly<Record<string, string>>) => Promise<unknown>;
};

/** A constant, or a value derived from the settings of a self-hosted provider. */
export type PerSettings<T> = T | ((settings: OAuthSettings) => T);

export type ProviderDefinition = {
  /** Used for OIDC discovery and to check ID tokens. */
  readonly issuer?: PerSettings<string>;
  /** Replaces the comparison with the discovered issuer, for providers with several issuers. */
  readonly acceptsIssuer?: (issuer: string, claims: JsonObject, settings: OAuthSettings) => boolean;
  /** Set for plain OAuth 2, which does not use discovery. */
  readonly endpoints?: PerSettings<Endpoints>;
  readonly scopes: readonly string[];
  /** A space by default. */
  readonly scopeSeparator?: string;
  /** The provider supports PKCE (RFC 7636). */
  readonly pkce?: true;
  /** How the client secret is sent. Defaults to `post`. */
  readonly clientAuth?: 'post' | 'basic';
  readonly authorizeParameters?: Readonly<Record<string, string>>;
  /** True if the application's own parameters are not passed on. */
  readonly ignoresPassthrough?: boolean;
  readonly emailOptional?: boolean;
  /** True if an ID token without a nonce is accepted although one was sent. */
  readonly skipsNonce?: boolean;
  readonly profile: (source: ProfileSource) => Promise<ProviderProfile> | ProviderProfile;
};

export function perSettings<T extends string | Endpoints>(value: PerSettings<T>, settings: OAuthSettings): T {
  return typeof value === 'function' ? value(settings) : value;
}

// Reads values from providers. Any field may be missing or have another type.
export const asObject = (value: unknown): JsonObject => (isJsonObject(value) ? value : {});
export const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const asText = (value: unknown): string | undefined => {
  if (typeof value === 'string') return value === '' ? undefined : value;
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : undefined;
};
/** `isTrueText` is for providers that send booleans as text. */
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

/** Builds the profile. The claims have the same names for every provider; empty claims are omitted. */
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
    if (value !== undefined && value !== null && value !== '') claims[key] = toStorableJson(value);
  }
  return { subject, emails: parts.emails, claims };
}

export function singleEmail(email: unknown, verified: boolean): readonly ProviderEmail[] {
  const text = asText(email);
  return text === undefined ? [] : [{ email: text, verified, primary: true }];
}

/** Reads all addresses of an API that lists them. `verified` and `primary` are the names of its flags. */
export function listedEmails(list: unknown, verified: string, primary: string): readonly ProviderEmail[] {
  return asList(list)
    .map(asObject)
    .flatMap((entry) => {
      const email = asText(entry['email']);
      return email === undefined
        ? []
        : [{ email, verified: isTrue(entry[verified]), primary: isTrue(entry[primary]) }];
    });
}

export function fullName(...parts: readonly unknown[]): string {
  return parts
    .map(asText)
    .filter((part) => part !== undefined)
    .join(' ');
}

type ReadParts = (user: JsonObject, source: ProfileSource) => Promise<ApiParts> | ApiParts;
/** The subject defaults to `id`, and the issuer to the API's origin. */
type ApiParts = Omit<ProfileParts, 'subject' | 'issuer'> & Partial<ProfileParts>;

/** Reads a profile with one GET of the provider's API. */
export function fromApi(url: string, read: ReadParts): ProviderDefinition['profile'] {
  return async (source) => {
    const user = asObject(await source.get(url));
    return makeProfile({ subject: user['id'], issuer: new URL(url).origin, ...(await read(user, source)) });
  };
}

/** Reads a profile from standard OIDC claims. */
export function oidcProfile(
  claims: JsonObject,
  verified: boolean,
  more: Readonly<Record<string, unknown>> = {},
): ProviderProfile {
  const pick = (name: string): unknown => asText(claims[name]);
  return makeProfile({
    subject: claims['sub'],
    issuer: asText(claims['iss']) ?? '',
    emails: singleEmail(claims['email'], verified),
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
