// Every error response of `/auth/v1` and its wire forms. Client libraries compare codes, statuses and messages. No
// message reveals more than the caller may know.
import { formatBytes } from '../lib/bytes.ts';
import { retryAfter, type DatabaseFailure } from '../postgres/pg-error.ts';
import type { RefusalFormat } from '../http/refusal-format.ts';
import { Problem, type ProblemMore } from '../problem/problem.ts';
import { SESSION_RESTRICTED } from '../identity/caller.ts';

type More = ProblemMore & { readonly reasons?: readonly string[]; readonly oauthError?: string };

export class AuthProblem extends Problem {
  /** Only for `weak_password`. */
  readonly reasons: readonly string[] | undefined;
  /** Set if the response has the form of an OAuth error (RFC 6749, 5.2) instead of the envelope. */
  readonly oauthError: string | undefined;

  constructor(code: string, status: number, message: string, more: More = {}) {
    super(code, status, message, more);
    this.name = 'AuthProblem';
    this.reasons = more.reasons;
    this.oauthError = more.oauthError;
  }
}

/** Creates a problem with a fixed message. */
const fixed = (code: string, status: number, message: string, more?: More) => () =>
  new AuthProblem(code, status, message, more);

/** Creates a problem with the message of the caller. */
const withCode = (code: string, status: number) => (message: string) =>
  new AuthProblem(code, status, message);

/** Creates a problem whose status depends on the route. */
const withStatus =
  <Status extends number>(code: string, messages: string | Readonly<Record<Status, string>>) =>
  (status: Status): AuthProblem =>
    new AuthProblem(code, status, typeof messages === 'string' ? messages : messages[status]);

const unverified = (provider: string, next: string): AuthProblem =>
  withCode('provider_email_needs_verification', 422)(`Unverified email with ${provider}. ${next}`);

const wait = (seconds: number): More => ({ headers: { 'retry-after': String(seconds) } });

