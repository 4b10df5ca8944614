// Describes `/auth/v1` in OpenAPI. Omits routes of features that svc does not offer.
import {
  anyObject,
  type ApiDescription,
  anything,
  count,
  dateTime,
  flag,
  arraySchema,
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

/** Parameters of a PKCE flow. */
const CHALLENGE = { 'code_challenge?': text, 'code_challenge_method?': oneOfThese('s256', 'plain') };
const PAGE = { page: count, per_page: count };
const REDIRECT = 'To the application, in the Location header';
const SENT: Schema = {
  type: 'object',
  description: 'The response does not reveal whether the account exists',
};
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
      summary: 'Sign up with an email address, or anonymously',
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
      summary: 'Send a mail with a code and a link to sign in',
      access: 'key',
      query: { redirect_to: text },
      body: object({ 'email?': text, 'create_user?': flag, 'data?': anyObject, ...CHALLENGE }),
      answers: { 200: SENT },
    },
    'POST /magiclink': {
      summary: 'Send a mail with a link to sign in',
      access: 'key',
      query: { redirect_to: text },
      body: object({ email: text, 'data?': anyObject, ...CHALLENGE }),
      answers: { 200: SENT },
    },
    'POST /recover': {
      summary: 'Send a mail with a link to reset the password',
      access: 'key',
      query: { redirect_to: text },
      body: object({ email: text, ...CHALLENGE }),
      answers: { 200: SENT },
    },
    'POST /resend': {
      summary: 'Send a confirmation mail again',
      access: 'key',
      query: { redirect_to: text },
      body: object({ type: oneOfThese('signup', 'email_change'), email: text, ...CHALLENGE }),
      answers: { 200: SENT },
    },
    'GET /verify': {
      summary: 'Open the link of a mail',
      access: 'none',
      query: { token: text, type: text, redirect_to: text },
      answers: { 200: 'A page with a button', 303: REDIRECT },
    },
    'POST /verify': {
      summary: 'Redeem the code or the token of a mail',
      access: 'none',
      body: object({ type: text, 'email?': text, 'token?': text, 'token_hash?': text, 'redirect_to?': text }),
      answers: { 200: { anyOf: [SESSION, object({ msg: text, code: text })] }, 303: REDIRECT },
    },
    'GET /reauthenticate': {
      summary: 'Send a mail with a code for a sensitive change',
      access: 'user',
      answers: { 200: SENT },
    },
    'POST /reauthenticate': {
      summary: 'Send a mail with a code for a sensitive change',
      access: 'user',
      answers: { 200: SENT },
    },
    'POST /logout': {
      summary: 'End sessions',
      access: 'user',
      query: { scope: oneOfThese('global', 'local', 'others') },
      answers: { 204: 'Ended' },
    },
    'GET /user': { summary: 'Get the signed-in user', access: 'user', answers: { 200: USER } },
    'PUT /user': {
      summary: 'Change the email address, the password or the metadata',
      access: 'user',
      query: { redirect_to: text },
      body: object({ 'email?': text, 'password?': text, 'nonce?': text, 'data?': anyObject, ...CHALLENGE }),
      answers: { 200: USER },
    },
    'GET /user/identities/authorize': {
      summary: 'Link an identity',
      access: 'user',
      query: { provider: text, redirect_to: text, scopes: text, skip_http_redirect: flag },
      answers: { 200: object({ url: text }), 302: 'To the provider' },
    },
    'POST /user/identities/confirm': {
      summary: 'Confirm on the page that asks before an identity is linked',
      access: 'none',
      body: { media: { 'application/x-www-form-urlencoded': object({ code: text }) } },
      answers: { 303: REDIRECT },
    },
    'DELETE /user/identities/{id}': {
      summary: 'Remove an identity',
      access: 'user',
      answers: { 200: anyObject },
    },
    'GET /authorize': {
      summary: 'Sign in with a provider',
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
      summary: 'Receive the browser from a provider',
      access: 'none',
      answers: { 303: REDIRECT },
    },
    'POST /callback': {
      summary: 'Receive the browser from a provider that posts',
      access: 'none',
      answers: { 303: REDIRECT },
    },
    'GET /callback/{provider}': {
      summary: 'Receive the browser from the named provider',
      access: 'none',
      answers: { 303: REDIRECT },
    },
    'POST /callback/{provider}': {
      summary: 'Receive the browser from the named provider that posts',
      access: 'none',
      answers: { 303: REDIRECT },
    },

    'POST /factors': {
      summary: 'Enroll a second factor',
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
      summary: 'Create a challenge for a second factor',
      access: 'user',
      answers: { 200: object({ id: uuid, type: text, expires_at: count }) },
    },
    'POST /factors/{id}/verify': {
      summary: 'Verify a second factor',
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
      summary: 'List users, a page at a time',
      access: 'admin',
      query: { ...PAGE, filter: text, sort: text },
      answers: { 200: object({ users: arraySchema(USER), aud: text }) },
    },
    'POST /admin/users': {
      summary: 'Create a user',
      access: 'admin',
      body: object({ 'id?': uuid, ...USER_CHANGE }),
      answers: { 200: USER },
    },
    'GET /admin/users/{id}': { summary: 'Get a user', access: 'admin', answers: { 200: USER } },
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
      summary: 'List the second factors of a user',
      access: 'admin',
      answers: { 200: arraySchema(FACTOR) },
    },
    'PUT /admin/users/{id}/factors/{factor}': {
      summary: 'Rename a second factor',
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
      summary: 'Invite a user by mail',
      access: 'admin',
      query: { redirect_to: text },
      body: object({ email: text, 'data?': anyObject }),
      answers: { 200: USER },
    },
    'POST /admin/generate_link': {
      summary: 'Create the link of a mail without sending the mail',
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
      summary: 'List the audit log, newest entries first',
      access: 'admin',
      query: { ...PAGE, query: text },
      answers: {
        200: arraySchema(object({ id: uuid, payload: anyObject, created_at: dateTime, ip_address: text })),
      },
    },
    'GET /admin/mails': {
      summary: 'List mails and their delivery state, newest first',
      access: 'admin',
      query: { limit: count, to: text },
      answers: { 200: object({ mails: arraySchema(anyObject) }) },
    },

    'GET /settings': {
      summary: 'Get the enabled sign-in methods',
      access: 'key',
      answers: {
        200: object({
          external: { type: 'object', additionalProperties: flag },
          disable_signup: flag,
          mailer_autoconfirm: flag,
        }),
      },
    },
    'GET /health': {
      summary: 'Get the name and version of the API',
      access: 'none',
      answers: { 200: anyObject },
    },
    'GET /.well-known/jwks.json': {
      summary: 'Get the public keys that verify tokens',
      access: 'none',
      answers: { 200: object({ keys: arraySchema(anyObject) }) },
    },
    'GET /.well-known/openid-configuration': {
      summary: 'Get the OpenID Connect discovery document',
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
      'factors?': arraySchema(FACTOR),
      identities: arraySchema(named('auth.Identity')),
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
    // The code is a text for clients that send a version of the API. OAuth errors have other keys.
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
