// Signed links. Making one needs the right to do the thing now; using one needs only the link, until it expires.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { sql } from '../../postgres/sql.ts';
import { requireBucket } from '../objects/bucket.ts';
import { closedCaller, during, ownerOf } from '../http/caller.ts';
import { openUpload, readMetadataHeader } from '../uploads/incoming.ts';
import { parseObjectPath, type Address } from '../objects/object-path.ts';
import { findObjectAs, readAs, rehearseUpload } from '../objects/object.ts';
import { invalidParameter, invalidUrlToken, objectNotFound } from '../problem.ts';
import { probedMetadata, receive } from '../uploads/receive.ts';
import { readJson } from '../http/request-body.ts';
import { queryValue } from '../http/serve.ts';
import type { StorageContext } from '../storage-context.ts';
import { linkHolder } from '../uploads/upload-slots.ts';

const MAX_PATHS = 1000;
const UPLOAD_LINK_SECONDS = 2 * 60 * 60;
/** Making one and using it are one operation to a policy, which has to allow both. */
export const UPLOAD_LINK_OPERATION = 'storage.object.sign_upload_url';
const NO_ACCESS = 'Either the object does not exist or you do not have access to it';

const expiresIn = z.int().min(1);

const signBody = z.object({
  expiresIn,
  transform: z.record(z.string(), z.unknown()).nullish(),
  versionId: z.string().nullish(),
});
const signManyBody = z.object({ expiresIn, paths: z.array(z.string()).min(1).max(MAX_PATHS) });

export async function signOne(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
  renderTransform: (transform: Readonly<Record<string, unknown>>) => Promise<string | undefined>,
): Promise<FastifyReply> {
  const caller = await closedCaller(context.credentials, request);
  const { config } = context.snapshot();
  const body = await readJson(request, signBody, config.server.maxBodyBytes);
  checkExpiry(body.expiresIn, context.now());
  requireBucket(config, address.bucket);
  const object = await findObjectAs(context.callers, during(caller, 'storage.object.sign', request), address);
  if (!object || (body.versionId && body.versionId !== object.version)) throw objectNotFound();
  const url = `${address.bucket}/${address.name}`;
  const transformations = body.transform ? await renderTransform(body.transform) : undefined;
  const token = await context.tokens.signDownload(url, body.expiresIn, { transformations });
  const route = transformations === undefined ? 'object' : 'render/image';
  // Not encoded: the clients encode the whole of it.
  return await reply.send({ signedURL: `/${route}/sign/${url}?token=${token}` });
}

export async function signMany(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  bucketId: string,
): Promise<FastifyReply> {
  const caller = await closedCaller(context.credentials, request);
  const { config } = context.snapshot();
  const body = await readJson(request, signManyBody, config.server.maxBodyBytes);
  checkExpiry(body.expiresIn, context.now());
  const visible = new Set(
    await readAs(
      context.callers,
      during(caller, 'storage.object.sign_many', request),
      sql`select o.name from storage.objects o where o.bucket_id = ${bucketId} and o.name = any (${body.paths}::text[])`,
    ),
  );
  const signed = await Promise.all(
    body.paths.map(async (path) => {
      if (!visible.has(path)) return { error: NO_ACCESS, path, signedURL: null };
      const url = `${bucketId}/${path}`;
      const token = await context.tokens.signDownload(url, body.expiresIn);
      return { error: null, path, signedURL: `/object/sign/${url}?token=${token}` };
    }),
  );
  return await reply.send(signed);
}

export async function createUploadLink(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
): Promise<FastifyReply> {
  const caller = await closedCaller(context.credentials, request);
  requireBucket(context.snapshot().config, address.bucket);
  parseObjectPath(address.name);
  const ownerId = ownerOf(caller);
  const upsert = request.headers['x-upsert'] === 'true';
  await rehearseUpload(
    context.callers,
    during(caller, UPLOAD_LINK_OPERATION, request),
    {
      ...address,
      ownerId,
      metadata: probedMetadata({ contentType: 'application/octet-stream' }, undefined),
      userMetadata: readMetadataHeader(request.headers['x-metadata']),
    },
    upsert,
  );
  const url = `${address.bucket}/${address.name}`;
  const { role, claims } = caller;
  const token = await context.tokens.signUpload(url, UPLOAD_LINK_SECONDS, {
    owner: ownerId,
    upsert,
    maker: { role, claims },
  });
  return await reply.send({ url: `/object/upload/sign/${url}?token=${token}`, token });
}

export async function uploadSigned(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
): Promise<FastifyReply> {
  const token = queryValue(request, 'token');
  if (token === undefined) throw invalidUrlToken('token is missing');
  const grant = await context.tokens.verifyUpload(token, `${address.bucket}/${address.name}`);
  const bucket = requireBucket(context.snapshot().config, address.bucket);
  const object = await receive(context, request, () => openUpload(context, request), {
    bucket,
    name: address.name,
    upsert: grant.upsert,
    ownerId: grant.owner,
    // For whoever made the link, by what holds now: rights that ended since then are not in the link.
    caller: during(grant.maker, UPLOAD_LINK_OPERATION, request),
    holder: linkHolder(request),
  });
  return await reply.send({ Key: `${object.bucket_id}/${object.name}` });
}

function checkExpiry(seconds: number, now: Date): void {
  if (!Number.isSafeInteger(Math.floor(now.getTime() / 1000) + seconds)) throw invalidParameter('expiresIn');
}
