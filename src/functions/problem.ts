// The errors of `/functions/v1`, as `{ code, message, hint? }`. `x-relay-error` (502 and 503 only) marks a failure of
// the platform instead of the function for client libraries.
import type { RefusalFormat } from '../http/refusal-format.ts';
import { SESSION_RESTRICTED } from '../identity/caller.ts';
import { Problem } from '../problem/problem.ts';
import type { Failure } from './worker/protocol.ts';

const RELAY = { 'x-relay-error': 'true' } as const;

export const functionNotFound = (name: string): Problem =>
  new Problem('function_not_found', 404, `There is no function ${JSON.stringify(name)}`, {
    hint: 'Functions are declared under functions: in svc.yaml.',
  });

export const signInRequired = (): Problem =>
  new Problem('unauthorized', 401, 'This function needs a signed-in caller', {
    hint: 'Send Authorization: Bearer <access token>. API keys are not access tokens.',
    headers: { 'www-authenticate': 'Bearer' },
  });

export const sessionRestricted = (): Problem => new Problem('insufficient_aal', 403, SESSION_RESTRICTED);

export const bodyTooSlow = (): Problem =>
  new Problem('body_timeout', 408, 'The request body did not arrive in time', {
    hint: 'The limits are body_idle and request under server.timeouts in svc.yaml.',
    headers: { connection: 'close' },
  });

const FAILURES = {
  threw: ['function_error', 'The function threw an error'],
  load: ['function_load_error', 'The function could not be loaded'],
  'bad-answer': ['function_bad_response', 'The function did not return a valid response'],
} as const;

/** `shown` is the error with its stack; given only under `svc dev`. */
export function functionFailed(kind: Failure['kind'], message: string, shown: string | undefined): Problem {
  if (kind === 'bad-json') {
    const why = `The content type is JSON, but the body does not parse: ${message}`;
    return new Problem('invalid_json', 400, why);
  }
  const [code, text] = FAILURES[kind];
  const hint =
    kind === 'load'
      ? 'The log has the reason, once for each start or reload.'
      : 'See the log for the id in X-Request-Id.';
  return new Problem(code, 500, shown ?? text, { hint: shown ? undefined : hint });
}

export const workerDied = (): Problem =>
  new Problem('worker_died', 502, 'The worker that ran this function died', { headers: RELAY });

export const noWorker = (): Problem =>
  new Problem('no_worker', 502, 'No healthy function worker is available', {
    headers: { ...RELAY, 'retry-after': '1' },
  });

/** Thrown by a reload of one changed function, for the dashboard. */
export const notLoaded = (name: string, details: string): Problem =>
  new Problem('function_not_loaded', 422, `The changed source of function ${name} does not load`, {
    details,
    hint: 'The previous version is restored and still served. Correct the source and save again.',
  });

/** Thrown by a start or a reload; never a response. */
export const workersDoNotStart = (): Problem =>
  new Problem('workers_do_not_start', 500, 'The workers for code functions exit before they are ready', {
    hint: 'Their output is in the log. Check that svc is completely installed.',
  });

export const saturated = (): Problem =>
  new Problem('saturated', 503, 'All function slots that this caller can use are in use', {
    hint: 'Try again in a moment.',
    headers: { ...RELAY, 'retry-after': '1' },
  });

export const draining = (): Problem =>
  new Problem('draining', 503, 'The service is stopping', {
    hint: 'Try again in a moment.',
    headers: { ...RELAY, 'retry-after': '1', connection: 'close' },
  });

export const timedOut = (timeoutMs: number): Problem =>
  new Problem('function_timeout', 504, `The function did not finish within ${timeoutMs / 1000} s`, {
    hint: 'The limit is timeout: of the function in svc.yaml.',
  });

export function toWire({ code, message, hint }: Problem): Record<string, string> {
  return hint === undefined ? { code, message } : { code, message, hint };
}

export const functionsFormat: RefusalFormat = (problem) => ({
  status: problem.status,
  headers: problem.headers,
  body: JSON.stringify(toWire(problem)),
});
