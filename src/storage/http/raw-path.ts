// Paths as the client sent them: the router decodes them, which would hide an encoded slash in an object's name.
import type { FastifyRequest } from 'fastify';

/** The undecoded path after the plugin's prefix and `skip` segments. */
export function rawPath(request: FastifyRequest, prefix: string, skip: number): string {
  const path = request.url.split('?')[0] ?? '';
  return path
    .slice(prefix.length + 1)
    .split('/')
    .slice(skip)
    .join('/');
}

export function readQuery(request: FastifyRequest): URLSearchParams {
  const start = request.url.indexOf('?');
  return new URLSearchParams(start < 0 ? '' : request.url.slice(start + 1));
}

export function queryValue(request: FastifyRequest, name: string): string | undefined {
  return readQuery(request).get(name) ?? undefined;
}
