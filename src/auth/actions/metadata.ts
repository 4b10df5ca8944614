// Describes the service: /settings, /health, the key set and the discovery document.
import { OAUTH_PROVIDERS } from '../../config/schema/names.ts';
import { json, type Answer, type AuthRequest } from '../http/request.ts';

/** Former names of providers that clients still look for. */
const FORMER_PROVIDERS = ['linkedin', 'slack', 'snapchat'];

export function settings({ settings: current }: AuthRequest): Answer {
  const listed = [...OAUTH_PROVIDERS, ...FORMER_PROVIDERS].sort();
  const providers = [...new Set([...listed, ...Object.keys(current.oauth)])];
  return json({
    external: {
      anonymous_users: current.allowAnonymous && current.allowSignup,
      email: true,
      phone: false,
      ...Object.fromEntries(providers.map((name) => [name, name in current.oauth])),
    },
    disable_signup: !current.allowSignup,
    mailer_autoconfirm: !current.verifyEmail,
    phone_autoconfirm: false,
    sms_provider: '',
    saml_enabled: false,
    saml_private_key_next_configured: false,
    passkeys_enabled: false,
  });
}

export function health(): Answer {
  return json({
    version: '1',
    name: 'svc auth',
    description: 'svc auth is a user registration and sign-in API',
  });
}

const PUBLIC = { 'cache-control': 'public, max-age=600', pragma: 'cache' } as const;

export function jwks({ auth }: AuthRequest): Answer {
  return json({ keys: auth.signingKeys.publicKeys }, PUBLIC);
}

export function openidConfiguration({ authUrl }: AuthRequest): Answer {
  return json(
    {
      issuer: authUrl,
      jwks_uri: `${authUrl}/.well-known/jwks.json`,
      authorization_endpoint: `${authUrl}/authorize`,
      token_endpoint: `${authUrl}/token`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['ES256'],
      code_challenge_methods_supported: ['S256', 'plain'],
    },
    PUBLIC,
  );
}
