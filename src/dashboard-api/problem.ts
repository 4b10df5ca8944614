// What the dashboard's own API refuses. The page matches on the codes.
import { failureProblem, type DatabaseFailure } from '../postgres/pg-error.ts';
import { Problem } from '../problem/problem.ts';

export const signedOut = (): Problem =>
  new Problem('dashboard_signed_out', 401, 'Nobody is signed in to the dashboard', {
    hint: 'Sign in with the secret key.',
  });
export const wrongKey = (): Problem =>
  new Problem('wrong_key', 401, 'This is not the secret key of this service', {
    hint: 'It starts with svc_secret_ and is in the environment of the service, or in .env beside svc.yaml.',
  });
export const foreignOrigin = (): Problem =>
  new Problem('foreign_origin', 403, 'Only the dashboard itself may ask for this', {
    hint: 'Behind a proxy, pass the Host header on or set SVC_BASE_URL to the address in the browser.',
  });
export const noCsrfToken = (): Problem =>
  new Problem('csrf_token', 403, 'The x-svc-csrf header is missing or belongs to another session', {
    hint: 'It is in the answer of GET /dashboard/api/session.',
  });
export const readOnly = (): Problem =>
  new Problem('dashboard_read_only', 403, 'This dashboard is read-only', {
    hint: 'Start with --dashboard readwrite to change things here.',
  });
export const notLocal = (): Problem =>
  new Problem('not_local', 403, 'Signing in without a key works only under `svc dev`, on the same machine', {
    hint: 'Sign in with the secret key.',
  });
export const badBody = (details: string): Problem =>
  new Problem('bad_body', 400, 'The request body is not what this path takes', { details });
export const badPath = (message: string): Problem => new Problem('bad_path', 400, message);
export const notFound = (message: string): Problem => new Problem('not_found', 404, message);
export const fileChanged = (file: string): Problem =>
  new Problem('file_changed', 409, `${file} is not what it was when you opened it`, {
    hint: 'Load it again and make the change there.',
  });
export const databaseFailed = (failure: DatabaseFailure, cause: unknown): Problem =>
  failure.kind === 'unreachable' || failure.kind === 'busy'
    ? new Problem('database_unreachable', failure.status, 'The database does not answer', {
        cause,
        hint: 'The page tries again by itself.',
        headers: { 'retry-after': '2' },
      })
    : failureProblem(failure, cause);
