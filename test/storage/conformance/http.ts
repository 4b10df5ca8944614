// Plain HTTP for tests: responses in parts, and requests that fetch cannot send.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { scaled } from '../../support/run/scaled.ts';

/** An entry of a list, or an object. */
export type Entry = {
  readonly id: string | null;
  readonly name: string;
  readonly key: string;
  readonly version: string;
  readonly created_at: string;
  readonly metadata: { readonly text: string };
};

/** All keys that the tests read, for any route. Missing keys are undefined. */
export type Wire = readonly Entry[] &
  Entry & {
    readonly statusCode: string;
    readonly code: string;
    readonly message: string;
    readonly content_type: string;
    readonly cache_control: string;
    readonly size: number;
    readonly Id: string;
    readonly Key: string;
    readonly signedURL: string;
    readonly url: string;
    readonly token: string;
    readonly hasNext: boolean;
    readonly nextCursor: string;
    readonly objects: readonly Entry[];
    readonly folders: readonly Entry[];
  };

export type Answer = {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Buffer;
  readonly text: string;
  readonly json: Wire;
};

export type Call = {
  readonly headers?: Record<string, string> | undefined;
  readonly body?: string | Buffer | object | undefined;
};

/** A plain object is sent as JSON, everything else unchanged. */
export async function call(method: string, url: string, { headers = {}, body }: Call = {}): Promise<Answer> {
  const plain =
    body !== undefined && typeof body === 'object' && Object.getPrototypeOf(body) === Object.prototype;
  const stream = body instanceof ReadableStream;
  const response = await fetch(url, {
    method,
    headers: plain ? { 'content-type': 'application/json', ...headers } : headers,
    ...(body === undefined ? {} : { body: plain ? JSON.stringify(body) : body }),
    ...(stream ? { duplex: 'half' } : {}),
  } as RequestInit);
  const bytes = Buffer.from(await response.arrayBuffer());
  const text = bytes.toString('utf8');
  return { status: response.status, headers: response.headers, bytes, text, json: parse(text) };
}

function parse(text: string): Wire {
  try {
    return JSON.parse(text) as Wire;
  } catch {
    // Not every response is JSON.
    return JSON.parse('[]') as Wire;
  }
}

export type RawRequest = {
  readonly socket: Socket;
  /** Everything received so far. */
  received(): string;
  /** Resolves when the headers of the response have arrived. */
  answered(): Promise<number>;
};

/** A raw request: unusual paths, bodies that stop, counted bytes. */
export async function openRaw(
  url: string,
  method: string,
  path: string,
  headers: Record<string, string>,
): Promise<RawRequest> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  let text = '';
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
  socket.on('error', () => {});
  const lines = Object.entries({ host: `${hostname}:${port}`, ...headers }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
  return {
    socket,
    received: () => text,
    async answered() {
      await until(() => text.includes('\r\n\r\n') || socket.destroyed);
      return Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0);
    },
  };
}

export async function until(
  condition: () => boolean | Promise<boolean>,
  what = 'the condition',
  timeoutMs = 10_000,
): Promise<void> {
  const deadline = Date.now() + scaled(timeoutMs);
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`${what} did not come true`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
