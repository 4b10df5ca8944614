// Builds the `req` of a handler. Object.fromEntries makes own properties, so a parameter named `__proto__` is harmless.
import type { RequestHead } from './protocol.ts';

export type FunctionRequest = Pick<RequestHead, 'method' | 'path' | 'rawQuery'> & {
  readonly query: Record<string, string>;
  readonly queryAll: Record<string, string[]>;
  readonly headers: Record<string, string>;
  readonly headersAll: Record<string, string[]>;
  readonly body: unknown;
  readonly rawBody: Buffer;
};

/** The content type is JSON, but the body does not parse. */
export class BadJson extends Error {}

/** Parts of the request head that the handler receives. */
type Head = Pick<RequestHead, 'method' | 'path' | 'rawQuery' | 'rawHeaders'>;

export function toRequest(head: Head, received: Buffer): FunctionRequest {
  // A copy: the receive buffer also holds other callers' data.
  const rawBody = Buffer.allocUnsafeSlow(received.length);
  received.copy(rawBody);
  const headers = gather(pairs(head.rawHeaders));
  const query = gather(new URLSearchParams(head.rawQuery));
  const request = {
    method: head.method,
    path: head.path,
    query: query.first,
    queryAll: query.all,
    rawQuery: head.rawQuery,
    headers: headers.first,
    headersAll: headers.all,
    body: undefined,
    rawBody,
  };
  if (rawBody.length === 0) return request;
  if (isJson(headers.first['content-type'])) {
    try {
      return { ...request, body: JSON.parse(rawBody.toString('utf8')) as unknown };
    } catch (cause) {
      throw new BadJson(cause instanceof Error ? cause.message : String(cause), { cause });
    }
  }
  // Decoded on first use: a handler of uploads reads only rawBody.
  let text: string | undefined;
  return Object.defineProperty(request, 'body', {
    enumerable: true,
    configurable: true,
    get: () => (text ??= rawBody.toString('utf8')),
    set: (value: unknown) => {
      Object.defineProperty(request, 'body', {
        value,
        enumerable: true,
        writable: true,
        configurable: true,
      });
    },
  });
}

function isJson(contentType: string | undefined): boolean {
  return contentType !== undefined && /^\s*application\/json\s*(;|$)/i.test(contentType);
}

function gather(entries: Iterable<readonly [string, string]>): {
  first: Record<string, string>;
  all: Record<string, string[]>;
} {
  const all = new Map<string, string[]>();
  const first = new Map<string, string>();
  for (const [name, value] of entries) {
    const known = all.get(name);
    if (known) known.push(value);
    else {
      all.set(name, [value]);
      first.set(name, value);
    }
  }
  return { first: Object.fromEntries(first), all: Object.fromEntries(all) };
}

function* pairs(rawHeaders: readonly string[]): Generator<readonly [string, string]> {
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    yield [(rawHeaders[at] ?? '').toLowerCase(), rawHeaders[at + 1] ?? ''];
  }
}
