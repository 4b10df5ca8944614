// One request as the actions see it, the answers they give, and how both meet Fastify.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { readBody } from '../../http/body.ts';
import type { Presented } from '../../identity/credentials.ts';
import { Problem } from '../../problem/problem.ts';
import type { AuthContext } from '../auth-context.ts';
import { Fields, NO_FIELDS, parseFormBody, parseJsonBody } from '../fields.ts';
import { bodyTooLarge } from '../problem.ts';
import type { AuthSettings } from '../settings.ts';

export type AuthRequest = {
  readonly settings: AuthSettings;
  readonly now: Date;
  readonly method: string;
  readonly query: Fields;
  readonly body: Fields;
  readonly path: Readonly<Record<string, string>>;
  readonly presented: Presented;
  /** Address of the peer, as far as the server trusts what it is told. */
  readonly ip: string;
  readonly userAgent: string | undefined;
  readonly header: (name: string) => string | undefined;
  /** The raw query, in order, for parameters that are passed on. */
  readonly queryEntries: ReadonlyArray<readonly [string, string]>;
  /** `{base_url}/auth/v1`; links are built from it. */
  readonly authUrl: string;
  readonly isForm: boolean;
};

export type Answer = {
  readonly status: number;
  readonly body?: unknown;
  readonly html?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
};

export const json = (body: unknown, headers?: Readonly<Record<string, string>>): Answer => ({
  status: 200,
  body,
  headers,
});
export const EMPTY: Answer = { status: 200, body: {} };
export const NO_CONTENT: Answer = { status: 204 };
export const redirectTo = (status: 302 | 303 | 307, location: string): Answer => ({
  status,
  headers: { location, 'referrer-policy': 'no-referrer' },
});

export async function readRequest(
  auth: AuthContext,
  request: FastifyRequest,
  presented: Presented,
): Promise<AuthRequest> {
  const settings = auth.settings();
  const isForm = /^application\/x-www-form-urlencoded\b/i.test(request.headers['content-type'] ?? '');
  const queryText = request.url.includes('?') ? request.url.slice(request.url.indexOf('?') + 1) : '';
  const queryEntries = [...new URLSearchParams(queryText)];
  const { headers } = request;
  return {
    settings,
    now: auth.now(),
    method: request.method,
    query: new Fields(Object.fromEntries(queryEntries)),
    body:
      request.method === 'GET' || request.method === 'HEAD'
        ? NO_FIELDS
        : await readFields(request, settings, isForm),
    path: toPath(request.params),
    presented,
    ip: request.ip,
    userAgent: headers['user-agent'],
    header: (name) => {
      const value = headers[name];
      return Array.isArray(value) ? value[0] : value;
    },
    queryEntries,
    authUrl: `${auth.baseUrl() ?? localBaseUrl(request)}/auth/v1`,
    isForm,
  };
}

async function readFields(request: FastifyRequest, settings: AuthSettings, isForm: boolean): Promise<Fields> {
  let bytes: Buffer;
  try {
    bytes = await readBody(request.body, settings.maxBodyBytes, request.headers['content-length']);
  } catch (error) {
    throw error instanceof Problem && error.code === 'body_too_large'
      ? bodyTooLarge(settings.maxBodyBytes)
      : error;
  }
  return isForm ? parseFormBody(bytes) : parseJsonBody(bytes);
}

function toPath(params: unknown): Record<string, string> {
  if (typeof params !== 'object' || params === null) return {};
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, String(value)]));
}

/**
 * Without a configured base URL the service is being tried out on one machine. The Host header names the base
 * only when it is that machine: a name from outside in a mailed link would be an attacker's to choose.
 */
export function localBaseUrl(request: FastifyRequest): string {
  const host = request.headers.host ?? '';
  if (/^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i.test(host)) return `http://${host.toLowerCase()}`;
  return `http://localhost:${request.socket.localPort ?? 8080}`;
}

export function sendAnswer(reply: FastifyReply, answer: Answer): FastifyReply {
  // Almost every answer holds tokens, links or a person's data; the few public ones say so themselves.
  reply.headers({
    'cache-control': 'no-store',
    pragma: 'no-cache',
    'x-content-type-options': 'nosniff',
    ...answer.headers,
  });
  reply.code(answer.status);
  if (answer.html !== undefined) return reply.type('text/html; charset=utf-8').send(answer.html);
  if (answer.body === undefined) return reply.send();
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(answer.body));
}
