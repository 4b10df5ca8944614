// The `auth` section.
import { z } from 'zod';
import { asWritten, choice, COMMON, duration, flag, list, secret, section, text } from './kinds.ts';
import { NOTICE_KINDS } from './names.ts';
import { userTrigger } from './tables/triggers.ts';

const MAX_HOOK_MS = 10_000;

const oauthProvider = z
  .strictObject({
    client_id: asWritten('From the provider').min(1, 'must not be empty').meta(COMMON),
    client_secret: secret('From the provider; usually `${…}`').meta(COMMON),
    redirect_url: text(
      'This service’s callback, registered at the provider: `{base_url}/auth/v1/callback/<provider>`',
      'https://api.example.com/auth/v1/callback/google',
    ).meta(COMMON),
    issuer: text('OIDC issuer, for a provider that is not built in').optional(),
    url: text(
      'Base URL of a self-hosted or tenant-bound provider (gitlab, keycloak, azure, workos)',
    ).optional(),
    scopes: z.array(z.string()).meta({ description: 'Scopes in addition to the built-in ones' }).optional(),
    email_optional: z
      .boolean()
      .meta({ description: 'Allow accounts without an address; the default depends on the provider' })
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

const hook = (description: string) =>
  z
    .strictObject({
      rpc: text(
        'SQL function: an entry of `rpc` with one `jsonb` argument, `returns: { type: jsonb }` and `expose: false`',
      ).optional(),
      function: text('Code function: an entry of `functions`, which clients then cannot call').optional(),
      timeout: duration('Deadline of one call, 100ms to 10s', '2s', { least: 100, most: MAX_HOOK_MS }),
    })
    .meta({ description });

export type RawHook = z.infer<ReturnType<typeof hook>>;

/** Returns whether a hook calls the code function. */
export function isHookFunction(
  { auth: { hooks } }: { readonly auth: z.infer<typeof auth> },
  name: string,
): boolean {
  return hooks?.custom_access_token?.function === name;
}

export const auth = section('Auth; always available, even without this block', {
  jwt_expiry: duration(
    'Lifetime of an access token; below 2m, client libraries refresh at every request',
    '15m',
  ).meta(COMMON),
  refresh_token_expiry: duration('Lifetime of a refresh token', '7d'),
  refresh_tokens: z
    .boolean()
    .meta({ description: 'Ignored: refresh tokens are always issued', deprecated: true })
    .optional(),
  allow_signup: flag('Anyone can sign up; with `false` users need an invitation', true).meta(COMMON),
  allow_anonymous: flag('Anonymous sign-in; disabled if sign-up is disabled', true).meta(COMMON),
  redirect_urls: list(
    'URLs to which a browser may return after sign-in; the origin of the server is always allowed',
    z.string().regex(/^[A-Za-z][A-Za-z\d+.-]*:\/\/\S+$/, 'is not a URL such as https://app.example.com'),
  ).meta(COMMON),
  sessions: z
    .strictObject({
      revocation: choice(
        'Time at which the data APIs reject tokens of an ended session or a banned user: `immediate`, or ' +
          '`expiry` of the token',
        ['immediate', 'expiry'],
      ),
    })
    .prefault({})
    .meta({ description: 'Sessions' }),
  email: z
    .strictObject({
      verify_email: flag(
        'No session before the address is confirmed; `svc serve` needs `providers.email`',
      ).meta(COMMON),
      confirm_at_signup: flag(
        'Without `verify_email`: send the confirmation mail at sign-up, if mail can be sent',
        true,
      ),
      confirm_expiry: duration('Lifetime of the link in that mail, 1h to 30d', '7d', {
        least: 3_600_000,
        most: 30 * 86_400_000,
      }),
      notices: z
        .union([z.boolean(), z.array(z.enum(NOTICE_KINDS))])
        .default(true)
        .meta({ description: 'Mails about changes of an account: true, false, or a list of kinds' }),
      templates: z
        .record(z.string(), template)
        .prefault({})
        .meta({
          description:
            'Mail templates by name: confirm, recovery, magic_link, invite, email_change, reauthentication, ' +
            'or a kind of notice',
          ...COMMON,
        }),
    })
    .nullable()
    .meta({ description: 'Mail flows; magic link and one-time password exist only with this block' })
    .optional(),
  oauth: z
    .record(z.string(), oauthProvider)
    .prefault({})
    .meta({ description: 'Providers by name, for example google' }),
  hooks: z
    .strictObject({
      custom_access_token: hook('Adds claims to every access token').optional(),
    })
    .meta({
      description: 'Functions that svc calls during auth; an action whose hook fails does not succeed',
    })
    .optional(),
  triggers: z
    .array(userTrigger)
    .meta({
      description:
        'Triggers of auth.users, in the transaction that creates, changes or deletes the user; an error in ' +
        'a trigger rejects the change',
    })
    .optional(),
});
