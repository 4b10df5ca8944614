// Buckets can be read; every change is refused, because they are declared in svc.yaml.
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { isoTimestamp, raw, sql } from '../../postgres/sql.ts';
import { during } from '../http/caller.ts';
import { readQuery } from '../http/raw-path.ts';
import { readJson } from './json-body.ts';
import { findBucket } from '../objects/bucket.ts';
import { readAs } from '../objects/object.ts';
import {
  accessDenied,
  bucketAlreadyExists,
  bucketNotFound,
  bucketsAreDeclared,
  invalidBody,
} from '../problem.ts';
import type { CallerCall } from '../storage-context.ts';

const BUCKET_JSON = sql`json_build_object('id', id, 'name', name, 'owner', coalesce(owner::text, ''), 'public', public,
  'type', type, 'file_size_limit', file_size_limit, 'allowed_mime_types', allowed_mime_types,
  'created_at', ${isoTimestamp('created_at')}, 'updated_at', ${isoTimestamp('updated_at')})`;

export const listQuery = z.object({
  limit: z.coerce.number().int().min(1).max(10_000).default(1000),
  offset: z.coerce.number().int().min(0).default(0),
  sortColumn: z.enum(['id', 'name', 'created_at', 'updated_at']).default('id'),
  sortOrder: z.enum(['asc', 'desc']).default('asc'),
  search: z.string().default(''),
});

export async function listBuckets({ context, request, reply, caller }: CallerCall): Promise<FastifyReply> {
  const parsed = listQuery.safeParse(Object.fromEntries(readQuery(request)));
  if (!parsed.success) {
    throw invalidBody(`querystring/${parsed.error.issues[0]?.path.join('/') ?? ''} is invalid`);
  }
  const { limit, offset, sortColumn, sortOrder, search } = parsed.data;
  const ordering = raw(`${sortColumn} ${sortOrder}`);
  // Not LIKE, because `%` and `_` are literal characters here.
  const matching = search === '' ? sql`true` : sql`position(${search.toLowerCase()} in lower(name)) > 0`;
  const buckets = await readAs(
    context.callers,
    during(caller, 'storage.bucket.list', request),
    sql`select ${BUCKET_JSON} from storage.buckets where ${matching}
      order by ${ordering} limit ${limit} offset ${offset}`,
  );
  return await reply.send(buckets.map((json): unknown => JSON.parse(json)));
}

export async function getBucket(call: CallerCall): Promise<FastifyReply> {
  const { context, request, reply, address, caller } = call;
  if (address.name === 'lifecycle') return refuseBucketChange(call);
  const [json] = await readAs(
    context.callers,
    during(caller, 'storage.bucket.get', request),
    sql`select ${BUCKET_JSON} from storage.buckets where id = ${address.bucket}`,
  );
  if (json === undefined) throw bucketNotFound();
  return await reply.header('content-type', 'application/json; charset=utf-8').send(json);
}

const createBody = z.looseObject({ id: z.string().optional(), name: z.string().optional() });

export async function refuseBucketCreation(call: CallerCall): Promise<never> {
  const body = await readJson(call, createBody);
  if (call.caller.role !== 'service_role') throw accessDenied();
  // Start-up scripts that create their buckets expect this error.
  if (findBucket(call.context.snapshot().config, body.id ?? body.name ?? '')) throw bucketAlreadyExists();
  throw bucketsAreDeclared({ headers: { allow: 'GET, HEAD' } });
}

export function refuseBucketChange({ context, address, caller }: CallerCall): never {
  if (!findBucket(context.snapshot().config, address.bucket)) throw bucketNotFound();
  if (caller.role !== 'service_role') throw accessDenied();
  throw bucketsAreDeclared({ headers: { allow: 'GET, HEAD' } });
}
