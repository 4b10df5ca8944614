// JSON bodies of the dashboard's API: read up to a limit, parsed once into a type.
import type { FastifyRequest } from 'fastify';
import type { ZodType } from 'zod';
import { readBody } from '../http/body.ts';
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
