// Headers and status of a success. What SQL asked for through response.headers and response.status comes last
// and wins.
import type { FastifyReply } from 'fastify';
import type { ApiRequest } from '../request/api-request.ts';
import { badResponseHeaders, badResponseStatus } from '../problem.ts';
import type { ResultRow } from '../exchange.ts';

const SHORT_BODY = 8_192;
const VARY = 'Accept, Prefer, Range';

export type Answer = {
  readonly status: number;
  readonly contentType?: string | undefined;
  readonly body?: Buffer | string | undefined;
  readonly contentRange?: string | undefined;
  readonly contentLocation?: string | undefined;
  readonly location?: string | undefined;
  readonly applied?: string | undefined;
  readonly warnings?: readonly string[] | undefined;
};

export function respond(
  reply: FastifyReply,
  request: ApiRequest,
  answer: Answer,
  row: ResultRow | undefined,
): FastifyReply {
  reply.code(answer.status);
  reply.header('vary', VARY);
  if (answer.contentType !== undefined) reply.header('content-type', answer.contentType);
  if (answer.contentRange !== undefined) reply.header('content-range', answer.contentRange);
  if (answer.contentLocation !== undefined) reply.header('content-location', answer.contentLocation);
  if (answer.location !== undefined) reply.header('location', answer.location);
  if (answer.applied !== undefined) reply.header('preference-applied', answer.applied);
  if (request.tellSchema && answer.contentType !== undefined) {
    reply.header('content-profile', request.schema);
  }
  if (answer.warnings && answer.warnings.length > 0) reply.header('warning', answer.warnings.join(', '));
  if (row) applySettings(reply, row);
  if (request.method === 'HEAD') return sendHead(reply);
  // An empty text would be given a type; no payload is given none.
  return answer.contentType === undefined ? reply.send() : reply.send(payload(answer.body ?? ''));
}

/** Node writes a short text together with the head; a buffer of its own costs a second piece in the write. */
function payload(body: Buffer | string): Buffer | string {
  return typeof body !== 'string' && body.length <= SHORT_BODY ? body.toString('utf8') : body;
}

/** HEAD has no Content-Length: the body was never made, so its length is not known. */
function sendHead(reply: FastifyReply): FastifyReply {
  reply.removeHeader('content-length');
  return reply.send();
}

function applySettings(reply: FastifyReply, row: ResultRow): void {
  const headers = row.text('headers');
  if (headers !== undefined) applyHeaders(reply, headers);
  const status = row.text('status');
  if (status === undefined) return;
  const number = Number(/^\s*(\d+)/.exec(status)?.[1] ?? Number.NaN);
  if (!(number >= 200 && number <= 599)) throw badResponseStatus();
  reply.code(number);
}

function applyHeaders(reply: FastifyReply, text: string): void {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    throw badResponseHeaders();
  }
  if (!Array.isArray(list)) throw badResponseHeaders();
  const named = new Map<string, string[]>();
  for (const one of list as unknown[]) {
    const entries = typeof one === 'object' && one !== null ? Object.entries(one) : [];
    const [entry] = entries;
    if (!entry || entries.length !== 1) throw badResponseHeaders();
    const [name, value] = entry as [string, unknown];
    if (typeof value !== 'string' || !isHeaderName(name) || /[\r\n\0]/.test(value))
      throw badResponseHeaders();
    const key = name.toLowerCase();
    named.set(key, [...(named.get(key) ?? []), value]);
  }
  for (const [name, values] of named) {
    const [only] = values;
    reply.header(name, values.length === 1 ? only : values);
  }
}

function isHeaderName(name: string): boolean {
  return /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(name);
}

/** `/table?a=…&b=…` with the parameters in order of their keys. */
export function contentLocation({ path, queryText }: ApiRequest): string {
  if (queryText === '') return path;
  if (!queryText.includes('&')) return `${path}?${queryText}`;
  const pairs = queryText.split('&').filter((pair) => pair !== '');
  const keyed = pairs.map((pair) => ({ pair, key: pair.split('=', 1)[0] ?? '' }));
  keyed.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  return `${path}?${keyed.map(({ pair }) => pair).join('&')}`;
}
