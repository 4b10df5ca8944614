// The providers a name alone is enough for. Each entry says how it decides that an address is verified: this is
// where account takeovers come from, so nothing is taken for true that the provider does not assert.
import { createHmac } from 'node:crypto';
import {
  asList,
  asObject,
  asText,
  isTrue,
  isTrueText,
  makeProfile,
  oidcProfile,
  oneEmail,
  requireUrl,
  type ProviderDefinition,
} from './definition.ts';

const google: ProviderDefinition = {
  issuer: () => 'https://accounts.google.com',
  acceptsIssuer: (issuer) => issuer === 'https://accounts.google.com' || issuer === 'accounts.google.com',
  scopes: ['openid', 'email', 'profile'],
  pkce: true,
  clientAuth: 'post',
  profile: ({ idToken = {} }) =>
    oidcProfile(idToken, isTrueText(idToken['email_verified']), {
      custom_claims: asText(idToken['hd']) === undefined ? undefined : { hd: idToken['hd'] },
    }),
};

const apple: ProviderDefinition = {
  issuer: () => 'https://appleid.apple.com',
  acceptsIssuer: (issuer) => issuer === 'https://appleid.apple.com' || issuer === 'https://account.apple.com',
  scopes: ['name', 'email'],
  pkce: false,
  clientAuth: 'post',
  authorizeParameters: { response_mode: 'form_post' },
  ignoresPassthrough: true,
  emailOptional: true,
  profile: ({ idToken = {}, callback }) => {
    // The name comes once, in the first form Apple posts, and never in a token.
    const name = asObject(asObject(parseJson(callback['user']))['name']);
    const fullName = [asText(name['firstName']), asText(name['lastName'])]
      .filter((part) => part !== undefined)
      .join(' ');
    const profile = oidcProfile(idToken, isTrueText(idToken['email_verified']), {
      custom_claims: {
        is_private_email: isTrueText(idToken['is_private_email']),
        auth_time: idToken['auth_time'],
      },
    });
    return fullName === ''
      ? profile
      : { ...profile, claims: { ...profile.claims, name: fullName, full_name: fullName } };
  },
};

const github: ProviderDefinition = {
  endpoints: () => ({
    authorize: 'https://github.com/login/oauth/authorize',
    token: 'https://github.com/login/oauth/access_token',
  }),
  scopes: ['user:email'],
  pkce: true,
  clientAuth: 'post',
  profile: async ({ get }) => {
    const user = asObject(await get('https://api.github.com/user'));
    const listed = asList(await get('https://api.github.com/user/emails')).map(asObject);
    const emails = listed.flatMap((one) => {
      const email = asText(one['email']);
      return email === undefined
        ? []
        : [{ email, verified: isTrue(one['verified']), primary: isTrue(one['primary']) }];
    });
    return makeProfile({
      subject: user['id'],
      issuer: 'https://api.github.com',
      emails,
      name: user['name'],
      userName: user['login'],
      picture: user['avatar_url'],
    });
  },
};

const gitlab: ProviderDefinition = {
  endpoints: ({ url = 'https://gitlab.com' }) => ({
    authorize: `${url}/oauth/authorize`,
    token: `${url}/oauth/token`,
  }),
  scopes: ['read_user'],
  pkce: true,
  clientAuth: 'post',
  profile: async ({ get, settings: { url = 'https://gitlab.com' } }) => {
    const user = asObject(await get(`${url}/api/v4/user`));
    return makeProfile({
      subject: user['id'],
      issuer: url,
      emails: oneEmail(user['email'], asText(user['confirmed_at']) !== undefined),
      name: user['name'],
      userName: user['username'],
      picture: user['avatar_url'],
    });
  },
};

const bitbucket: ProviderDefinition = {
  endpoints: () => ({
    authorize: 'https://bitbucket.org/site/oauth2/authorize',
    token: 'https://bitbucket.org/site/oauth2/access_token',
  }),
  scopes: ['account', 'email'],
  pkce: false,
  clientAuth: 'basic',
  profile: async ({ get }) => {
    const user = asObject(await get('https://api.bitbucket.org/2.0/user'));
    const listed = asList(asObject(await get('https://api.bitbucket.org/2.0/user/emails'))['values']).map(
      asObject,
    );
    const emails = listed.flatMap((one) => {
      const email = asText(one['email']);
      return email === undefined
        ? []
        : [{ email, verified: isTrue(one['is_confirmed']), primary: isTrue(one['is_primary']) }];
    });
    return makeProfile({
      subject: user['uuid'],
      issuer: 'https://api.bitbucket.org',
      emails,
      name: user['display_name'],
      userName: user['username'] ?? user['nickname'],
      picture: asObject(asObject(user['links'])['avatar'])['href'],
    });
  },
};

