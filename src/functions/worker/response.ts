// Converts a handler's return value to status, headers and body. Accepts plain objects and web Responses; anything else
// is a BadAnswer.
import type { HeaderValue } from './protocol.ts';

export type AnswerBody =
  | { readonly kind: 'none' }
  | { readonly kind: 'bytes'; readonly bytes: Buffer }
  | { readonly kind: 'stream'; readonly chunks: AsyncIterable<unknown> };

export type Answer = {
  readonly status: number;
  readonly headers: ReadonlyArray<readonly [string, HeaderValue]>;
  readonly body: AnswerBody;
};

export class BadAnswer extends Error {}

const NONE: AnswerBody = { kind: 'none' };
const JSON_TYPE = 'application/json';
const BYTES_TYPE = 'application/octet-stream';
/** Hop-by-hop headers (RFC 9110, 7.6.1), which the server sets itself. */
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'te', 'trailer']);
/** HTTP gives these no body (RFC 9110, 15.3.5, 15.3.6, 15.4.5), whatever the handler returns. */
const BODILESS = new Set([204, 205, 304]);

export function toAnswer(value: unknown): Answer {
  if (isWebResponse(value)) return fromWebResponse(value);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BadAnswer(
      `the handler returned ${describe(value)}; return an object such as { status: 200, body: { ok: true } }`,
    );
  }
  const { status = 200, headers, body }: { status?: unknown; headers?: unknown; body?: unknown } = value;
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599) {
    throw new BadAnswer(`status is ${describe(status)}; it must be a whole number from 200 to 599`);
  }
  const list = toHeaders(headers);
  const { body: content, type } = BODILESS.has(status) ? { body: NONE, type: undefined } : toBody(body);
  if (type !== undefined && !list.some(([name]) => name === 'content-type'))
    list.push(['content-type', type]);
  return { status, headers: withoutLength(list, content), body: content };
}

function toBody(body: unknown): { body: AnswerBody; type: string | undefined } {
  // No content type without a body: client libraries would try to parse it.
  if (body === undefined) return { body: NONE, type: undefined };
  if (typeof body === 'string') return { body: { kind: 'bytes', bytes: Buffer.from(body) }, type: JSON_TYPE };
  if (ArrayBuffer.isView(body)) {
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    return { body: { kind: 'bytes', bytes }, type: BYTES_TYPE };
  }
  if (body instanceof ArrayBuffer) {
    return { body: { kind: 'bytes', bytes: Buffer.from(body) }, type: BYTES_TYPE };
  }
  if (body instanceof Blob) {
    return { body: { kind: 'stream', chunks: body.stream() }, type: body.type || BYTES_TYPE };
  }
  if (isAsyncIterable(body)) return { body: { kind: 'stream', chunks: body }, type: BYTES_TYPE };
  let text: string | undefined;
  try {
    text = JSON.stringify(body);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new BadAnswer(`body cannot be converted to JSON: ${reason}`, { cause });
  }
  if (text === undefined) throw new BadAnswer(`body is ${describe(body)}, which has no JSON form`);
  return { body: { kind: 'bytes', bytes: Buffer.from(text) }, type: JSON_TYPE };
}

/** Encodes one chunk of a stream. */
export function toBytes(chunk: unknown): Buffer {
  if (typeof chunk === 'string') return Buffer.from(chunk);
  if (ArrayBuffer.isView(chunk)) return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  if (chunk instanceof ArrayBuffer) return Buffer.from(chunk);
  throw new BadAnswer('a response stream must yield strings or bytes');
}

function fromWebResponse(response: Response): Answer {
  const cookies = response.headers.getSetCookie();
  const headers: Array<readonly [string, HeaderValue]> = [];
  for (const [name, value] of response.headers) {
    if (name !== 'set-cookie' && !HOP_BY_HOP.has(name)) headers.push([name, value]);
  }
  if (cookies.length > 0) headers.push(['set-cookie', cookies]);
  if (response.status < 200) throw new BadAnswer('Response.error() is not an answer');
  const body: AnswerBody = response.body ? { kind: 'stream', chunks: response.body } : NONE;
  return { status: response.status, headers: withoutLength(headers, body), body };
}

/** Accepts an object, `Headers` or a list of pairs; a value may be a list. */
function toHeaders(headers: unknown): Array<readonly [string, HeaderValue]> {
  if (headers === undefined || headers === null) return [];
  if (typeof headers !== 'object') throw new BadAnswer(`headers is ${describe(headers)}, not an object`);
  const entries: Iterable<unknown> = isIterable(headers) ? headers : Object.entries(headers);
  const collected = new Map<string, string[]>();
  for (const entry of entries) {
    if (!Array.isArray(entry) || entry.length !== 2)
      throw new BadAnswer('headers must be pairs of name and value');
    const [rawName, value]: unknown[] = entry;
    const name = String(rawName).toLowerCase();
    if (!/^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(name)) {
      throw new BadAnswer(`${JSON.stringify(name)} is not a header name`);
    }
    if (HOP_BY_HOP.has(name) || value === undefined || value === null) continue;
    const values: unknown[] = Array.isArray(value) ? value : [value];
    const texts = values.map((item) => headerText(name, item));
    collected.set(name, [...(collected.get(name) ?? []), ...texts]);
  }
  return [...collected].map(([name, values]) => [name, values.length === 1 ? (values[0] ?? '') : values]);
}

function headerText(name: string, value: unknown): string {
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') {
    throw new BadAnswer(`the header ${name} is ${describe(value)}, not text`);
  }
  const text = String(value);
  // Line breaks would allow header injection.
  // oxlint-disable-next-line no-control-regex
  if (/[^\t\x20-\x7e\x80-\xff]/.test(text)) {
    throw new BadAnswer(`the header ${name} contains characters that are not allowed in headers`);
  }
  return text;
}

/** Bytes are counted by the server; only a stream may declare its content-length. */
function withoutLength(
  headers: ReadonlyArray<readonly [string, HeaderValue]>,
  body: AnswerBody,
): Array<readonly [string, HeaderValue]> {
  return headers.filter(
    ([name, value]) =>
      name !== 'content-length' ||
      (body.kind === 'stream' && typeof value === 'string' && /^\d+$/.test(value)),
  );
}

function isWebResponse(value: unknown): value is Response {
  return (
    value instanceof Response ||
    // Another copy of the class, for example from a polyfill.
    (typeof value === 'object' &&
      value !== null &&
      Object.prototype.toString.call(value) === '[object Response]' &&
      'headers' in value &&
      'arrayBuffer' in value)
  );
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

function isIterable(value: object): value is Iterable<unknown> {
  return Symbol.iterator in value;
}

function describe(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string' || typeof value === 'number') return JSON.stringify(value);
  return `a ${typeof value}`;
}
