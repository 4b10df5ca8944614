// Calls a handler without a server, for unit tests. The handler gets the request and the context of a real call, and
// its result is converted like a real response.
import { toRequest } from '../worker/request.ts';
import { toBytes, toAnswer, type Answer } from '../worker/response.ts';
import type { Claims, Context, FunctionEvent, Handler } from './handler.ts';

/** Properties of a test call. All have defaults. */
export type TestCall<Env extends string = string> = {
  /** `POST` where there is a body, else `GET`. */
  readonly method?: string;
  readonly path?: string;
  readonly query?: Readonly<Record<string, string | readonly string[]>>;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** A text or bytes as they are, anything else as JSON. */
  readonly body?: unknown;
  /**
   * Claims of the caller. Anonymous by default. The role is `authenticated` unless the claims name another.
   */
  readonly claims?: Partial<Claims> | null;
  /** Null by default, as for a request over HTTP. */
  readonly event?: FunctionEvent | null;
  readonly clientAddress?: string;
  readonly env?: Readonly<Record<Env, string>>;
  /** Fakes that implement the methods of the client library that the handler uses. */
  readonly client?: object;
  readonly serviceClient?: object;
  /** Receives the handler's log lines. They are discarded by default. */
  readonly log?: Partial<Context['log']>;
  readonly signal?: AbortSignal;
};

/** Throws the handler's error, or an error for a result that the server would reject. */
export async function testFunction<Env extends string, Client>(
  handler: Handler<Env, Client>,
  call: TestCall<Env> = {},
): Promise<globalThis.Response> {
  const answer = toAnswer(await handler(buildRequest(call), buildContext<Env, Client>(call)));
  const headers = new Headers();
  for (const [name, value] of answer.headers) for (const one of [value].flat()) headers.append(name, one);
  return new globalThis.Response(responseBody(answer), { status: answer.status, headers });
}

function buildRequest(call: TestCall): ReturnType<typeof toRequest> {
  const { path = '/functions/v1/test', query = {}, headers = {} } = call;
  const body = bytesOfBody(call.body);
  const isNamed = Object.keys(headers).some((name) => name.toLowerCase() === 'content-type');
  const named = { ...headers, ...(body.isJson && !isNamed ? { 'content-type': 'application/json' } : {}) };
  const head = {
    method: call.method ?? (body.bytes.length > 0 ? 'POST' : 'GET'),
    path,
    rawQuery: new URLSearchParams(toPairs(query)).toString(),
    rawHeaders: toPairs(named).flat(),
  };
  return toRequest(head, body.bytes);
}

function bytesOfBody(body: unknown): { readonly bytes: Buffer; readonly isJson: boolean } {
  if (body === undefined) return { bytes: Buffer.alloc(0), isJson: false };
  if (typeof body === 'string' || ArrayBuffer.isView(body) || body instanceof ArrayBuffer)
    return { bytes: toBytes(body), isJson: false };
  return { bytes: Buffer.from(JSON.stringify(body)), isJson: true };
}

function toPairs(values: Readonly<Record<string, string | readonly string[]>>): Array<[string, string]> {
  return Object.entries(values).flatMap(([name, value]) =>
    [value].flat().map((item): [string, string] => [name, item]),
  );
}

function buildContext<Env extends string, Client>(call: TestCall<Env>): Context<Env, Client> {
  const quiet = (): void => {};
  const { claims = null, log } = call;
  const context = {
    claims: claims && { sub: '', role: 'authenticated', jwt: '', ...claims },
    event: call.event ?? null,
    clientAddress: call.clientAddress ?? '127.0.0.1',
    env: call.env ?? {},
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet, ...log },
    signal: call.signal ?? new AbortController().signal,
    get client(): object {
      return call.client ?? missing('client');
    },
    get serviceClient(): object {
      return call.serviceClient ?? missing('serviceClient');
    },
  };
  // A test names as much of them as its handler uses.
  return context as unknown as Context<Env, Client>;
}

function missing(name: string): never {
  throw new Error(`the handler uses ctx.${name}: testFunction(handler, { ${name}: … }) provides a fake`);
}

function responseBody({ body }: Answer): Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null {
  if (body.kind === 'none') return null;
  if (body.kind === 'bytes') return new Uint8Array(body.bytes);
  const { chunks } = body;
  return ReadableStream.from(
    (async function* () {
      for await (const chunk of chunks) yield new Uint8Array(toBytes(chunk));
    })(),
  );
}