const MICROSOFT = 'https://login.microsoftonline.com';
const AZURE_TENANTS: ReadonlySet<string> = new Set(['common', 'organizations', 'consumers']);

const azure: ProviderDefinition = {
  issuer: ({ url = `${MICROSOFT}/common` }) => `${url.replace(/\/+$/, '')}/v2.0`,
  acceptsIssuer: (issuer, claims, { url = `${MICROSOFT}/common`, baseUrl }) => {
    if (baseUrl !== undefined) return issuer.startsWith(baseUrl);
    const tenant = new URL(url).pathname.split('/')[1] ?? '';
    // An application of many tenants sees each tenant's own issuer: it must be the one of the token's tenant.
    if (AZURE_TENANTS.has(tenant)) {
      const tid = asText(claims['tid']) ?? '';
      return /^[0-9a-f-]{36}$/i.test(tid) && issuer === `${MICROSOFT}/${tid}/v2.0`;
    }
    return issuer === `${MICROSOFT}/${tenant}/v2.0`;
  },
  scopes: ['openid', 'profile', 'email'],
  pkce: true,
  clientAuth: 'post',
  profile: ({ idToken = {}, settings: { url = `${MICROSOFT}/common` } }) => {
    const edov = idToken['xms_edov'];
    const isOneTenant = !AZURE_TENANTS.has(new URL(url).pathname.split('/')[1] ?? '');
    // In a foreign tenant anybody can be given any address: without the domain-owner claim it proves nothing.
    const verified = edov === undefined ? isOneTenant : isTrueText(edov);
    return oidcProfile(idToken, verified);
  },
};

const facebook: ProviderDefinition = {
  issuer: () => 'https://www.facebook.com',
  endpoints: () => ({
    authorize: 'https://www.facebook.com/dialog/oauth',
    token: 'https://graph.facebook.com/oauth/access_token',
  }),
  scopes: ['email'],
  scopeSeparator: ',',
  pkce: false,
  clientAuth: 'post',
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
      emails: oneEmail(user['email'], true),
      name: user['name'],
      picture: asObject(asObject(user['picture'])['data'])['url'],
      more: { given_name: asText(user['first_name']), family_name: asText(user['last_name']) },
    });
  },
};

const discord: ProviderDefinition = {
  endpoints: () => ({
    authorize: 'https://discord.com/api/oauth2/authorize',
    token: 'https://discord.com/api/oauth2/token',
  }),
  scopes: ['email', 'identify'],
  pkce: true,
  clientAuth: 'post',
  profile: async ({ get }) => {
    const user = asObject(await get('https://discord.com/api/users/@me'));
    const [id, avatar] = [asText(user['id']), asText(user['avatar'])];
    const discriminator = asText(user['discriminator']) ?? '0';
    const isNumbered = discriminator !== '0';
    const picture =
      avatar === undefined
        ? `https://cdn.discordapp.com/embed/avatars/${isNumbered ? Number(discriminator) % 5 : 0}.png`
        : `https://cdn.discordapp.com/avatars/${id}/${avatar}.${avatar.startsWith('a_') ? 'gif' : 'png'}`;
    return makeProfile({
      subject: user['id'],
      issuer: 'https://discord.com/api',
      emails: oneEmail(user['email'], isTrue(user['verified'])),
      name: isNumbered ? `${asText(user['username'])}#${discriminator}` : user['username'],
      picture,
      more: {
        custom_claims:
          asText(user['global_name']) === undefined ? undefined : { global_name: user['global_name'] },
      },
    });
  },
};

const twitch: ProviderDefinition = {
  endpoints: () => ({
    authorize: 'https://id.twitch.tv/oauth2/authorize',
    token: 'https://id.twitch.tv/oauth2/token',
  }),
  scopes: ['user:read:email'],
  pkce: false,
  clientAuth: 'post',
  profile: async ({ get, settings }) => {
    const answer = asObject(
      await get('https://api.twitch.tv/helix/users', { 'client-id': settings.clientId }),
    );
    const user = asObject(asList(answer['data'])[0]);
    return makeProfile({
      subject: user['id'],
      issuer: 'https://api.twitch.tv',
      emails: oneEmail(user['email'], true),
      name: user['display_name'] ?? user['login'],
      userName: user['login'],
      picture: user['profile_image_url'],
      more: { nickname: asText(user['display_name']) },
    });
  },
};

