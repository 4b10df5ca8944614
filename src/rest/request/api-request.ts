// Parses the request line and headers: resource, action, query, preferences. The order of the checks decides which of
// several errors is reported.
import type { IncomingHttpHeaders } from 'node:http';
import { invalidPath, methodNotForRoutine, schemaNotExposed, unsupportedMethod } from '../problem.ts';
import { decode, parseQuery } from './parse-query.ts';
import { parsePreferences, type Preferences } from './preferences.ts';
import type { ParsedQuery } from './query.ts';

/** `name` of the root is empty. */
export type Resource = { readonly kind: 'root' | 'relation' | 'routine'; readonly name: string };

export type Action = 'read' | 'insert' | 'update' | 'put' | 'delete' | 'call' | 'describe' | 'options';

export type ApiRequest = {
  readonly method: string;
  /** Path without the API's prefix and without the query. */
  readonly path: string;
  readonly queryText: string;
  readonly resource: Resource;
  readonly action: Action;
  readonly schema: string;
  /** Whether the response headers name the schema. */
  readonly tellSchema: boolean;
  readonly parsed: ParsedQuery;
  readonly preferences: Preferences;
  readonly preferHeader: string;
  readonly accept: string | undefined;
  readonly headers: IncomingHttpHeaders;
};

export function readRequest(
  method: string,
  path: string,
  queryText: string,
  headers: IncomingHttpHeaders,
  schemas: readonly string[],
): ApiRequest {
  const resource = readResource(path);
  const isRead = method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
  const profile = single(isRead ? headers['accept-profile'] : headers['content-profile']);
  if (profile !== undefined && !schemas.includes(profile)) throw schemaNotExposed(profile, schemas);
  const action = readAction(method, resource);
  const preferHeader = joined(headers['prefer']);
  return {
    method,
    path,
    queryText,
    resource,
    action,
    schema: profile ?? schemas[0] ?? 'public',
    tellSchema: profile !== undefined || schemas.length > 1,
    parsed: parseQuery(
      queryText,
      resource.kind === 'routine' ? (isRead ? 'routine-by-get' : 'routine-by-post') : 'relation',
    ),
    preferences: parsePreferences(preferHeader),
    preferHeader,
    accept: headers.accept,
    headers,
  };
}

function readResource(path: string): Resource {
  if (path === '' || path === '/') return { kind: 'root', name: '' };
  const trimmed = path.endsWith('/') ? path.slice(1, -1) : path.slice(1);
  const slash = trimmed.indexOf('/');
  if (slash < 0) return { kind: 'relation', name: pathName(trimmed) };
  if (trimmed.startsWith('rpc/') && !trimmed.includes('/', 4)) {
    return { kind: 'routine', name: pathName(trimmed.slice(4)) };
  }
  throw invalidPath();
}

/** Unlike in a query, a plus in a path is a plus. */
function pathName(segment: string): string {
  const name = segment.includes('%') ? decode(segment.replaceAll('+', '%2B')) : segment;
  if (name === '' || name.includes('\0')) throw invalidPath();
  return name;
}

const RELATION_ACTIONS: ReadonlyMap<string, Action> = new Map([
  ['GET', 'read'],
  ['HEAD', 'read'],
  ['POST', 'insert'],
  ['PATCH', 'update'],
  ['PUT', 'put'],
  ['DELETE', 'delete'],
]);

function readAction(method: string, resource: Resource): Action {
  if (method === 'OPTIONS') return 'options';
  if (resource.kind === 'routine') {
    if (method === 'GET' || method === 'HEAD' || method === 'POST') return 'call';
    throw methodNotForRoutine(method, 'OPTIONS,GET,HEAD,POST');
  }
  if (resource.kind === 'root') {
    if (method === 'GET' || method === 'HEAD') return 'describe';
    throw unsupportedMethod(method);
  }
  const action = RELATION_ACTIONS.get(method);
  if (!action) throw unsupportedMethod(method);
  return action;
}

function single(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

function joined(header: string | string[] | undefined): string {
  return Array.isArray(header) ? header.join(',') : (header ?? '');
}
