// The `auth` section.
import { z } from 'zod';
import { asWritten, duration, flag, list, secret, section, text } from './kinds.ts';
import { userTrigger } from './tables/triggers.ts';

const oauthProvider = z
  .strictObject({
    client_id: asWritten('From the provider').min(1, 'must not be empty'),
    client_secret: secret('From the provider; usually `${…}`'),
    redirect_url: text(
      'This service’s callback, registered at the provider: `{base_url}/auth/v1/callback/<provider>`',
      'https://api.example.com/auth/v1/callback/google',
    ),
    issuer: text('OIDC issuer, for a provider that is not built in').optional(),
    url: text(
      'Base URL of a self-hosted or tenant-bound provider (gitlab, keycloak, azure, workos)',
    ).optional(),
    scopes: z.array(z.string()).meta({ description: 'Scopes asked for beside the built-in ones' }).optional(),
    email_optional: z
      .boolean()
      .meta({ description: 'Accounts without an address may sign in too; absent leaves it to the provider' })
      .optional(),
  })
  .transform(({ client_id, client_secret, redirect_url, email_optional, ...same }) => ({
    ...same,
    clientId: client_id,
    clientSecret: client_secret,
    redirectUrl: redirect_url,
    emailOptional: email_optional,
  }));

export type RawOAuthProvider = z.infer<typeof oauthProvider>;

const template = z.strictObject({
  subject: text('Subject line').optional(),
  body: text('HTML or text body').optional(),
  body_file: text('File with the body, relative to svc.yaml; instead of `body`').optional(),
});

export type RawTemplate = z.infer<typeof template>;

export const auth = section('Auth; always there, also without this block', {
  jwt_expiry: duration('Lifetime of an access token; at least 2m', '15m'),
  refresh_token_expiry: duration('Lifetime of a refresh token', '7d'),
  refresh_tokens: z
    .boolean()
    .meta({ description: 'Ignored: refresh tokens are always issued', deprecated: true })
    .optional(),
  allow_signup: flag('Anybody may sign up; false means by invitation', true),
  allow_anonymous: flag('Anonymous sign-in; also off whenever sign-up is', true),
  redirect_urls: list(
    'Where a browser may be sent after sign-in; the server’s own origin always',
    z.string().regex(/^[A-Za-z][A-Za-z\d+.-]*:\/\/\S+$/, 'is not a URL such as https://app.example.com'),
  ),
  email: z
    .strictObject({
      verify_email: flag('No session before the address is confirmed; needs `providers.email`'),
      templates: z.record(z.string(), template).prefault({}).meta({
        description:
          'Mail templates by name: confirm, recovery, magic_link, invite, email_change, reauthentication',
      }),
    })
    .nullable()
    .meta({ description: 'Mail flows; magic link and one-time password exist only with this block' })
    .optional(),
  oauth: z
    .record(z.string(), oauthProvider)
    .prefault({})
    .meta({ description: 'Providers by name, for example google' }),
  triggers: z
    .array(userTrigger)
    .meta({
      description:
        'Triggers of auth.users, inside the transaction that makes, changes or deletes the user: what fails there refuses it',
    })
    .optional(),
});
