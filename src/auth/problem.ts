// The whole catalogue of what `/auth/v1` can answer besides success, and its wire forms. Codes, statuses and the
// quoted messages are what client libraries match on. Nothing here says more than the caller may know.
import { formatBytes } from '../lib/bytes.ts';
import { retryAfter, type DatabaseFailure } from '../postgres/pg-error.ts';
import { Problem, type ProblemMore } from '../problem/problem.ts';

export class AuthProblem extends Problem {
  /** Only for `weak_password`. */
  readonly reasons: readonly string[] | undefined;
  /** Set when the answer has the shape of an OAuth error instead of the envelope. */
  readonly oauthError: string | undefined;

  constructor(
    code: string,
    status: number,
    message: string,
    more: ProblemMore & { readonly reasons?: readonly string[]; readonly oauthError?: string } = {},
  ) {
    super(code, status, message, more);
    this.name = 'AuthProblem';
    this.reasons = more.reasons;
    this.oauthError = more.oauthError;
  }
}

type Make = (message: string, more?: ProblemMore) => AuthProblem;

const catalogued =
  (code: string, status: number): Make =>
  (message, more) =>
    new AuthProblem(code, status, message, more);

export const validationFailed: Make = catalogued('validation_failed', 400);
export const badPath: Make = catalogued('validation_failed', 404);
export const badJson: Make = catalogued('bad_json', 400);
export const badRequestOAuth = (error: string, description: string, cause?: unknown): AuthProblem =>
  new AuthProblem(error, 400, description, { oauthError: error, cause });

export const bodyTooLarge = (maxBytes: number): AuthProblem =>
  new AuthProblem(
    'request_entity_too_large',
    413,
    `The request body is larger than ${formatBytes(maxBytes)}`,
  );
export const routeNotFound = (): AuthProblem => new AuthProblem('not_found', 404, 'No such path');
export const methodNotAllowed = (allowed: string): AuthProblem =>
  new AuthProblem('method_not_allowed', 405, 'This path does not answer this method', {
    headers: { allow: allowed },
  });

export const noApiKey = (): AuthProblem =>
  new AuthProblem('no_authorization', 401, 'No API key found in request', {
    hint: 'Send the publishable key in the `apikey` header.',
  });
export const wrongApiKey = (): AuthProblem => new AuthProblem('no_authorization', 401, 'Invalid API key');
export const noBearer = (): AuthProblem =>
  new AuthProblem('no_authorization', 401, 'This endpoint requires a valid Bearer token');
export const anonymousRefused = (): AuthProblem =>
  new AuthProblem('no_authorization', 403, 'Anonymous users cannot use multi-factor authentication');
export const badJwt = (why: string): AuthProblem => new AuthProblem('bad_jwt', 403, `invalid JWT: ${why}`);
export const notAdmin = (message = 'User not allowed'): AuthProblem =>
  new AuthProblem('not_admin', 403, message);

export const userNotFound = (status: 403 | 404): AuthProblem =>
  new AuthProblem(
    'user_not_found',
    status,
    status === 403 ? 'User from sub claim in JWT does not exist' : 'User not found',
  );
export const sessionNotFound = (status: 400 | 403 = 403): AuthProblem =>
  new AuthProblem('session_not_found', status, 'Session from session_id claim in JWT does not exist');
export const sessionExpired = (): AuthProblem =>
  new AuthProblem('session_expired', 400, 'Invalid Refresh Token: Session Expired');
export const refreshTokenNotFound = (): AuthProblem =>
  new AuthProblem('refresh_token_not_found', 400, 'Invalid Refresh Token: Refresh Token Not Found');
export const refreshTokenAlreadyUsed = (): AuthProblem =>
  new AuthProblem('refresh_token_already_used', 400, 'Invalid Refresh Token: Already Used');
export const userBanned = (status: 400 | 403): AuthProblem =>
  new AuthProblem('user_banned', status, 'User is banned');
export const conflict = (message: string, cause?: unknown): AuthProblem =>
  new AuthProblem('conflict', 409, message, { cause });

export const invalidCredentials = (): AuthProblem =>
  new AuthProblem('invalid_credentials', 400, 'Invalid login credentials');
export const unsupportedGrant = (): AuthProblem =>
  new AuthProblem('invalid_credentials', 400, 'unsupported_grant_type');
export const emailNotConfirmed = (status: 400 | 422): AuthProblem =>
  new AuthProblem('email_not_confirmed', status, 'Email not confirmed');
export const signupDisabled = (): AuthProblem =>
  new AuthProblem('signup_disabled', 422, 'Signups not allowed for this instance');
export const anonymousDisabled = (): AuthProblem =>
  new AuthProblem('anonymous_provider_disabled', 422, 'Anonymous sign-ins are disabled');
