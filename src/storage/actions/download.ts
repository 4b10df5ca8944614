// GET and HEAD of an object: by a public address, with credentials, or with a signed link.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { requireBucket, requirePublicBucket } from '../objects/bucket.ts';
import { closedCaller, during, lenientCaller } from '../http/caller.ts';
import type { Address } from '../objects/object-path.ts';
import { findObject, findObjectAs, type StoredObject } from '../objects/object.ts';
import { bucketNotFound, invalidSignature, invalidUrlToken, objectNotFound } from '../problem.ts';
import { queryValue, serve } from '../http/serve.ts';
import type { StorageContext } from '../storage-context.ts';

export async function downloadPublic(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
): Promise<FastifyReply> {
  requirePublicBucket(context.snapshot().config, address.bucket);
  const find = (): Promise<StoredObject | undefined> => findObject(context.owner, address);
  const object = present(await find(), request);
  return await serve(context, request, reply, { object, shared: true }, find);
}

export async function downloadAs(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
  door: 'closed' | 'lenient',
): Promise<FastifyReply> {
  const reader = await readerOf(context, request, address, door, 'storage.object.get_authenticated');
  const object = present(await reader.find(), request);
  return await serve(context, request, reply, { object, shared: reader.shared }, reader.find);
}

export async function downloadSigned(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
): Promise<FastifyReply> {
  const grant = await readDownloadLink(context, request, address);
  // A link to a rendering is no link to the original.
  if (grant.transformations !== undefined) throw invalidSignature();
  const { expiresAt } = grant;
  requireBucket(context.snapshot().config, address.bucket);
  const find = (): Promise<StoredObject | undefined> => findObject(context.owner, address);
  const object = present(await find(), request);
  return await serve(context, request, reply, { object, shared: false, expiresAt }, find);
}

/** What the token in the address allows. */
export async function readDownloadLink(
  context: StorageContext,
  request: FastifyRequest,
  address: Address,
): ReturnType<StorageContext['tokens']['verifyDownload']> {
  const token = queryValue(request, 'token');
  if (token === undefined) throw invalidUrlToken('token is missing');
  return await context.tokens.verifyDownload(token, `${address.bucket}/${address.name}`);
}

export type Reader = {
  readonly shared: boolean;
  readonly find: () => Promise<StoredObject | undefined>;
};

/** Public buckets need no policy; in private ones the caller sees what a select policy shows. */
export async function readerOf(
  context: StorageContext,
  request: FastifyRequest,
  address: Address,
  door: 'closed' | 'lenient',
  operation: string,
): Promise<Reader> {
  const resolve = door === 'closed' ? closedCaller : lenientCaller;
  const caller = await resolve(context.credentials, request);
  const bucket = requireBucket(context.snapshot().config, address.bucket);
  if (bucket.public) return { shared: true, find: () => findObject(context.owner, address) };
  // Without a caller a private bucket is not even there.
  if (!caller) throw bucketNotFound();
  const as = during(caller, operation, request);
  return { shared: false, find: () => findObjectAs(context.callers, as, address) };
}

/** Without versioning there is one version: the current one can be asked for by its name. */
export function present(object: StoredObject | undefined, request: FastifyRequest): StoredObject {
  const versionId = queryValue(request, 'versionId');
  if (!object || (versionId !== undefined && versionId !== '' && versionId !== object.version)) {
    throw objectNotFound();
  }
  return object;
}
