// The one way from the page to the server. Cookies carry the session; what changes anything carries its token.
import type { ApiError, CallerName, FileMistake, Session } from '../../src/dashboard-api/contract.ts';

const ROOT = '/dashboard/api';

/** A refusal, in the words of whichever API refused. */
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

/** Called with every session that is read, and whenever the server no longer knows ours. */
export function followSession(session: Session): void {
  csrf = session.csrf;
}
export function whenSignedOut(tell: () => void): void {
  onSignedOut = tell;
}

export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const method = init.method ?? 'GET';
  if (method !== 'GET' && method !== 'HEAD' && csrf !== '') headers.set('x-svc-csrf', csrf);
  let response: Response;
  try {
    response = await fetch(ROOT + path, { ...init, headers, credentials: 'same-origin' });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === 'AbortError') throw cause;
    throw new ApiProblem(0, {
      code: 'unreachable',
      message: 'The service does not answer',
      hint: 'Is it still running? The page tries again by itself.',
    });
  }
  if (response.ok) return response;
  const problem = new ApiProblem(response.status, await errorBody(response));
  if (problem.status === 401 && problem.code === 'dashboard_signed_out') onSignedOut();
  throw problem;
}

/** Every API of svc has its own error dialect; all of them are objects with a message. */
async function errorBody(response: Response): Promise<Partial<ApiError>> {
  const text = await response.text();
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

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, signal ? { signal } : {});
  return (await response.json()) as T;
}

/** With a JSON body; answers without one resolve to undefined. */
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

/** A path of one of the APIs, called as somebody: `as('anon', 'rest', 'todos?limit=5')`. */
export function as(caller: CallerName, api: 'rest' | 'auth' | 'storage' | 'functions', path: string): string {
  return `/as/${caller}/${api}/v1/${path}`;
}

/** Where a URL of the dashboard's API is needed as such: images, frames, downloads, event streams. */
export function apiUrl(path: string): string {
  return ROOT + path;
}