export const emailProviderDisabled = (status: 404 | 422): AuthProblem =>
  new AuthProblem(
    'email_provider_disabled',
    status,
    status === 404 ? 'Sign-in by email is not enabled' : 'No email provider is configured',
    {
      hint:
        status === 404 ? 'Add an auth.email block to svc.yaml.' : 'Configure providers.email in svc.yaml.',
    },
  );
export const phoneProviderDisabled = (status: 400 | 422): AuthProblem =>
  new AuthProblem('phone_provider_disabled', status, 'Sign-in by phone is not enabled');
export const userAlreadyExists = (): AuthProblem =>
  new AuthProblem('user_already_exists', 422, 'User already registered');
export const emailExists = (status: 400 | 422 = 422): AuthProblem =>
  new AuthProblem('email_exists', status, 'A user with this email address has already been registered');
export const phoneExists = (): AuthProblem =>
  new AuthProblem('phone_exists', 422, 'A user with this phone number has already been registered');

export const weakPassword = (message: string, reasons: readonly string[]): AuthProblem =>
  new AuthProblem('weak_password', 422, message, { reasons });
export const samePassword = (): AuthProblem =>
  new AuthProblem('same_password', 422, 'New password should be different from the old password.');
export const hashingBusy = (): AuthProblem =>
  new AuthProblem('unexpected_failure', 503, 'Too many sign-ins at once', {
    headers: { 'retry-after': '1' },
  });

export const otpInvalid = (): AuthProblem =>
  new AuthProblem('otp_expired', 403, 'Token has expired or is invalid');
export const linkInvalid = (): AuthProblem =>
  new AuthProblem('otp_expired', 403, 'Email link is invalid or has expired');
export const otpDisabled = (): AuthProblem =>
  new AuthProblem('otp_disabled', 422, 'Signups not allowed for otp');

export const tooManyRequests = (retryAfterSeconds: number): AuthProblem =>
  new AuthProblem('over_request_rate_limit', 429, 'Request rate limit reached', {
    headers: { 'retry-after': String(retryAfterSeconds) },
  });
export const tooManyMails = (retryAfterSeconds: number, gap: boolean): AuthProblem =>
  new AuthProblem(
    'over_email_send_rate_limit',
    429,
    gap
      ? `For security purposes, you can only request this after ${retryAfterSeconds} seconds.`
      : 'Email rate limit exceeded',
    { headers: { 'retry-after': String(retryAfterSeconds) } },
  );

export const flowStateNotFound = (status: 400 | 404 | 422 = 404): AuthProblem =>
  new AuthProblem('flow_state_not_found', status, 'invalid flow state, no valid flow state found');
export const flowStateExpired = (): AuthProblem =>
  new AuthProblem('flow_state_expired', 422, 'invalid flow state, flow state has expired');
export const flowStateAlreadyUsed = (): AuthProblem =>
  new AuthProblem('flow_state_already_used', 400, 'OAuth state has already been used');
export const badCodeVerifier = (): AuthProblem =>
  new AuthProblem('bad_code_verifier', 400, 'code challenge does not match previously saved code verifier');
export const badOAuthState: Make = catalogued('bad_oauth_state', 400);
export const badOAuthCallback: Make = catalogued('bad_oauth_callback', 400);
export const providerDisabled = (name: string): AuthProblem =>
  new AuthProblem('provider_disabled', 400, `Provider (${name}) is not enabled`);
export const providerEmailUnverified = (provider: string): AuthProblem =>
  new AuthProblem(
    'provider_email_needs_verification',
    422,
    `Unverified email with ${provider}. A confirmation has been sent to the address if it can be confirmed.`,
  );
export const providerEmailTaken = (provider: string): AuthProblem =>
  new AuthProblem(
    'provider_email_needs_verification',
    422,
    `Unverified email with ${provider}. Verify the email with ${provider} in order to sign in.`,
  );

export const identityNotFound = (): AuthProblem =>
  new AuthProblem('identity_not_found', 422, "Identity doesn't exist");
export const identityAlreadyExists = (): AuthProblem =>
  new AuthProblem('identity_already_exists', 422, 'Identity is already linked to another user');
export const identityAlreadyLinked = (): AuthProblem =>
  new AuthProblem('identity_already_exists', 422, 'Identity is already linked');
export const singleIdentity = (message = 'User must have at least 1 identity after unlinking'): AuthProblem =>
  new AuthProblem('single_identity_not_deletable', 422, message);
export const emailConflictOnUnlink = (): AuthProblem =>
  new AuthProblem(
    'email_conflict_identity_not_deletable',
    422,
    'Unable to unlink identity due to email conflict',
  );

