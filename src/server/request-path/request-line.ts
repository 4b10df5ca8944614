// The line that a request leaves in the log. A field has one name and one meaning in all lines: docs/running.md lists
// them.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Problem } from '../../problem/problem.ts';
import { loggedUrl } from '../logged-url.ts';

/** Hints are sentences; a hint of somebody's SQL function may be anything. */
const LONGEST_HINT = 300;

export type RefusalFields = { readonly code: string; readonly hint?: string };

/** Why a request was refused, as each line about a refusal says it. */
export function refusalFields({ code, hint }: Pick<Problem, 'code' | 'hint'>): RefusalFields {
  if (hint === undefined || hint === '') return { code };
  return { code, hint: hint.length > LONGEST_HINT ? `${hint.slice(0, LONGEST_HINT)}…` : hint };
}

/** Times are rounded to tenths. */
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

/** SVC_LOG_SAMPLE: the share of requests below 400 that get a line, 0 to 1. */
export function logSample(env: Readonly<Record<string, string | undefined>>): number {
  const text = env['SVC_LOG_SAMPLE'];
  if (!text) return 1;
  const share = Number(text);
  if (/^[\d.]+$/.test(text) && share >= 0 && share <= 1) return share;
  throw new Problem('bad_log_setting', 500, `SVC_LOG_SAMPLE is ${JSON.stringify(text)}`, {
    hint: 'It is a number from 0 to 1: 0.01 keeps one line of a hundred, and each line of 400 and above.',
  });
}

/** SVC_LOG_USERS: whether the lines of requests name the user. An id is somebody's, so it is asked for. */
export function logsUsers(env: Readonly<Record<string, string | undefined>>): boolean {
  const text = env['SVC_LOG_USERS'];
  if (!text || text === 'off') return false;
  if (text === 'on') return true;
  throw new Problem('bad_log_setting', 500, `SVC_LOG_USERS is ${JSON.stringify(text)}`, {
    hint: 'It is on or off.',
  });
}
