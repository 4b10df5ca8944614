// The log line of a request. A field has the same name and meaning in all lines; docs/running.md lists the
// fields.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Problem } from '../../problem/problem.ts';
import { loggedUrl } from '../logged-url.ts';

/** Maximum length of a hint. Our hints are short, but a user's SQL function may raise any hint. */
const MAX_HINT_LENGTH = 300;

export type RefusalFields = { readonly code: string; readonly hint?: string };

/** Returns code and hint of a refusal, for all log lines about refusals. */
export function refusalFields({ code, hint }: Pick<Problem, 'code' | 'hint'>): RefusalFields {
  if (hint === undefined || hint === '') return { code };
  return { code, hint: hint.length > MAX_HINT_LENGTH ? `${hint.slice(0, MAX_HINT_LENGTH)}…` : hint };
}

/** Returns the fields of the line. Times are rounded to tenths of a millisecond. */
export function requestLine(
  request: FastifyRequest,
  { statusCode, elapsedTime }: FastifyReply,
  withUser = false,
): object {
  const { refusal, functionName, traceId, sharer, dbMs, writtenBefore } = request.scope;
  const { url: route } = request.routeOptions;
  const user = withUser ? sharer?.user?.sub : undefined;
  return {
    requestId: request.id,
    ...(traceId === undefined ? undefined : { traceId }),
    client: request.client.address,
    method: request.method,
    url: loggedUrl(request.url),
    ...(route === undefined ? undefined : { route }),
    ...(functionName === undefined ? undefined : { function: functionName }),
    ...(sharer === undefined ? undefined : { role: sharer.role }),
    ...(typeof user === 'string' ? { user } : undefined),
    status: statusCode,
    ...(refusal && statusCode >= 400 ? refusalFields(refusal) : undefined),
    ms: tenths(elapsedTime),
    ...(dbMs === undefined ? undefined : { dbMs: tenths(dbMs) }),
    bytes: request.raw.socket.bytesWritten - writtenBefore,
  };
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10;
}

/** Reads SVC_LOG_SAMPLE: the share of requests below 400 that are logged, from 0 to 1. */
export function logSample(env: Readonly<Record<string, string | undefined>>): number {
  const text = env['SVC_LOG_SAMPLE'];
  if (!text) return 1;
  const share = Number(text);
  if (/^[\d.]+$/.test(text) && share >= 0 && share <= 1) return share;
  throw new Problem('bad_log_setting', 500, `SVC_LOG_SAMPLE is ${JSON.stringify(text)}`, {
    hint: 'Use a number from 0 to 1. For example, 0.01 logs one in a hundred requests below 400, and all others.',
  });
}

/**
 * Reads SVC_LOG_USERS: whether request lines contain the user id. Off by default, because an id is
 * personal data.
 */
export function logsUsers(env: Readonly<Record<string, string | undefined>>): boolean {
  const text = env['SVC_LOG_USERS'];
  if (!text || text === 'off') return false;
  if (text === 'on') return true;
  throw new Problem('bad_log_setting', 500, `SVC_LOG_USERS is ${JSON.stringify(text)}`, {
    hint: 'Use on or off.',
  });
}
