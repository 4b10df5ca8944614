// Errors of the dashboard's API. The page matches on the codes.
import { failureProblem, type DatabaseFailure } from '../postgres/pg-error.ts';
import { Problem } from '../problem/problem.ts';

export const signedOut = (): Problem =>
  new Problem('dashboard_signed_out', 401, 'You are not signed in to the dashboard', {
    hint: 'Sign in with the secret key.',
  });
export const wrongKey = (): Problem =>
  new Problem('wrong_key', 401, 'This is not the secret key of this service', {
    hint: 'It starts with svc_secret_ and is in the environment of the service, or in .env next to svc.yaml.',
  });
export const foreignOrigin = (): Problem =>
  new Problem('foreign_origin', 403, 'The request does not come from the dashboard', {
    hint: 'Behind a proxy, forward the Host header, or set SVC_BASE_URL to the address in the browser.',
  });
export const noCsrfToken = (): Problem =>
  new Problem('csrf_token', 403, 'The x-svc-csrf header is missing or belongs to another session', {
    hint: 'GET /dashboard/api/session returns it.',
  });
export const readOnly = (): Problem =>
  new Problem('dashboard_read_only', 403, 'This dashboard is read-only', {
    hint: 'Start svc with --dashboard readwrite to allow changes.',
  });
export const notLocal = (): Problem =>
  new Problem('not_local', 403, 'Signing in without a key works only under `svc dev`, on the same machine', {
    hint: 'Sign in with the secret key.',
  });
export const badBody = (details: string): Problem =>
  new Problem('bad_body', 400, 'The request body is not valid for this path', { details });
export const badPath = (message: string): Problem => new Problem('bad_path', 400, message);
export const notFound = (message: string): Problem => new Problem('not_found', 404, message);
export const fileChanged = (
  file: string,
  more: Partial<Pick<Problem, 'message' | 'details' | 'hint'>> = {},
): Problem =>
  new Problem('file_changed', 409, more.message ?? `${file} has changed since you opened it`, {
    details: more.details,
    hint: more.hint ?? 'Reload it and make your change again.',
  });
export const databaseFailed = (failure: DatabaseFailure, cause: unknown): Problem =>
  failure.kind === 'unreachable' || failure.kind === 'busy'
    ? new Problem('database_unreachable', failure.status, 'The database does not answer', {
        cause,
        hint: 'The page retries automatically.',
        headers: { 'retry-after': '2' },
      })
    : failureProblem(failure, cause);
