// `/auth/v1` in OpenAPI: what it offers. Routes that only say that something is not offered are left out.
import {
  anyObject,
  type ApiDescription,
  anything,
  count,
  dateTime,
  flag,
  listOf,
  named,
  object,
  oneOfThese,
  orNull,
  type Schema,
  text,
  uuid,
} from '../lib/openapi.ts';

const USER = named('auth.User');
const SESSION = named('auth.Session');
const FACTOR = named('auth.Factor');

/** Of PKCE. */
const CHALLENGE = { 'code_challenge?': text, 'code_challenge_method?': oneOfThese('s256', 'plain') };
const PAGE = { page: count, per_page: count };
const REDIRECT = 'To the application, in the Location header';
const SENT: Schema = { type: 'object', description: 'Whether there is such an account is not said' };
const USER_CHANGE = {
  'email?': text,
  'phone?': text,
  'password?': text,
  'password_hash?': text,
  'email_confirm?': flag,
  'phone_confirm?': flag,
  'user_metadata?': anyObject,
  'app_metadata?': anyObject,
  'ban_duration?': { type: 'string', description: '24h, 30m, or none' },
  'role?': text,
};

export const AUTH_DESCRIPTION: ApiDescription = {
  tag: 'auth',
  about: 'Users, sessions, second factors',
  operations: {
    'POST /signup': {
      summary: 'Sign up with an address, or anonymously',
      access: 'key',
      query: { redirect_to: text },
      body: object({ 'email?': text, 'password?': text, 'data?': anyObject, ...CHALLENGE }),
      answers: { 200: { anyOf: [SESSION, USER] } },
    },
    'POST /token': {
      summary: 'Sign in, or refresh a session',
      access: 'key',
      query: { grant_type: oneOfThese('password', 'refresh_token', 'pkce', 'id_token') },
      body: object({
        'email?': text,
        'password?': text,
        'refresh_token?': text,
        'auth_code?': text,
        'code_verifier?': text,
        'provider?': text,
        'id_token?': text,
        'access_token?': text,
        'nonce?': text,
      }),
      answers: { 200: SESSION },
    },
    'POST /otp': {
      summary: 'Mail a code and a link to sign in with',
      access: 'key',
      query: { redirect_to: text },
      body: object({ 'email?': text, 'create_user?': flag, 'data?': anyObject, ...CHALLENGE }),
      answers: { 200: SENT },
    },
    'POST /magiclink': {
      summary: 'Mail a link to sign in with',
      access: 'key',
      query: { redirect_to: text },
      body: object({ email: text, 'data?': anyObject, ...CHALLENGE }),
      answers: { 200: SENT },
    },
    'POST /recover': {
      summary: 'Mail a link for who has lost the password',
      access: 'key',
      query: { redirect_to: text },
      body: object({ email: text, ...CHALLENGE }),
      answers: { 200: SENT },
    },
    'POST /resend': {
      summary: 'Send a mail again',
      access: 'key',
      query: { redirect_to: text },
      body: object({ type: oneOfThese('signup', 'email_change'), email: text, ...CHALLENGE }),
      answers: { 200: SENT },
    },
    'GET /verify': {
      summary: 'The link of a mail',
      access: 'none',
      query: { token: text, type: text, redirect_to: text },
      answers: { 200: 'A page with a button', 303: REDIRECT },
    },
    'POST /verify': {
      summary: 'Redeem a code or the token of a mail',
      access: 'none',
      body: object({ type: text, 'email?': text, 'token?': text, 'token_hash?': text, 'redirect_to?': text }),
      answers: { 200: { anyOf: [SESSION, object({ msg: text, code: text })] }, 303: REDIRECT },
    },
    'GET /reauthenticate': {
      summary: 'Mail a code to change the password with',
      access: 'user',
      answers: { 200: SENT },
    },
    'POST /reauthenticate': {
      summary: 'Mail a code to change the password with',
      access: 'user',
      answers: { 200: SENT },
    },
    'POST /logout': {
      summary: 'End sessions',
      access: 'user',
      query: { scope: oneOfThese('global', 'local', 'others') },
      answers: { 204: 'Ended' },
    },
    'GET /user': { summary: 'Who is signed in', access: 'user', answers: { 200: USER } },
    'PUT /user': {
      summary: 'Change address, password or metadata',
      access: 'user',
      query: { redirect_to: text },
      body: object({ 'email?': text, 'password?': text, 'nonce?': text, 'data?': anyObject, ...CHALLENGE }),
      answers: { 200: USER },
    },
    'GET /user/identities/authorize': {
      summary: 'Link a provider',
      access: 'user',
      query: { provider: text, redirect_to: text, scopes: text, skip_http_redirect: flag },
      answers: { 200: object({ url: text }), 302: 'To the provider' },
    },
    'POST /user/identities/confirm': {
      summary: 'The button of the page that asks before a provider is linked',
      access: 'none',
      body: { media: { 'application/x-www-form-urlencoded': object({ code: text }) } },
      answers: { 303: REDIRECT },
    },
    'DELETE /user/identities/{id}': {
      summary: 'Remove a provider',
      access: 'user',
      answers: { 200: anyObject },
    },
    'GET /authorize': {
      summary: 'Sign in at a provider',
      access: 'none',
      query: {
        provider: text,
        redirect_to: text,
        scopes: text,
        code_challenge: text,
        code_challenge_method: text,
      },
      answers: { 302: 'To the provider' },
    },
    'GET /callback': {
      summary: 'Where a provider sends the browser back',
      access: 'none',
      answers: { 303: REDIRECT },
    },
    'POST /callback': {
      summary: 'The same, of providers that post',
      access: 'none',
      answers: { 303: REDIRECT },
    },
    'GET /callback/{provider}': {
      summary: 'Where one provider sends the browser back',
      access: 'none',
      answers: { 303: REDIRECT },
    },
    'POST /callback/{provider}': {
      summary: 'The same, of a provider that posts',
      access: 'none',
      answers: { 303: REDIRECT },
    },

    'POST /factors': {
      summary: 'Begin a second factor',
      access: 'user',
      body: object({ factor_type: oneOfThese('totp'), 'friendly_name?': text, 'issuer?': text }),
      answers: {
        200: object({
          id: uuid,
          type: text,
          'friendly_name?': text,
          totp: object({ qr_code: text, secret: text, uri: text }),
        }),
      },
    },
    'POST /factors/{id}/challenge': {
      summary: 'Begin to use a second factor',
      access: 'user',
      answers: { 200: object({ id: uuid, type: text, expires_at: count }) },
    },
    'POST /factors/{id}/verify': {
      summary: 'Use a second factor',
      access: 'user',
      body: object({ challenge_id: uuid, code: text }),
      answers: { 200: SESSION },
    },
    'DELETE /factors/{id}': {
      summary: 'Remove a second factor',
      access: 'user',
      answers: { 200: object({ id: uuid }) },
    },

    'GET /admin/users': {
      summary: 'Users, a page at a time',
      access: 'admin',
      query: { ...PAGE, filter: text, sort: text },
      answers: { 200: object({ users: listOf(USER), aud: text }) },
    },
    'POST /admin/users': {
      summary: 'Make a user',
      access: 'admin',
      body: object({ 'id?': uuid, ...USER_CHANGE }),
      answers: { 200: USER },
    },
    'GET /admin/users/{id}': { summary: 'A user', access: 'admin', answers: { 200: USER } },
    'PUT /admin/users/{id}': {
      summary: 'Change a user',
      access: 'admin',
      body: object(USER_CHANGE),
      answers: { 200: USER },
    },
    'DELETE /admin/users/{id}': {
      summary: 'Delete a user',
      access: 'admin',
      body: object({ 'should_soft_delete?': flag }),
      answers: { 200: anyObject },
    },
    'GET /admin/users/{id}/factors': {
      summary: 'The second factors of a user',
      access: 'admin',
      answers: { 200: listOf(FACTOR) },
    },
    'PUT /admin/users/{id}/factors/{factor}': {
      summary: 'Name a second factor',
      access: 'admin',
      body: object({ 'friendly_name?': text }),
      answers: { 200: FACTOR },
    },
    'DELETE /admin/users/{id}/factors/{factor}': {
      summary: 'Remove a second factor of a user',
      access: 'admin',
      answers: { 200: FACTOR },
    },
    'POST /invite': {
      summary: 'Invite somebody by mail',
      access: 'admin',
      query: { redirect_to: text },
      body: object({ email: text, 'data?': anyObject }),
      answers: { 200: USER },
    },
    'POST /admin/generate_link': {
      summary: 'The link of a mail, without the mail',
      access: 'admin',
      query: { redirect_to: text },
      body: object({
        type: oneOfThese(
          'signup',
          'invite',
          'magiclink',
          'recovery',
          'email_change_current',
          'email_change_new',
        ),
        email: text,
        'new_email?': text,
        'password?': text,
        'data?': anyObject,
      }),
      answers: {
        200: {
          allOf: [
            USER,
            object({
              action_link: text,
              email_otp: text,
              hashed_token: text,
              verification_type: text,
              redirect_to: text,
            }),
          ],
        },
      },
    },
    'GET /admin/audit': {
      summary: 'What happened to accounts, newest first',
      access: 'admin',
      query: { ...PAGE, query: text },
      answers: {
        200: listOf(object({ id: uuid, payload: anyObject, created_at: dateTime, ip_address: text })),
      },
    },
    'GET /admin/mails': {
      summary: 'Mails, newest first, and what has become of them',
      access: 'admin',
      query: { limit: count, to: text },
      answers: { 200: object({ mails: listOf(anyObject) }) },
    },

    'GET /settings': {
      summary: 'What is offered here',
      access: 'key',
      answers: {
        200: object({
          external: { type: 'object', additionalProperties: flag },
          disable_signup: flag,
          mailer_autoconfirm: flag,
        }),
      },
    },
    'GET /health': { summary: 'Name and version of the API', access: 'none', answers: { 200: anyObject } },
    'GET /.well-known/jwks.json': {
      summary: 'The public keys that tokens are signed with',
      access: 'none',
      answers: { 200: object({ keys: listOf(anyObject) }) },
    },
    'GET /.well-known/openid-configuration': {
      summary: 'Where the keys are, for other programs',
      access: 'none',
      answers: { 200: anyObject },
    },
  },
  schemas: {
    'auth.User': object({
      id: uuid,
      aud: text,
      role: text,
      email: text,
      phone: text,
      'email_confirmed_at?': dateTime,
      'phone_confirmed_at?': dateTime,
      'confirmed_at?': dateTime,
      'confirmation_sent_at?': dateTime,
      'recovery_sent_at?': dateTime,
      'reauthentication_sent_at?': dateTime,
      'invited_at?': dateTime,
      'last_sign_in_at?': dateTime,
      'new_email?': text,
      'email_change_sent_at?': dateTime,
      app_metadata: anyObject,
      user_metadata: anyObject,
      'factors?': listOf(FACTOR),
      identities: listOf(named('auth.Identity')),
      created_at: dateTime,
      updated_at: dateTime,
      'banned_until?': dateTime,
      'deleted_at?': dateTime,
      is_anonymous: flag,
    }),
    'auth.Identity': object({
      identity_id: uuid,
      id: text,
      user_id: uuid,
      identity_data: anyObject,
      provider: text,
      'email?': text,
      'last_sign_in_at?': text,
      created_at: text,
      updated_at: text,
    }),
    'auth.Factor': object({
      id: uuid,
      factor_type: text,
      status: oneOfThese('verified', 'unverified'),
      'friendly_name?': text,
      phone: text,
      'last_challenged_at?': orNull('string'),
      created_at: text,
      updated_at: text,
    }),
    'auth.Session': object({
      access_token: text,
      token_type: text,
      expires_in: count,
      expires_at: count,
      refresh_token: text,
      user: USER,
      'provider_token?': orNull('string'),
      'provider_refresh_token?': orNull('string'),
    }),
    // For clients that name a version of the API the code is a text; errors of OAuth have names of their own.
    'auth.Error': object({
      'code?': { type: ['integer', 'string'] },
      'error_code?': text,
      'msg?': text,
      'message?': text,
      'weak_password?': anything,
      'hint?': text,
      'error?': text,
      'error_description?': text,
    }),
  },
  error: named('auth.Error'),
};
