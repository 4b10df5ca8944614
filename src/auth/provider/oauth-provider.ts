// The protocol with a provider: authorization URL, code exchange and ID token checks. The library does state, nonce,
// PKCE and token validation. The definition describes the differences of a provider.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import {
  createRemoteJWKSet,
  customFetch as jwksFetch,
  decodeProtectedHeader,
  jwtVerify,
  type JWTVerifyGetKey,
} from 'jose';
import type {
  ClientAuth,
  Configuration,
  TokenEndpointResponse,
  TokenEndpointResponseHelpers,
} from 'openid-client';
import { must } from '../../lib/assert.ts';
import { isJsonObject, type JsonObject } from '../fields.ts';
import type { OAuthSettings } from '../settings.ts';
import { BUILT_IN, customOidc } from './builtin.ts';
import { perSettings, type Endpoints, type ProviderDefinition } from './definition.ts';
import { guardedFetch, type GuardedFetch } from './guarded-fetch.ts';
import {
  IdTokenRefused,
  type Authorization,
  type AuthorizeOrder,
  type CallbackParameters,
  type FindProvider,
  type FlowSecrets,
  type IdTokenOrder,
  type Provider,
  type ProviderProfile,
  type ProviderSignIn,
} from './provider.ts';

// Loaded with the first provider sign-in, because most servers have no provider.
const library = () => import('openid-client');

/** How long a provider's metadata and keys are cached. */
const DISCOVERY_MS = 3_600_000;
const ID_TOKEN_ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512'];

/** Finds configured providers. Each is created on first use, and again after its settings have changed. */
export function providerFinder(
  settings: () => Readonly<Record<string, OAuthSettings>>,
  now: () => Date,
): FindProvider {
  const made = new Map<string, { readonly settings: OAuthSettings; readonly provider: Provider }>();
  return (typed) => {
    const all = settings();
    const names = Object.keys(all);
    const name = names.find((known) => known === typed) ?? names.find((known) => isSameName(known, typed));
    const own = name === undefined ? undefined : all[name];
    if (name === undefined || !own) return undefined;
    const known = made.get(name);
    if (known?.settings === own) return known.provider;
    const provider = makeProvider(name, own, now);
    if (provider) made.set(name, { settings: own, provider });
    return provider;
  };
}

function isSameName(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}

function makeProvider(name: string, settings: OAuthSettings, now: () => Date): Provider | undefined {
  const builtIn = Object.hasOwn(BUILT_IN, name) ? BUILT_IN[name] : undefined;
  const definition = builtIn ?? (settings.issuer === undefined ? undefined : customOidc(settings.issuer));
  return definition ? new OAuthProvider(name, definition, settings, now) : undefined;
}

class OAuthProvider implements Provider {
  readonly name: string;
  readonly emailOptional: boolean;
  readonly verifyIdToken: Provider['verifyIdToken'];
  readonly #definition: ProviderDefinition;
  readonly #settings: OAuthSettings;
  readonly #now: () => Date;
  readonly #fetch: GuardedFetch;
  #discovered: { readonly at: number; readonly config: Promise<Configuration> } | undefined;
  #keys: { readonly uri: string; readonly get: JWTVerifyGetKey } | undefined;

  constructor(name: string, definition: ProviderDefinition, settings: OAuthSettings, now: () => Date) {
    this.name = name;
    this.emailOptional = settings.emailOptional ?? definition.emailOptional ?? false;
    this.#definition = definition;
    this.#settings = settings;
    this.#now = now;
    const { url, issuer, baseUrl } = settings;
    this.#fetch = guardedFetch([url, issuer, baseUrl].filter((trusted) => trusted !== undefined));
    this.verifyIdToken = definition.issuer ? (order) => this.#verifyIdToken(order) : undefined;
  }

