// Parses requests to the dashboard's API: the JSON body, path parameters and query.
import type { FastifyRequest } from 'fastify';
import type { ZodType } from 'zod';
import { Fields } from '../auth/fields.ts';
import { localBaseUrl } from '../auth/http/fastify.ts';
import { readBody } from '../http/body.ts';
import type { DashboardContext } from './dashboard-context.ts';
import { badBody } from './problem.ts';

const MAX_BYTES = 4 * 1024 * 1024;

export async function readJson<T>(request: FastifyRequest, type: ZodType<T>): Promise<T> {
  const bytes = await readBody(request.body, MAX_BYTES, request.headers['content-length']);
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString('utf8'));
  } catch {
    throw badBody('It is not JSON.');
  }
  const parsed = type.safeParse(value);
  if (parsed.success) return parsed.data;
  // Paths and expectations only: the values may be secret.
  throw badBody(
    parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'body'}: ${message}`).join('; '),
  );
}

/** Returns the path segment that the route calls `:name`. */
export function pathParameter({ params }: FastifyRequest, name: string): string {
  return (params as Readonly<Record<string, string>>)[name] ?? '';
}

export function queryFields({ query }: FastifyRequest): Fields {
  return new Fields(query as Readonly<Record<string, unknown>>);
}

/** Returns the base URL of the APIs as the client reaches them. */
export function baseUrlFor(request: FastifyRequest, { baseUrl }: DashboardContext): string {
  return baseUrl() ?? localBaseUrl(request);
}