const spotify: ProviderDefinition = {
  endpoints: () => ({
    authorize: 'https://accounts.spotify.com/authorize',
    token: 'https://accounts.spotify.com/api/token',
  }),
  scopes: ['user-read-email'],
  pkce: true,
  clientAuth: 'basic',
  profile: async ({ get }) => {
    const user = asObject(await get('https://api.spotify.com/v1/me'));
    const images = asList(user['images']).map(asObject);
    const largest = images.toSorted((a, b) => Number(b['height'] ?? 0) - Number(a['height'] ?? 0))[0];
    return makeProfile({
      subject: user['id'],
      issuer: 'https://api.spotify.com/v1',
      // Spotify says itself that this address is unverified.
      emails: oneEmail(user['email'], false),
      name: user['display_name'],
      picture: largest?.['url'],
    });
  },
};

const slackOidc: ProviderDefinition = {
  issuer: () => 'https://slack.com',
  scopes: ['openid', 'profile', 'email'],
  pkce: false,
  clientAuth: 'post',
  profile: async ({ get, idToken = {} }) => {
    const user = { ...idToken, ...asObject(await get('https://slack.com/api/openid.connect.userInfo')) };
    return makeProfile({
      subject: user['https://slack.com/user_id'] ?? user['sub'],
      issuer: 'https://slack.com',
      emails: oneEmail(user['email'], isTrue(user['email_verified'])),
      name: user['name'],
      picture: user['picture'],
      more: { custom_claims: { 'https://slack.com/team_id': user['https://slack.com/team_id'] } },
    });
  },
};

const linkedinOidc: ProviderDefinition = {
  issuer: () => 'https://www.linkedin.com/oauth',
  scopes: ['openid', 'email', 'profile'],
  pkce: false,
  clientAuth: 'post',
  profile: ({ idToken = {} }) => oidcProfile(idToken, isTrueText(idToken['email_verified'])),
};

const notion: ProviderDefinition = {
  endpoints: () => ({
    authorize: 'https://api.notion.com/v1/oauth/authorize',
    token: 'https://api.notion.com/v1/oauth/token',
  }),
  scopes: [],
  pkce: false,
  clientAuth: 'basic',
  authorizeParameters: { owner: 'user' },
  profile: async ({ get }) => {
    const me = asObject(await get('https://api.notion.com/v1/users/me', { 'notion-version': '2022-06-28' }));
    const user = asObject(asObject(asObject(me['bot'])['owner'])['user']);
    return makeProfile({
      subject: user['id'],
      issuer: 'https://api.notion.com',
      emails: oneEmail(asObject(user['person'])['email'], true),
      name: user['name'],
      picture: user['avatar_url'],
    });
  },
};

// Facebook, Google, Apple: they have checked the address. An organisation's own single sign-on says what it likes.
const ZOOM_CHECKED_LOGINS: ReadonlySet<unknown> = new Set([0, 1, 24]);

const zoom: ProviderDefinition = {
  endpoints: () => ({ authorize: 'https://zoom.us/oauth/authorize', token: 'https://zoom.us/oauth/token' }),
  scopes: [],
  pkce: true,
  clientAuth: 'basic',
  profile: async ({ get }) => {
    const user = asObject(await get('https://api.zoom.us/v2/users/me'));
    const logins = asList(user['login_types']);
    const isByAnother = logins.length > 0 && logins.every((login) => ZOOM_CHECKED_LOGINS.has(login));
    const verified = isByAnother || (typeof user['verified'] === 'number' && user['verified'] !== 0);
    return makeProfile({
      subject: user['id'],
      issuer: 'https://api.zoom.us',
      emails: oneEmail(user['email'], verified),
      name: [asText(user['first_name']), asText(user['last_name'])]
        .filter((part) => part !== undefined)
        .join(' '),
      picture: user['pic_url'],
    });
  },
};

const figma: ProviderDefinition = {
  endpoints: () => ({
    authorize: 'https://www.figma.com/oauth',
    token: 'https://api.figma.com/v1/oauth/token',
  }),
  scopes: ['current_user:read'],
  pkce: true,
  clientAuth: 'basic',
  profile: async ({ get }) => {
    const user = asObject(await get('https://api.figma.com/v1/me'));
    return makeProfile({
      subject: user['id'],
      issuer: 'https://api.figma.com',
      emails: oneEmail(user['email'], true),
      name: user['handle'],
      picture: user['img_url'],
    });
  },
};

const fly: ProviderDefinition = {
  endpoints: () => ({
    authorize: 'https://api.fly.io/oauth/authorize',
    token: 'https://api.fly.io/oauth/token',
  }),
  scopes: ['read'],
  pkce: false,
  clientAuth: 'post',
  profile: async ({ get }) => {
    const user = asObject(await get('https://api.fly.io/oauth/token/info'));
    return makeProfile({
      subject: user['user_id'],
      issuer: 'https://api.fly.io',
      emails: oneEmail(user['email'], true),
      name: user['user_name'],
      more: { custom_claims: { organizations: user['organizations'] } },
    });
  },
};

