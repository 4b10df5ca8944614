// GET and HEAD of an object: at its public address, with credentials, or with a signed link.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { during } from '../http/caller.ts';
import { queryValue } from '../http/raw-path.ts';
import { serve } from '../http/serve.ts';
import { requireBucket, requirePublicBucket } from '../objects/bucket.ts';
import { findObject, findObjectAs, type StoredObject } from '../objects/object.ts';
import type { DownloadToken } from '../objects/url-token.ts';
import { bucketNotFound, invalidSignature, invalidUrlToken, objectNotFound } from '../problem.ts';
import type { Call, OptionalCallerCall } from '../storage-context.ts';

export async function downloadPublic(call: Call): Promise<FastifyReply> {
  return await download(call, publicReader(call));
}

export async function downloadAs(call: OptionalCallerCall): Promise<FastifyReply> {
  return await download(call, chooseReader(call, 'storage.object.get_authenticated'));
}

export async function downloadSigned(call: Call): Promise<FastifyReply> {
  const { transformations, expiresAt } = await readDownloadLink(call);
  // A link to a transformed image gives no access to the original.
  if (transformations !== undefined) throw invalidSignature();
  return await download(call, signedReader(call), expiresAt);
}

async function download(call: Call, { find, shared }: Reader, expiresAt?: Date): Promise<FastifyReply> {
  const object = requireObject(await find(), call.request);
  return await serve(call.context, call.request, call.reply, { object, shared, expiresAt }, find);
}

/** Verifies the token of the URL. */
export async function readDownloadLink({ context, request, address }: Call): Promise<DownloadToken> {
  const token = queryValue(request, 'token');
  if (token === undefined) throw invalidUrlToken('token is missing');
  return await context.tokens.verifyDownload(token, `${address.bucket}/${address.name}`);
}

export type Reader = {
  /** True for a public object. */
  readonly shared: boolean;
  readonly find: () => Promise<StoredObject | undefined>;
};

export function publicReader({ context, address }: Call): Reader {
  requirePublicBucket(context.snapshot().config, address.bucket);
  return { shared: true, find: () => findObject(context.owner, address) };
}

/** After the token was verified. */
export function signedReader({ context, address }: Call): Reader {
  requireBucket(context.snapshot().config, address.bucket);
  return { shared: false, find: () => findObject(context.owner, address) };
}

/**
 * Finds the object in a private bucket as far as select policies show it. Without credentials the bucket is not
 * visible, either.
 */
export function chooseReader(
  { context, request, address, caller }: OptionalCallerCall,
  operation: string,
): Reader {
  const bucket = requireBucket(context.snapshot().config, address.bucket);
  if (bucket.public) return { shared: true, find: () => findObject(context.owner, address) };
  if (!caller) throw bucketNotFound();
  const as = during(caller, operation, request);
  return { shared: false, find: () => findObjectAs(context.callers, as, address) };
}

/** An object has exactly one version, which can be requested by its id. */
export function requireObject(object: StoredObject | undefined, request: FastifyRequest): StoredObject {
  const versionId = queryValue(request, 'versionId');
  if (!object || (versionId !== undefined && versionId !== '' && versionId !== object.version)) {
    throw objectNotFound();
  }
  request.scope.bucket = object.bucket_id;
  return object;
}
