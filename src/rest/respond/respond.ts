// Headers and status of successful responses. SQL can override them with response.headers and response.status.
import type { FastifyReply } from 'fastify';
import { addVaryByOrigin } from '../../http/cors.ts';
import type { ApiRequest } from '../request/api-request.ts';
import { badResponseHeaders, badResponseStatus } from '../problem.ts';
import type { ResultRow } from '../run/result-row.ts';

/** Up to this size copying the body into a string is cheaper than a second chunk in the write. */
const ONE_WRITE_BYTES = 8_192;
const VARY = 'Accept, Prefer, Range';
/** Clients reject long heads (Node at 16 KB), so Content-Location omits a longer URL. */
const MAX_LOCATION_CHARS = 4_096;

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

/** Writes to the raw response: Fastify's reply would inspect each header and the payload again. */
export function respond(reply: FastifyReply, request: ApiRequest, answer: Answer, row: ResultRow): void {
  // The deadline may have sent a response already.
  if (reply.sent) return;
  const headers: Headers = { 'x-request-id': reply.request.id, vary: VARY };
  if (answer.contentType !== undefined) headers['content-type'] = answer.contentType;
  if (answer.contentRange !== undefined) headers['content-range'] = answer.contentRange;
  if (answer.contentLocation !== undefined) headers['content-location'] = answer.contentLocation;
  if (answer.location !== undefined) headers['location'] = answer.location;
  if (answer.applied !== undefined) headers['preference-applied'] = answer.applied;
  if (request.tellSchema && answer.contentType !== undefined) headers['content-profile'] = request.schema;
  if (answer.warnings && answer.warnings.length > 0) headers['warning'] = answer.warnings.join(', ');
  const status = applySettings(headers, row) ?? answer.status;
  send(reply, request.method, status, headers, answer.contentType === undefined ? undefined : answer.body);
}

type Headers = Record<string, string | string[]>;

function send(
  { raw }: FastifyReply,
  method: string,
  status: number,
  headers: Headers,
  body: Buffer | string | undefined,
): void {
  addVaryByOrigin(raw, headers);
  if (method === 'HEAD' || status === 204 || status === 304) {
    // HEAD has no Content-Length, because the body was never built.
    delete headers['content-length'];
    if (method !== 'HEAD') delete headers['content-type'];
    raw.writeHead(status, headers).end();
    return;
  }
  const length = body === undefined ? 0 : typeof body === 'string' ? Buffer.byteLength(body) : body.length;
  headers['content-length'] = String(length);
  raw.writeHead(status, headers);
  if (length === 0) raw.end();
  // Node sends the head and a string body in one write. latin1 keeps every byte.
  else if (typeof body !== 'string' && length <= ONE_WRITE_BYTES) raw.end(body?.toString('latin1'), 'latin1');
  else raw.end(body);
}

/** Adds the headers that SQL set, and returns the status if it set one. */
function applySettings(headers: Headers, row: ResultRow): number | undefined {
  const list = row.text('headers');
  if (list !== undefined) applyHeaders(headers, list);
  const status = row.text('status');
  if (status === undefined) return undefined;
  const number = Number(/^\s*(\d+)/.exec(status)?.[1] ?? Number.NaN);
  if (!(number >= 200 && number <= 599)) throw badResponseStatus();
  return number;
}

function applyHeaders(headers: Headers, text: string): void {
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
    if (!isHeader(name, value)) throw badResponseHeaders();
    const key = name.toLowerCase();
    named.set(key, [...(named.get(key) ?? []), value]);
  }
  for (const [name, values] of named) {
    const [only] = values;
    headers[name] = values.length === 1 && only !== undefined ? only : values;
  }
}

/** Whether SQL can set the header. Its value must not be able to start another header. */
export function isHeader(name: string, value: unknown): value is string {
  return /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(name) && typeof value === 'string' && !/[\r\n\0]/.test(value);
}

/** `/table?a=…&b=…` with the parameters in order of their keys. */
export function contentLocation({ path, queryText }: ApiRequest): string | undefined {
  if (path.length + queryText.length > MAX_LOCATION_CHARS) return undefined;
  if (queryText === '') return path;
  if (!queryText.includes('&')) return `${path}?${queryText}`;
  const pairs = queryText.split('&').filter((pair) => pair !== '');
  const keyed = pairs.map((pair) => ({ pair, key: pair.split('=', 1)[0] ?? '' }));
  keyed.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  return `${path}?${keyed.map(({ pair }) => pair).join('&')}`;
}