const kakao: ProviderDefinition = {
  issuer: () => 'https://kauth.kakao.com',
  endpoints: () => ({
    authorize: 'https://kauth.kakao.com/oauth/authorize',
    token: 'https://kauth.kakao.com/oauth/token',
  }),
  scopes: ['account_email', 'profile_image', 'profile_nickname'],
  scopeSeparator: ',',
  pkce: false,
  clientAuth: 'post',
  emailOptional: true,
  profile: async ({ get, idToken }) => {
    // Kakao's ID token does not say whether its address is verified.
    if (idToken) return oidcProfile(idToken, false);
    const user = asObject(await get('https://kapi.kakao.com/v2/user/me'));
    const account = asObject(user['kakao_account']);
    const shown = asObject(account['profile']);
    return makeProfile({
      subject: user['id'],
      issuer: 'https://kapi.kakao.com',
      emails: oneEmail(
        account['email'],
        isTrue(account['is_email_verified']) && isTrue(account['is_email_valid']),
      ),
      name: shown['nickname'],
      userName: shown['nickname'],
      picture: shown['profile_image_url'],
    });
  },
};

const KEYCLOAK_STANDARD: ReadonlySet<string> = new Set([
  'sub',
  'iss',
  'aud',
  'exp',
  'iat',
  'auth_time',
  'jti',
  'typ',
  'azp',
  'nonce',
  'sid',
  'at_hash',
  'acr',
  'session_state',
  'email',
  'email_verified',
  'name',
  'preferred_username',
  'given_name',
  'family_name',
  'picture',
  'locale',
]);

const keycloak: ProviderDefinition = {
  issuer: (settings) => requireUrl(settings, 'keycloak'),
  scopes: ['openid', 'profile', 'email'],
  pkce: true,
  clientAuth: 'post',
  profile: ({ idToken = {} }) => {
    const extra = Object.entries(idToken).filter(([name]) => !KEYCLOAK_STANDARD.has(name));
    return oidcProfile(idToken, isTrue(idToken['email_verified']), {
      custom_claims: extra.length > 0 ? Object.fromEntries(extra) : undefined,
    });
  },
};

const workos: ProviderDefinition = {
  endpoints: ({ url = 'https://api.workos.com' }) => ({
    authorize: `${url}/sso/authorize`,
    token: `${url}/sso/token`,
  }),
  scopes: [],
  pkce: false,
  clientAuth: 'post',
  profile: ({ tokenAnswer }) => {
    const user = asObject(tokenAnswer['profile']);
    return makeProfile({
      subject: user['id'],
      issuer: 'https://api.workos.com',
      emails: oneEmail(user['email'], true),
      name: [asText(user['first_name']), asText(user['last_name'])]
        .filter((part) => part !== undefined)
        .join(' '),
      more: {
        custom_claims: {
          connection_id: user['connection_id'],
          organization_id: user['organization_id'],
        },
      },
    });
  },
};

const X_FIELDS = 'confirmed_email,description,profile_image_url,url,username,verified';

const x: ProviderDefinition = {
  endpoints: () => ({
    authorize: 'https://x.com/i/oauth2/authorize',
    token: 'https://api.x.com/2/oauth2/token',
  }),
  scopes: ['users.email', 'tweet.read', 'users.read', 'offline.access'],
  pkce: true,
  clientAuth: 'basic',
  emailOptional: true,
  profile: async ({ get }) => {
    const user = asObject(
      asObject(await get(`https://api.x.com/2/users/me?user.fields=${X_FIELDS}`))['data'],
    );
    return makeProfile({
      subject: user['id'],
      issuer: 'https://api.x.com/2',
      // Only an address X has confirmed is ever sent.
      emails: oneEmail(user['confirmed_email'], true),
      name: user['name'],
      userName: user['username'],
      picture: user['profile_image_url'],
    });
  },
};

export const BUILT_IN: Readonly<Record<string, ProviderDefinition>> = {
  google,
  apple,
  github,
  gitlab,
  bitbucket,
  azure,
  facebook,
  discord,
  twitch,
  spotify,
  slack_oidc: slackOidc,
  linkedin_oidc: linkedinOidc,
  notion,
  zoom,
  figma,
  fly,
  kakao,
  keycloak,
  workos,
  x,
  twitter: x,
};

/** Any other provider that speaks OIDC, by its issuer alone. */
export function customOidc(issuer: string): ProviderDefinition {
  return {
    issuer: () => issuer,
    scopes: ['openid', 'profile', 'email'],
    pkce: true,
    clientAuth: 'post',
    profile: ({ idToken = {} }) => oidcProfile(idToken, isTrue(idToken['email_verified'])),
  };
}

function parseJson(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // A browser carried this; what cannot be read is as good as absent.
    return undefined;
  }
}