export const problems = {
  // Requests.
  validationFailed: withCode('validation_failed', 400),
  unprocessable: withCode('validation_failed', 422),
  badPath: withCode('validation_failed', 404),
  badJson: withCode('bad_json', 400),
  unsupportedCharset: (charset: string) =>
    withCode('bad_json', 415)(`Charset not supported: ${charset}. Send the body in UTF-8`),
  badRequestOAuth: (error: string, description: string, cause?: unknown) =>
    new AuthProblem(error, 400, description, { oauthError: error, cause }),
  bodyTooLarge: (maxBytes: number) =>
    withCode('request_entity_too_large', 413)(`The request body is larger than ${formatBytes(maxBytes)}`),
  routeNotFound: fixed('not_found', 404, 'No such path'),
  methodNotAllowed: (allow: string) =>
    new AuthProblem('method_not_allowed', 405, 'This path does not support this method', {
      headers: { allow },
    }),

  // Keys and tokens.
  noApiKey: fixed('no_authorization', 401, 'No API key found in request', {
    hint: 'Send the publishable key in the `apikey` header.',
  }),
  wrongApiKey: fixed('no_authorization', 401, 'Invalid API key'),
  noBearer: fixed('no_authorization', 401, 'This endpoint requires a valid Bearer token'),
  anonymousRefused: fixed('no_authorization', 403, 'Anonymous users cannot use multi-factor authentication'),
  badJwt: (why: string) => withCode('bad_jwt', 403)(`invalid JWT: ${why}`),
  notAdmin: (message = 'User not allowed') => withCode('not_admin', 403)(message),

  // Users and sessions.
  userNotFound: withStatus<403 | 404>('user_not_found', {
    403: 'User from sub claim in JWT does not exist',
    404: 'User not found',
  }),
  sessionNotFound: fixed('session_not_found', 403, 'Session from session_id claim in JWT does not exist'),
  sessionExpired: fixed('session_expired', 400, 'Invalid Refresh Token: Session Expired'),
  refreshTokenNotFound: fixed(
    'refresh_token_not_found',
    400,
    'Invalid Refresh Token: Refresh Token Not Found',
  ),
  refreshTokenAlreadyUsed: fixed('refresh_token_already_used', 400, 'Invalid Refresh Token: Already Used'),
  userBanned: withStatus<400 | 403>('user_banned', 'User is banned'),
  conflict: (message: string, cause?: unknown) => new AuthProblem('conflict', 409, message, { cause }),

  // Signing up and in.
  invalidCredentials: fixed('invalid_credentials', 400, 'Invalid login credentials'),
  unsupportedGrant: fixed('invalid_credentials', 400, 'unsupported_grant_type'),
  emailNotConfirmed: withStatus<400 | 422>('email_not_confirmed', 'Email not confirmed'),
  signupDisabled: fixed('signup_disabled', 422, 'Signups not allowed for this instance'),
  anonymousDisabled: fixed('anonymous_provider_disabled', 422, 'Anonymous sign-ins are disabled'),
  emailSignInDisabled: fixed('email_provider_disabled', 404, 'Sign-in by email is not enabled', {
    hint: 'Add an auth.email block to svc.yaml.',
  }),
  noMailProvider: fixed('email_provider_disabled', 422, 'No email provider is configured', {
    hint: 'Configure providers.email in svc.yaml.',
  }),
  phoneProviderDisabled: withStatus<400 | 422>('phone_provider_disabled', 'Sign-in by phone is not enabled'),
  userAlreadyExists: fixed('user_already_exists', 422, 'User already registered'),
  emailExists: (status: 400 | 422 = 422) =>
    withCode('email_exists', status)('A user with this email address has already been registered'),
  phoneExists: fixed('phone_exists', 422, 'A user with this phone number has already been registered'),
  userSsoManaged: fixed(
    'user_sso_managed',
    422,
    'Updating email or password of a SSO account is not possible',
  ),
  inviteNotFound: fixed('invite_not_found', 404, 'Invite not found'),

  // Passwords and mailed secrets.
  weakPassword: (message: string, reasons: readonly string[]) =>
    new AuthProblem('weak_password', 422, message, { reasons }),
  samePassword: fixed('same_password', 422, 'New password should be different from the old password.'),
  hashingBusy: fixed('unexpected_failure', 503, 'Too many sign-ins at once', wait(1)),
  otpInvalid: fixed('otp_expired', 403, 'Token has expired or is invalid'),
  linkInvalid: fixed('otp_expired', 403, 'Email link is invalid or has expired'),
  otpDisabled: fixed('otp_disabled', 422, 'Signups not allowed for otp'),

  // Rate limits, with the seconds to wait.
  tooManyRequests: (seconds: number) =>
    new AuthProblem('over_request_rate_limit', 429, 'Request rate limit reached', wait(seconds)),
  tooManyMails: (seconds: number) =>
    new AuthProblem('over_email_send_rate_limit', 429, 'Email rate limit exceeded', wait(seconds)),
  mailTooSoon: (seconds: number) =>
    new AuthProblem(
      'over_email_send_rate_limit',
      429,
      `For security purposes, you can only request this after ${seconds} seconds.`,
      wait(seconds),
    ),

  // OAuth flows.
  flowStateNotFound: (status: 404 | 422 = 404) =>
    withCode('flow_state_not_found', status)('invalid flow state, no valid flow state found'),
  flowStateExpired: fixed('flow_state_expired', 422, 'invalid flow state, flow state has expired'),
  flowStateAlreadyUsed: fixed('flow_state_already_used', 400, 'OAuth state has already been used'),
  badCodeVerifier: fixed(
    'bad_code_verifier',
    400,
    'code challenge does not match previously saved code verifier',
  ),
  badOAuthState: withCode('bad_oauth_state', 400),
  badOAuthCallback: withCode('bad_oauth_callback', 400),
  providerDisabled: (name: string) => withCode('provider_disabled', 400)(`Provider (${name}) is not enabled`),
  providerEmailUnverified: (provider: string) =>
    unverified(provider, 'A confirmation has been sent to the address if it can be confirmed.'),
  providerEmailTaken: (provider: string) =>
    unverified(provider, `Verify the email with ${provider} in order to sign in.`),

  // Identities.
  identityNotFound: fixed('identity_not_found', 422, "Identity doesn't exist"),
  identityOfAnother: fixed('identity_already_exists', 422, 'Identity is already linked to another user'),
  identityAlreadyLinked: fixed('identity_already_exists', 422, 'Identity is already linked'),
  singleIdentity: (message = 'User must have at least 1 identity after unlinking') =>
    withCode('single_identity_not_deletable', 422)(message),
  emailConflictOnUnlink: fixed(
    'email_conflict_identity_not_deletable',
    422,
    'Unable to unlink identity due to email conflict',
  ),

  // Second factors.
  factorKindDisabled: (kind: 'phone' | 'webauthn', act: 'enroll' | 'verify') =>
    withCode(`mfa_${kind}_${act}_not_enabled`, 422)(`MFA ${act} is disabled for ${kind}`),
  factorNotFound: withStatus<404 | 422>('mfa_factor_not_found', {
    404: 'Factor not found',
    422: 'MFA factor with the provided challenge ID not found',
  }),
  factorNameConflict: fixed(
    'mfa_factor_name_conflict',
    422,
    'A factor with this friendly name already exists for this user',
  ),
  tooManyFactors: fixed(
    'too_many_enrolled_mfa_factors',
    422,
    'Maximum number of enrolled factors reached, unenroll to continue',
  ),
  /** Client libraries know this state by this code, although svc does not compare addresses. */
  challengeUsed: fixed(
    'mfa_ip_address_mismatch',
    422,
    'MFA challenge was answered already, create a new challenge.',
  ),
  challengeExpired: fixed(
    'mfa_challenge_expired',
    422,
    'MFA challenge has expired, verify against another challenge or create a new challenge.',
  ),
  totpInvalid: fixed('mfa_verification_failed', 422, 'Invalid TOTP code entered'),
  insufficientAal: (status: 401 | 403 | 422, message: string) =>
    withCode('insufficient_aal', status)(message),
  sessionRestricted: fixed('insufficient_aal', 403, SESSION_RESTRICTED),

  // Features that svc does not offer.
  samlDisabled: fixed('saml_provider_disabled', 404, 'SAML 2.0 is disabled'),
  web3Disabled: fixed('web3_provider_disabled', 422, 'Web3 provider is disabled'),
  passkeyDisabled: fixed('passkey_disabled', 404, 'Passkeys are disabled'),
  featureDisabled: fixed('feature_disabled', 404, 'This feature is disabled'),

  // Hooks of the file.
  /** The answer that the hook itself gives to the client. */
  hookRefused: (status: number, message: string) => new AuthProblem('hook_refused', status, message),
  hookTimeout: (hook: string, isRepeatable = false) =>
    new AuthProblem('hook_timeout', isRepeatable ? 503 : 422, `The hook ${hook} did not answer in time`),
  hookFailed: (hook: string, isRepeatable = false) =>
    new AuthProblem('unexpected_failure', isRepeatable ? 503 : 500, `Error running hook ${hook}`),
  hooksBusy: fixed('unexpected_failure', 503, 'Too many hooks at once', wait(1)),

  // Faults.
  unexpectedFailure: (message = 'Internal Server Error', cause?: unknown) =>
    new AuthProblem('unexpected_failure', 500, message, { cause }),
  /** A trigger of auth.users rejected the user. Users of supabase-js know this message. */
  userRefused: (cause: unknown) =>
    new AuthProblem('unexpected_failure', 500, 'Database error saving new user', { cause }),
  databaseUnavailable: (failure: DatabaseFailure, cause: unknown) =>
    // Only a write that may have succeeded has its own code, because clients must not repeat it blindly.
    new AuthProblem(
      failure.kind === 'outcome-unknown' ? 'outcome_unknown' : 'database_unavailable',
      failure.status,
      failure.message,
      {
        cause,
        hint: failure.hint,
        headers: retryAfter(failure),
      },
    ),
  requestTimeout: fixed('request_timeout', 504, 'The request took too long'),
} as const;

