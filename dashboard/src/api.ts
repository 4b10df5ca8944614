// Sends all requests of the page to the server. A cookie carries the session; requests with effects also send the
// CSRF token.
import type { ApiError, CallerName, FileMistake, Session } from '../../src/dashboard-api/contract.ts';

const ROOT = '/dashboard/api';

/** An error response of any of the APIs. */
export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: string | null;
  readonly hint: string | null;
  readonly mistakes: readonly FileMistake[];

  constructor(status: number, body: Partial<ApiError>) {
    super(body.message ?? `The server answered ${status}`);
    this.name = 'ApiProblem';
    this.status = status;
    this.code = body.code ?? 'unknown';
    this.details = body.details ?? null;
    this.hint = body.hint ?? null;
    this.mistakes = body.mistakes ?? [];
  }
}

let csrf = '';
let onSignedOut = (): void => {};

/** Stores the CSRF token of the session. Called with every session that is read. */
export function followSession(session: Session): void {
  csrf = session.csrf;
}
export function whenSignedOut(notify: () => void): void {
  onSignedOut = notify;
}

export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const response = await exchange(path, init);
  if (response.ok) return response;
  throw refusal(response.status, await response.text());
}

/** Returns the response with any status, for callers that show the error itself. */
export async function exchange(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const method = init.method ?? 'GET';
  if (method !== 'GET' && method !== 'HEAD' && csrf !== '') headers.set('x-svc-csrf', csrf);
  try {
    return await fetch(ROOT + path, { ...init, headers, credentials: 'same-origin' });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === 'AbortError') throw cause;
    throw unreachable();
  }
}

export type Upload = {
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Fraction that has been sent, from 0 to 1. */
  readonly onProgress: (sent: number) => void;
};

/** Sends a file. Uses XMLHttpRequest because `fetch` does not report upload progress. */
export function upload(path: string, file: Blob, { headers, signal, onProgress }: Upload): Promise<void> {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open('POST', ROOT + path);
    for (const [name, value] of Object.entries({ ...headers, 'x-svc-csrf': csrf })) {
      xhr.setRequestHeader(name, value);
    }
    xhr.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 1 : loaded / total);
    xhr.onload = () => {
      if (xhr.status >= 200 && xhr.status < 300) resolve();
      else reject(refusal(xhr.status, xhr.responseText));
    };
    xhr.onerror = () => reject(unreachable());
    xhr.onabort = () => reject(new DOMException('The upload was cancelled', 'AbortError'));
    signal.addEventListener('abort', () => xhr.abort(), { once: true });
    xhr.send(file);
  });
}

function unreachable(): ApiProblem {
  return new ApiProblem(0, {
    code: 'unreachable',
    message: 'The service does not answer',
    hint: 'Check that it is running. The page keeps retrying.',
  });
}

function refusal(status: number, text: string): ApiProblem {
  const problem = new ApiProblem(status, errorBody(text));
  if (problem.status === 401 && problem.code === 'dashboard_signed_out') onSignedOut();
  return problem;
}

/** Each API of svc has its own error format. All of them are objects with a message. */
function errorBody(text: string): Partial<ApiError> {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body !== 'object' || body === null) return {};
    const field = (...names: string[]): string | undefined =>
      names.map((name): unknown => Reflect.get(body, name)).find((value) => typeof value === 'string');
    const message = field('message', 'msg', 'error_description', 'error');
    const mistakes: unknown = Reflect.get(body, 'mistakes');
    return {
      ...(message === undefined ? {} : { message }),
      code: field('error_code', 'code', 'error') ?? 'unknown',
      details: field('details') ?? null,
      hint: field('hint') ?? null,
      ...(Array.isArray(mistakes) ? { mistakes: mistakes as FileMistake[] } : {}),
    };
  } catch {
    return text === '' ? {} : { message: text.slice(0, 300) };
  }
}

export async function get<T>(path: string, signal?: AbortSignal, accept?: string): Promise<T> {
  const response = await request(path, {
    ...(signal ? { signal } : {}),
    ...(accept === undefined ? {} : { headers: { accept } }),
  });
  return (await response.json()) as T;
}

/** Sends a JSON body. Resolves to undefined if the response has no body. */
export async function send<T>(
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: unknown,
): Promise<T> {
  const response = await request(path, {
    method,
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  const text = await response.text();
  return (text === '' ? undefined : JSON.parse(text)) as T;
}

/** Returns the path of an API as called by a caller: `as('anon', 'rest', 'todos?limit=5')`. */
export function as(caller: CallerName, api: 'rest' | 'auth' | 'storage' | 'functions', path: string): string {
  return `/as/${caller}/${api}/v1/${path}`;
}

/** Returns a URL of the dashboard's API, for images, frames, downloads and event streams. */
export function apiUrl(path: string): string {
  return ROOT + path;
}