export const factorKindDisabled = (kind: 'phone' | 'webauthn', act: 'enroll' | 'verify'): AuthProblem =>
  new AuthProblem(`mfa_${kind}_${act}_not_enabled`, 422, `MFA ${act} is disabled for ${kind}`);
export const factorNotFound = (status: 404 | 422): AuthProblem =>
  new AuthProblem(
    'mfa_factor_not_found',
    status,
    status === 404 ? 'Factor not found' : 'MFA factor with the provided challenge ID not found',
  );
export const factorNameConflict = (): AuthProblem =>
  new AuthProblem(
    'mfa_factor_name_conflict',
    422,
    'A factor with this friendly name already exists for this user',
  );
export const tooManyFactors = (): AuthProblem =>
  new AuthProblem(
    'too_many_enrolled_mfa_factors',
    422,
    'Maximum number of enrolled factors reached, unenroll to continue',
  );
/** The code is the one client libraries know for it; addresses are not compared here. */
export const challengeUsed = (): AuthProblem =>
  new AuthProblem(
    'mfa_ip_address_mismatch',
    422,
    'MFA challenge was answered already, create a new challenge.',
  );
export const challengeExpired = (): AuthProblem =>
  new AuthProblem(
    'mfa_challenge_expired',
    422,
    'MFA challenge has expired, verify against another challenge or create a new challenge.',
  );
export const totpInvalid = (): AuthProblem =>
  new AuthProblem('mfa_verification_failed', 422, 'Invalid TOTP code entered');
export const insufficientAal = (status: 401 | 403 | 422, message: string): AuthProblem =>
  new AuthProblem('insufficient_aal', status, message);

export const featureOff = {
  manualLinking: (): AuthProblem =>
    new AuthProblem('manual_linking_disabled', 404, 'Manual linking is disabled'),
  saml: (): AuthProblem => new AuthProblem('saml_provider_disabled', 404, 'SAML 2.0 is disabled'),
  web3: (): AuthProblem => new AuthProblem('web3_provider_disabled', 422, 'Web3 provider is disabled'),
  passkey: (): AuthProblem => new AuthProblem('passkey_disabled', 404, 'Passkeys are disabled'),
  feature: (): AuthProblem => new AuthProblem('feature_disabled', 404, 'This feature is disabled'),
} as const;

export const unexpectedFailure = (message = 'Internal Server Error', cause?: unknown): AuthProblem =>
  new AuthProblem('unexpected_failure', 500, message, { cause });
export const databaseUnavailable = (failure: DatabaseFailure, cause: unknown): AuthProblem =>
  new AuthProblem('unexpected_failure', failure.status, failure.message, {
    cause,
    hint: failure.hint,
    headers: retryAfter(failure),
  });
export const requestTimeout = (): AuthProblem =>
  new AuthProblem('request_timeout', 504, 'The request took too long');

/** The version a client asked for with `X-Supabase-Api-Version`. */
export type WireVersion = 'initial' | '2024-01-01';

export function wireVersion(header: string | string[] | undefined): WireVersion {
  const asked = Array.isArray(header) ? header[0] : header;
  if (asked === undefined || !/^\d{4}-\d{2}-\d{2}$/.test(asked)) return 'initial';
  return asked >= '2024-01-01' ? '2024-01-01' : 'initial';
}

export function toWire(problem: Problem, version: WireVersion, requestId: string): Record<string, unknown> {
  if (problem instanceof AuthProblem && problem.oauthError !== undefined) {
    return { error: problem.oauthError, error_description: problem.message };
  }
  const reasons = problem instanceof AuthProblem ? problem.reasons : undefined;
  const weak = reasons === undefined ? {} : { weak_password: { reasons } };
  // A hint is an extra key clients ignore and people read.
  const hint = problem.hint === undefined ? {} : { hint: problem.hint };
  if (version === '2024-01-01') return { code: problem.code, message: problem.message, ...weak, ...hint };
  const id = problem.status >= 500 ? { error_id: requestId } : {};
  return {
    code: problem.status,
    error_code: problem.code,
    msg: problem.message,
    ...id,
    ...weak,
    ...hint,
  };
}

/** `error`, `error_code` and `error_description` of a redirect. */
export function toRedirectError(problem: Problem): Record<string, string> {
  return {
    error: redirectErrorKind(problem),
    error_code: problem.code,
    error_description: problem.message,
  };
}

const ACCESS_DENIED: ReadonlySet<string> = new Set([
  'signup_disabled',
  'user_banned',
  'provider_email_needs_verification',
]);

function redirectErrorKind({ code, status }: Problem): string {
  if (ACCESS_DENIED.has(code)) return 'access_denied';
  if (status === 401) return 'unauthorized_client';
  if (status === 403) return 'access_denied';
  if (status === 503) return 'temporarily_unavailable';
  return status >= 500 ? 'server_error' : 'invalid_request';
}
