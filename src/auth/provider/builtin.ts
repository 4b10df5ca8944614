// The built-in providers. `verified` is true only if the provider itself asserts that it has checked the
// address: a wrong value would allow account takeovers.
import { createHmac } from 'node:crypto';
import {
  asList,
  asObject,
  asText,
  endpointsAt,
  fromApi,
  fullName,
  isTrue,
  isTrueText,
  listedEmails,
  makeProfile,
  oidcProfile,
  singleEmail,
  type ProviderDefinition,
} from './definition.ts';

const OIDC_SCOPES = ['openid', 'profile', 'email'];
const MICROSOFT = 'https://login.microsoftonline.com';
const AZURE_SHARED_TENANTS: ReadonlySet<string> = new Set(['common', 'organizations', 'consumers']);
const azureTenant = (url = `${MICROSOFT}/common`): string => new URL(url).pathname.split('/')[1] ?? '';

// Facebook, Google and Apple have checked the address. An organisation's single sign-on may send any address.
const ZOOM_CHECKED_LOGINS: ReadonlySet<unknown> = new Set([0, 1, 24]);

const KEYCLOAK_STANDARD: ReadonlySet<string> = new Set(
  (
    'sub iss aud exp iat auth_time jti typ azp nonce sid at_hash acr session_state email email_verified name ' +
    'preferred_username given_name family_name picture locale'
  ).split(' '),
);

const X_FIELDS = 'confirmed_email,description,profile_image_url,url,username,verified';

const x: ProviderDefinition = {
  endpoints: {
    authorize: 'https://x.com/i/oauth2/authorize',
    token: 'https://api.x.com/2/oauth2/token',
  },
  scopes: ['users.email', 'tweet.read', 'users.read', 'offline.access'],
  pkce: true,
  clientAuth: 'basic',
  emailOptional: true,
  profile: fromApi(`https://api.x.com/2/users/me?user.fields=${X_FIELDS}`, (answer) => {
    const user = asObject(answer['data']);
    return {
      subject: user['id'],
      issuer: 'https://api.x.com/2',
      // X sends only confirmed addresses.
      emails: singleEmail(user['confirmed_email'], true),
      name: user['name'],
      userName: user['username'],
      picture: user['profile_image_url'],
    };
  }),
};