/** Returns a thrown problem as a value. Rethrows any other error. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  throw error;
}

/** Throws an outcome that is a problem. The inverse of `asProblem`. */
export function orThrow<T>(outcome: T | Problem): T {
  if (outcome instanceof Problem) throw outcome;
  return outcome;
}

/** The API version that a client requests with `X-Supabase-Api-Version`. */
export type WireVersion = 'initial' | '2024-01-01';

export function wireVersion(header: string | string[] | undefined): WireVersion {
  const requested = Array.isArray(header) ? header[0] : header;
  if (requested === undefined || !/^\d{4}-\d{2}-\d{2}$/.test(requested)) return 'initial';
  return requested >= '2024-01-01' ? '2024-01-01' : 'initial';
}

export function toWire(problem: Problem, version: WireVersion, requestId: string): Record<string, unknown> {
  const { code, status, message, hint } = problem;
  const { oauthError, reasons } = problem instanceof AuthProblem ? problem : {};
  if (oauthError !== undefined) return { error: oauthError, error_description: message };
  // `hint` is an extra key for people. Clients ignore it.
  const more = { ...(reasons && { weak_password: { reasons } }), ...(hint !== undefined && { hint }) };
  if (version === '2024-01-01') return { code, message, ...more };
  const id = status >= 500 ? { error_id: requestId } : {};
  return { code: status, error_code: code, msg: message, ...id, ...more };
}

/** Uses the envelope of clients without a version, because the headers are not known yet. */
export const authFormat: RefusalFormat = (problem, requestId) => ({
  status: problem.status,
  headers: { ...problem.headers, 'x-sb-error-code': problem.code },
  body: JSON.stringify(toWire(problem, 'initial', requestId)),
});

const ACCESS_DENIED: ReadonlySet<string> = new Set([
  'signup_disabled',
  'user_banned',
  'provider_email_needs_verification',
]);

/** Returns the parameters of a redirect that ends a flow with an error. */
export function toRedirectError({ code, status, message }: Problem): Record<string, string> {
  return { error: redirectErrorKind(code, status), error_code: code, error_description: message };
}

function redirectErrorKind(code: string, status: number): string {
  if (ACCESS_DENIED.has(code) || status === 403) return 'access_denied';
  if (status === 401) return 'unauthorized_client';
  if (status === 503) return 'temporarily_unavailable';
  return status >= 500 ? 'server_error' : 'invalid_request';
}