  async authorizationUrl({ state, scopes, passthrough }: AuthorizeOrder): Promise<Authorization> {
    const oidc = await library();
    const config = await this.#configuration();
    const definition = this.#definition;
    const isOidc = this.#isOidc();
    const verifier = definition.pkce ? oidc.randomPKCECodeVerifier() : undefined;
    const parameters: Record<string, string> = {
      ...(definition.ignoresPassthrough ? {} : Object.fromEntries(passthrough)),
      ...definition.authorizeParameters,
      redirect_uri: this.#settings.redirectUrl,
      state,
    };
    const requested = [...new Set([...definition.scopes, ...(this.#settings.scopes ?? []), ...scopes])];
    if (requested.length > 0) parameters['scope'] = requested.join(definition.scopeSeparator ?? ' ');
    if (verifier !== undefined) {
      parameters['code_challenge'] = await oidc.calculatePKCECodeChallenge(verifier);
      parameters['code_challenge_method'] = 'S256';
    }
    // An application may send its own nonce and check the ID token itself.
    const nonce = isOidc ? (parameters['nonce'] ?? randomBytes(16).toString('base64url')) : undefined;
    if (nonce !== undefined) parameters['nonce'] = nonce;
    const url = oidc.buildAuthorizationUrl(config, parameters);
    url.searchParams.set('response_type', 'code');
    return { url: url.href, secrets: { verifier, nonce } };
  }

  async signIn(callback: CallbackParameters, secrets: FlowSecrets): Promise<ProviderSignIn> {
    const oidc = await library();
    const config = await this.#configuration();
    const isOidc = this.#isOidc();
    const current = new URL(this.#settings.redirectUrl);
    for (const name of ['code', 'state', 'iss']) {
      const value = callback[name];
      if (value !== undefined) current.searchParams.set(name, value);
    }
    const answer = await oidc.authorizationCodeGrant(config, current, {
      expectedState: must(callback['state'], 'state'),
      ...(secrets.verifier === undefined ? {} : { pkceCodeVerifier: secrets.verifier }),
      ...(isOidc && secrets.nonce !== undefined ? { expectedNonce: secrets.nonce } : {}),
      ...(isOidc ? { idTokenExpected: true } : {}),
    });
    const claims = isOidc ? await this.#completeClaims(config, answer) : undefined;
    if (claims) this.#checkIssuer(claims);
    const profile = await this.#definition.profile({
      settings: this.#settings,
      accessToken: answer.access_token,
      idToken: claims,
      tokenAnswer: { ...answer },
      callback,
      get: (url, headers) => this.#get(url, answer.access_token, headers),
    });
    return { profile, accessToken: answer.access_token, refreshToken: answer.refresh_token };
  }

  /** Completes the claims with userinfo, because some providers do not send the address in the ID token. */
  async #completeClaims(
    config: Configuration,
    answer: TokenEndpointResponse & TokenEndpointResponseHelpers,
  ): Promise<JsonObject> {
    const claims: JsonObject = { ...must(answer.claims(), 'the ID token') };
    if (claims['email'] !== undefined || config.serverMetadata().userinfo_endpoint === undefined)
      return claims;
    const { fetchUserInfo } = await library();
    const info = await fetchUserInfo(config, answer.access_token, String(claims['sub']));
    // Address and flag must come from the same source: a flag alone does not refer to an address.
    return { ...info, ...claims, email: info.email, email_verified: info.email_verified };
  }

  #checkIssuer(claims: JsonObject): void {
    const accepts = this.#definition.acceptsIssuer;
    if (!accepts || this.#settings.baseUrl !== undefined) return;
    if (!accepts(String(claims['iss']), claims, this.#settings))
      throw new Error('the ID token has another issuer');
  }

  #isOidc(): boolean {
    return this.#definition.issuer !== undefined && this.#definition.endpoints === undefined;
  }

  async #configuration(): Promise<Configuration> {
    const { endpoints } = this.#definition;
    if (!endpoints) return await this.#discover();
    return await this.#plainConfiguration(perSettings(endpoints, this.#settings));
  }

  async #plainConfiguration(endpoints: Endpoints): Promise<Configuration> {
    const oidc = await library();
    const config = new oidc.Configuration(
      {
        issuer: new URL(this.#at(endpoints.authorize)).origin,
        authorization_endpoint: this.#at(endpoints.authorize),
        token_endpoint: this.#at(endpoints.token),
      },
      this.#clientId(),
      { client_secret: this.#settings.clientSecret },
      this.#clientAuth(oidc),
    );
    if (this.#settings.baseUrl ?? this.#settings.url) oidc.allowInsecureRequests(config);
    config[oidc.customFetch] = async (url, init) => normalizeTokenResponse(await this.#fetch(url, init));
    return config;
  }

  /**
   * Fetches the discovery document once. A failed attempt is not cached, so that the next sign-in retries.
   */
  async #discover(): Promise<Configuration> {
    const now = this.#now().getTime();
    if (!this.#discovered || now - this.#discovered.at > DISCOVERY_MS) {
      const config = this.#readDiscovery();
      this.#discovered = { at: now, config };
      config.catch(() => {
        this.#discovered = undefined;
      });
    }
    return await this.#discovered.config;
  }

  async #readDiscovery(): Promise<Configuration> {
    const oidc = await library();
    const { baseUrl, url } = this.#settings;
    const issuer = must(this.#definition.issuer, 'an issuer');
    const address = new URL(baseUrl ?? perSettings(issuer, this.#settings));
    const config = await oidc.discovery(
      address,
      this.#clientId(),
      { client_secret: this.#settings.clientSecret },
      this.#clientAuth(oidc),
      {
        [oidc.customFetch]: (target, init) => this.#fetch(target, init),
        ...((baseUrl ?? url ?? this.#settings.issuer) ? { execute: [oidc.allowInsecureRequests] } : {}),
      },
    );
    // Checks the signature although the token came over TLS, because a proxy may have terminated TLS.
    oidc.enableNonRepudiationChecks(config);
    return config;
  }

  async #verifyIdToken({ idToken, accessToken, nonce }: IdTokenOrder): Promise<ProviderProfile> {
    const config = await this.#discover();
    const metadata = config.serverMetadata();
    const uri = must(metadata.jwks_uri, 'jwks_uri');
    if (this.#keys?.uri !== uri) {
      const get = createRemoteJWKSet(new URL(uri), {
        [jwksFetch]: (target: string, init: RequestInit) =>
          this.#fetch(target, { method: 'GET', headers: init.headers }),
      });
      this.#keys = { uri, get };
    }
    let claims: JsonObject;
    try {
      const verified = await jwtVerify(idToken, this.#keys.get, {
        algorithms: ID_TOKEN_ALGORITHMS,
        audience: this.#clientIds(),
        currentDate: this.#now(),
        clockTolerance: 30,
        requiredClaims: ['iss', 'sub', 'aud', 'exp'],
      });
      claims = { ...verified.payload };
    } catch (cause) {
      const isAudience = cause instanceof Error && 'claim' in cause && cause.claim === 'aud';
      throw new IdTokenRefused(isAudience ? 'Unacceptable audience in id_token' : 'Bad ID token', cause);
    }
    const { azp, iss } = claims;
    if (
      azp !== undefined &&
      Array.isArray(claims['aud']) &&
      !(typeof azp === 'string' && this.#clientIds().includes(azp))
    ) {
      throw new IdTokenRefused('Unacceptable audience in id_token');
    }
    const accepts = this.#settings.baseUrl === undefined ? this.#definition.acceptsIssuer : undefined;
    const isIssuer = accepts ? accepts(String(iss), claims, this.#settings) : iss === metadata.issuer;
    if (!isIssuer) throw new IdTokenRefused('Bad ID token');
    if (accessToken !== undefined && claims['at_hash'] !== undefined)
      checkAccessTokenHash(idToken, accessToken, claims['at_hash']);
    if (!this.#definition.skipsNonce) checkNonce(nonce, claims['nonce']);
    return await this.#definition.profile({
      settings: this.#settings,
      accessToken: accessToken ?? '',
      idToken: claims,
      tokenAnswer: {},
      callback: {},
      // Only the claims of the token count: an access token from a client is not used for calls.
      get: () => Promise.resolve({}),
    });
  }

  async #get(
    url: string,
    accessToken: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<unknown> {
    const response = await this.#fetch(this.#at(url), {
      headers: { accept: 'application/json', authorization: `Bearer ${accessToken}`, ...headers },
    });
    if (!response.ok) throw new Error(`${new URL(url).host} answered ${response.status}`);
    return await response.json();
  }

  /** Returns the URL, with the base URL of the environment if one is set. */
  #at(url: string): string {
    const { baseUrl } = this.#settings;
    if (baseUrl === undefined) return url;
    const { pathname, search } = new URL(url);
    return `${baseUrl.replace(/\/+$/, '')}${pathname}${search}`;
  }

  /**
   * Returns the client ids, which are separated by commas because native apps have their own. Redirects
   * use the first.
   */
  #clientIds(): string[] {
    return this.#settings.clientId
      .split(',')
      .map((id) => id.trim())
      .filter((id) => id !== '');
  }

  #clientId(): string {
    return this.#clientIds()[0] ?? '';
  }

  #clientAuth(oidc: Awaited<ReturnType<typeof library>>): ClientAuth {
    const { clientSecret } = this.#settings;
    return this.#definition.clientAuth === 'basic'
      ? oidc.ClientSecretBasic(clientSecret)
      : oidc.ClientSecretPost(clientSecret);
  }
}

/**
 * Normalizes token responses of plain OAuth 2 providers, which deviate from the standard in small ways:
 * scopes as a list,
 * numbers as text, no token type. Drops an ID token, because nothing checks it.
 */
async function normalizeTokenResponse(response: Response): Promise<Response> {
  if (!response.ok) return response;
  const answer: unknown = await response
    .clone()
    .json()
    .catch(() => undefined);
  if (!isJsonObject(answer) || typeof answer['access_token'] !== 'string') return response;
  const { id_token: _unchecked, scope, expires_in: expiresIn, refresh_token: refreshToken, ...rest } = answer;
  const seconds = Number(expiresIn);
  const body = {
    ...rest,
    token_type: 'bearer',
    ...(Array.isArray(scope) ? { scope: scope.join(' ') } : typeof scope === 'string' ? { scope } : {}),
    ...(expiresIn !== undefined && Number.isFinite(seconds) && seconds > 0 ? { expires_in: seconds } : {}),
    ...(typeof refreshToken === 'string' && refreshToken !== '' ? { refresh_token: refreshToken } : {}),
  };
  return Response.json(body, { status: response.status });
}

function checkNonce(presented: string | undefined, claimed: unknown): void {
  const hasClaim = typeof claimed === 'string' && claimed !== '';
  if ((presented !== undefined && presented !== '') !== hasClaim) {
    throw new IdTokenRefused('Passed nonce and nonce in id_token should either both exist or not.');
  }
  if (!hasClaim) return;
  const expected = Buffer.from(
    createHash('sha256')
      .update(presented ?? '')
      .digest('hex'),
  );
  const actual = Buffer.from(claimed);
  if (expected.length !== actual.length || !timingSafeEqual(expected, actual)) {
    throw new IdTokenRefused('Nonces mismatch', undefined, 'invalid nonce');
  }
}

/** OpenID Connect Core 3.1.3.6: the left half of the hash that belongs to the token's algorithm. */
function checkAccessTokenHash(idToken: string, accessToken: string, claimed: unknown): void {
  const { alg = '' } = decodeProtectedHeader(idToken);
  const digest = createHash(`sha${alg.slice(2)}`)
    .update(accessToken)
    .digest();
  if (claimed !== digest.subarray(0, digest.length / 2).toString('base64url'))
    throw new IdTokenRefused('Bad ID token');
}