export const BUILT_IN: Readonly<Record<string, ProviderDefinition>> = {
  google: {
    issuer: 'https://accounts.google.com',
    acceptsIssuer: (issuer) => issuer === 'https://accounts.google.com' || issuer === 'accounts.google.com',
    scopes: ['openid', 'email', 'profile'],
    pkce: true,
    profile: ({ idToken = {} }) =>
      oidcProfile(idToken, isTrueText(idToken['email_verified']), {
        custom_claims: asText(idToken['hd']) === undefined ? undefined : { hd: idToken['hd'] },
      }),
  },

  apple: {
    issuer: 'https://appleid.apple.com',
    acceptsIssuer: (issuer) =>
      issuer === 'https://appleid.apple.com' || issuer === 'https://account.apple.com',
    scopes: ['name', 'email'],
    authorizeParameters: { response_mode: 'form_post' },
    ignoresPassthrough: true,
    emailOptional: true,
    profile: ({ idToken = {}, callback }) => {
      // Apple sends the name once, in the first form it posts, and never in a token.
      const name = asObject(asObject(parseJson(callback['user']))['name']);
      const full = fullName(name['firstName'], name['lastName']);
      const { is_private_email, auth_time } = idToken;
      return oidcProfile(idToken, isTrueText(idToken['email_verified']), {
        custom_claims: { is_private_email: isTrueText(is_private_email), auth_time },
        ...(full !== '' && { name: full, full_name: full }),
      });
    },
  },

  github: {
    endpoints: endpointsAt('https://github.com/login/oauth', '/authorize', '/access_token'),
    scopes: ['user:email'],
    pkce: true,
    profile: fromApi('https://api.github.com/user', async (user, { get }) => ({
      emails: listedEmails(await get('https://api.github.com/user/emails'), 'verified', 'primary'),
      name: user['name'],
      userName: user['login'],
      picture: user['avatar_url'],
    })),
  },

  gitlab: {
    endpoints: ({ url = 'https://gitlab.com' }) => endpointsAt(url, '/oauth/authorize', '/oauth/token'),
    scopes: ['read_user'],
    pkce: true,
    profile: async ({ get, settings: { url = 'https://gitlab.com' } }) => {
      const user = asObject(await get(`${url}/api/v4/user`));
      return makeProfile({
        subject: user['id'],
        issuer: url,
        emails: singleEmail(user['email'], asText(user['confirmed_at']) !== undefined),
        name: user['name'],
        userName: user['username'],
        picture: user['avatar_url'],
      });
    },
  },

  bitbucket: {
    endpoints: endpointsAt('https://bitbucket.org/site/oauth2', '/authorize', '/access_token'),
    scopes: ['account', 'email'],
    clientAuth: 'basic',
    profile: fromApi('https://api.bitbucket.org/2.0/user', async (user, { get }) => ({
      subject: user['uuid'],
      emails: listedEmails(
        asObject(await get('https://api.bitbucket.org/2.0/user/emails'))['values'],
        'is_confirmed',
        'is_primary',
      ),
      name: user['display_name'],
      userName: user['username'] ?? user['nickname'],
      picture: asObject(asObject(user['links'])['avatar'])['href'],
    })),
  },

  azure: {
    issuer: ({ url = `${MICROSOFT}/common` }) => `${url.replace(/\/+$/, '')}/v2.0`,
    acceptsIssuer: (issuer, claims, { url, baseUrl }) => {
      if (baseUrl !== undefined) return issuer.startsWith(baseUrl);
      const tenant = azureTenant(url);
      if (!AZURE_SHARED_TENANTS.has(tenant)) return issuer === `${MICROSOFT}/${tenant}/v2.0`;
      // A multi-tenant application sees one issuer per tenant. It must be the issuer of the token's tenant.
      const tid = asText(claims['tid']) ?? '';
      return /^[0-9a-f-]{36}$/i.test(tid) && issuer === `${MICROSOFT}/${tid}/v2.0`;
    },
    scopes: OIDC_SCOPES,
    pkce: true,
    profile: ({ idToken = {}, settings: { url } }) => {
      const edov = idToken['xms_edov'];
      // A foreign tenant can assign any address to any user, so it proves nothing without the domain-owner claim.
      const verified = edov === undefined ? !AZURE_SHARED_TENANTS.has(azureTenant(url)) : isTrueText(edov);
      return oidcProfile(idToken, verified);
    },
  },

  facebook: {
    issuer: 'https://www.facebook.com',
    endpoints: {
      authorize: 'https://www.facebook.com/dialog/oauth',
      token: 'https://graph.facebook.com/oauth/access_token',
    },
    scopes: ['email'],
    scopeSeparator: ',',
    emailOptional: true,
    skipsNonce: true,
    profile: async ({ get, accessToken, settings, idToken }) => {
      if (idToken) return oidcProfile(idToken, asText(idToken['email']) !== undefined);
      const proof = createHmac('sha256', settings.clientSecret).update(accessToken).digest('hex');
      const fields = 'id,email,first_name,last_name,name,picture';
      const user = asObject(
        await get(`https://graph.facebook.com/me?fields=${fields}&appsecret_proof=${proof}`),
      );
      return makeProfile({
        subject: user['id'],
        issuer: 'https://graph.facebook.com',
        emails: singleEmail(user['email'], true),
        name: user['name'],
        picture: asObject(asObject(user['picture'])['data'])['url'],
        more: { given_name: asText(user['first_name']), family_name: asText(user['last_name']) },
      });
    },
  },

  discord: {
    endpoints: endpointsAt('https://discord.com/api/oauth2', '/authorize', '/token'),
    scopes: ['email', 'identify'],
    pkce: true,
    profile: fromApi('https://discord.com/api/users/@me', (user) => {
      const [id, avatar, globalName] = [user['id'], user['avatar'], user['global_name']].map(asText);
      const discriminator = asText(user['discriminator']) ?? '0';
      const isNumbered = discriminator !== '0';
      const picture =
        avatar === undefined
          ? `https://cdn.discordapp.com/embed/avatars/${isNumbered ? Number(discriminator) % 5 : 0}.png`
          : `https://cdn.discordapp.com/avatars/${id}/${avatar}.${avatar.startsWith('a_') ? 'gif' : 'png'}`;
      return {
        issuer: 'https://discord.com/api',
        emails: singleEmail(user['email'], isTrue(user['verified'])),
        name: isNumbered ? `${asText(user['username'])}#${discriminator}` : user['username'],
        picture,
        more: { custom_claims: globalName && { global_name: user['global_name'] } },
      };
    }),
  },

  twitch: {
    endpoints: endpointsAt('https://id.twitch.tv/oauth2', '/authorize', '/token'),
    scopes: ['user:read:email'],
    profile: async ({ get, settings }) => {
      const headers = { 'client-id': settings.clientId };
      const answer = asObject(await get('https://api.twitch.tv/helix/users', headers));
      const user = asObject(asList(answer['data'])[0]);
      return makeProfile({
        subject: user['id'],
        issuer: 'https://api.twitch.tv',
        emails: singleEmail(user['email'], true),
        name: user['display_name'] ?? user['login'],
        userName: user['login'],
        picture: user['profile_image_url'],
        more: { nickname: asText(user['display_name']) },
      });
    },
  },

  spotify: {
    endpoints: endpointsAt('https://accounts.spotify.com', '/authorize', '/api/token'),
    scopes: ['user-read-email'],
    pkce: true,
    clientAuth: 'basic',
    profile: fromApi('https://api.spotify.com/v1/me', (user) => {
      const images = asList(user['images']).map(asObject);
      const largest = images.toSorted((a, b) => Number(b['height'] ?? 0) - Number(a['height'] ?? 0))[0];
      return {
        issuer: 'https://api.spotify.com/v1',
        // Spotify documents this address as unverified.
        emails: singleEmail(user['email'], false),
        name: user['display_name'],
        picture: largest?.['url'],
      };
    }),
  },

  slack_oidc: {
    issuer: 'https://slack.com',
    scopes: OIDC_SCOPES,
    profile: async ({ get, idToken = {} }) => {
      const user = { ...idToken, ...asObject(await get('https://slack.com/api/openid.connect.userInfo')) };
      return makeProfile({
        subject: user['https://slack.com/user_id'] ?? user['sub'],
        issuer: 'https://slack.com',
        emails: singleEmail(user['email'], isTrue(user['email_verified'])),
        name: user['name'],
        picture: user['picture'],
        more: { custom_claims: { 'https://slack.com/team_id': user['https://slack.com/team_id'] } },
      });
    },
  },

  linkedin_oidc: {
    issuer: 'https://www.linkedin.com/oauth',
    scopes: ['openid', 'email', 'profile'],
    profile: ({ idToken = {} }) => oidcProfile(idToken, isTrueText(idToken['email_verified'])),
  },

  notion: {
    endpoints: endpointsAt('https://api.notion.com/v1/oauth', '/authorize', '/token'),
    scopes: [],
    clientAuth: 'basic',
    authorizeParameters: { owner: 'user' },
    profile: async ({ get }) => {
      const headers = { 'notion-version': '2022-06-28' };
      const me = asObject(await get('https://api.notion.com/v1/users/me', headers));
      const user = asObject(asObject(asObject(me['bot'])['owner'])['user']);
      return makeProfile({
        subject: user['id'],
        issuer: 'https://api.notion.com',
        emails: singleEmail(asObject(user['person'])['email'], true),
        name: user['name'],
        picture: user['avatar_url'],
      });
    },
  },

  zoom: {
    endpoints: endpointsAt('https://zoom.us/oauth', '/authorize', '/token'),
    scopes: [],
    pkce: true,
    clientAuth: 'basic',
    profile: fromApi('https://api.zoom.us/v2/users/me', (user) => {
      const logins = asList(user['login_types']);
      const isByAnother = logins.length > 0 && logins.every((login) => ZOOM_CHECKED_LOGINS.has(login));
      const verified = isByAnother || (typeof user['verified'] === 'number' && user['verified'] !== 0);
      return {
        emails: singleEmail(user['email'], verified),
        name: fullName(user['first_name'], user['last_name']),
        picture: user['pic_url'],
      };
    }),
  },

  figma: {
    endpoints: {
      authorize: 'https://www.figma.com/oauth',
      token: 'https://api.figma.com/v1/oauth/token',
    },
    scopes: ['current_user:read'],
    pkce: true,
    clientAuth: 'basic',
    profile: fromApi('https://api.figma.com/v1/me', (user) => ({
      emails: singleEmail(user['email'], true),
      name: user['handle'],
      picture: user['img_url'],
    })),
  },

  fly: {
    endpoints: endpointsAt('https://api.fly.io/oauth', '/authorize', '/token'),
    scopes: ['read'],
    profile: fromApi('https://api.fly.io/oauth/token/info', (user) => ({
      subject: user['user_id'],
      emails: singleEmail(user['email'], true),
      name: user['user_name'],
      more: { custom_claims: { organizations: user['organizations'] } },
    })),
  },

  kakao: {
    issuer: 'https://kauth.kakao.com',
    endpoints: endpointsAt('https://kauth.kakao.com/oauth', '/authorize', '/token'),
    scopes: ['account_email', 'profile_image', 'profile_nickname'],
    scopeSeparator: ',',
    emailOptional: true,
    profile: async ({ get, idToken }) => {
      // Kakao's ID token does not contain whether its address is verified.
      if (idToken) return oidcProfile(idToken, false);
      const user = asObject(await get('https://kapi.kakao.com/v2/user/me'));
      const account = asObject(user['kakao_account']);
      const { nickname, profile_image_url: picture } = asObject(account['profile']);
      const verified = isTrue(account['is_email_verified']) && isTrue(account['is_email_valid']);
      return makeProfile({
        subject: user['id'],
        issuer: 'https://kapi.kakao.com',
        emails: singleEmail(account['email'], verified),
        name: nickname,
        userName: nickname,
        picture,
      });
    },
  },

  keycloak: {
    issuer: ({ url }) => {
      if (!url) throw new Error('auth.oauth.keycloak.url is not set');
      return url.replace(/\/+$/, '');
    },
    scopes: OIDC_SCOPES,
    pkce: true,
    profile: ({ idToken = {} }) => {
      const extra = Object.entries(idToken).filter(([name]) => !KEYCLOAK_STANDARD.has(name));
      return oidcProfile(idToken, isTrue(idToken['email_verified']), {
        custom_claims: extra.length > 0 ? Object.fromEntries(extra) : undefined,
      });
    },
  },

  workos: {
    endpoints: ({ url = 'https://api.workos.com' }) => endpointsAt(url, '/sso/authorize', '/sso/token'),
    scopes: [],
    profile: ({ tokenAnswer }) => {
      const user = asObject(tokenAnswer['profile']);
      const { connection_id, organization_id } = user;
      return makeProfile({
        subject: user['id'],
        issuer: 'https://api.workos.com',
        emails: singleEmail(user['email'], true),
        name: fullName(user['first_name'], user['last_name']),
        more: { custom_claims: { connection_id, organization_id } },
      });
    },
  },

  x,
  twitter: x,
};

/** Returns the definition of any other OpenID Connect provider, by its issuer. */
export function customOidc(issuer: string): ProviderDefinition {
  return {
    issuer,
    scopes: OIDC_SCOPES,
    pkce: true,
    profile: ({ idToken = {} }) => oidcProfile(idToken, isTrue(idToken['email_verified'])),
  };
}

function parseJson(text = ''): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // The text came through a browser, so unreadable text counts as absent.
    return undefined;
  }
}
