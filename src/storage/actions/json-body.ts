// Parses JSON bodies and ignores the content type, because some clients send a different one.
import type { z } from 'zod';
import { readBody } from '../../http/body.ts';
import { foreignCharset } from '../../http/charset.ts';
import { invalidBody, invalidContentType } from '../problem.ts';
import type { Call } from '../storage-context.ts';

export async function readJson<T>({ context, request }: Call, schema: z.ZodType<T>): Promise<T> {
  const { maxBodyBytes } = context.snapshot().config.server;
  if (foreignCharset(request.headers['content-type']) !== undefined) throw invalidContentType();
  const body = await readBody(request.body, maxBodyBytes, request.headers['content-length']);
  let value: unknown = {};
  if (body.length > 0) {
    try {
      value = JSON.parse(body.toString('utf8'));
    } catch {
      throw invalidBody('body must be valid JSON');
    }
  }
  for (;;) {
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    const coercedValue = coerced(issue, value);
    if (coercedValue === undefined) throw invalidBody(describe(issue, value));
    value = coercedValue;
  }
}

/**
 * Returns the value with one string coerced, because clients write `"60"` for 60 and Supabase Storage accepts it.
 * Undefined if no coercion applies.
 */
function coerced(issue: z.core.$ZodIssue | undefined, value: unknown): unknown {
  if (issue?.code !== 'invalid_type') return undefined;
  const path = issue.path.map(String);
  const found = at(value, path);
  const wanted = issue.expected === 'int' ? 'number' : issue.expected;
  const read =
    typeof found === 'string' && wanted === 'number' && /^-?\d+(\.\d+)?$/.test(found)
      ? Number(found)
      : typeof found === 'string' && wanted === 'boolean' && /^(true|false)$/.test(found)
        ? found === 'true'
        : (typeof found === 'number' || typeof found === 'boolean') && wanted === 'string'
          ? String(found)
          : undefined;
  return read === undefined ? undefined : withValue(value, path, read);
}

function withValue(value: unknown, [first, ...rest]: readonly string[], read: unknown): unknown {
  if (first === undefined) return read;
  if (Array.isArray(value))
    return value.map((item: unknown, index) =>
      String(index) === first ? withValue(item, rest, read) : item,
    );
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, key === first ? withValue(item, rest, read) : item]),
  );
}

/** Uses the wording of Supabase Storage, because applications match it. */
function describe(issue: z.core.$ZodIssue | undefined, value: unknown): string {
  if (!issue) return 'body is invalid';
  const path = issue.path.map(String);
  const last = path.at(-1);
  if (issue.code === 'invalid_type' && last !== undefined && at(value, path) === undefined) {
    const parent = path.slice(0, -1);
    return `body${parent.map((part) => `/${part}`).join('')} must have required property '${last}'`;
  }
  const where = path.length > 0 ? `body/${path.join('/')}` : 'body';
  if (issue.code === 'invalid_type') {
    return `${where} must be ${issue.expected === 'int' ? 'integer' : issue.expected}`;
  }
  const isArray = 'origin' in issue && issue.origin === 'array';
  if (issue.code === 'too_small') {
    const { minimum } = issue;
    return `${where} must ${isArray ? `NOT have fewer than ${minimum} items` : `be >= ${minimum}`}`;
  }
  if (issue.code === 'too_big') {
    const { maximum } = issue;
    return `${where} must ${isArray ? `NOT have more than ${maximum} items` : `be <= ${maximum}`}`;
  }
  return issue.code === 'invalid_value'
    ? `${where} must be equal to one of the allowed values`
    : `${where} is invalid`;
}

function at(value: unknown, path: readonly string[]): unknown {
  let current = value;
  for (const part of path) {
    if (typeof current !== 'object' || current === null) return undefined;
    current = Object.entries(current).find(([key]) => key === part)?.[1];
  }
  return current;
}
