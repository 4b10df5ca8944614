// Creates signed links. Creating a link requires permission. Using it requires only the link.
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { sql } from '../../postgres/sql.ts';
import { during, callerOwner } from '../http/caller.ts';
import { readJson } from './json-body.ts';
import { requireBucket } from '../objects/bucket.ts';
import { signedTransformation } from '../objects/image.ts';
import { findObjectAs, readAs } from '../objects/object.ts';
import { parseObjectPath } from '../objects/object-path.ts';
import { dryRunUpload } from '../objects/permission.ts';
import { invalidParameter, objectNotFound } from '../problem.ts';
import type { CallerCall } from '../storage-context.ts';
import { DEFAULT_CONTENT_TYPE, readMetadataHeader } from '../uploads/fields.ts';

const MAX_PATHS = 1000;
const UPLOAD_LINK_SECONDS = 2 * 60 * 60;
/** Policies treat creating and using an upload link as one operation. */
export const UPLOAD_LINK_OPERATION = 'storage.object.sign_upload_url';
const NO_ACCESS = 'Either the object does not exist or you do not have access to it';

const expiresIn = z.int().min(1);

export const signBody = z.object({
  expiresIn,
  transform: z.record(z.string(), z.unknown()).nullish(),
  versionId: z.string().nullish(),
});
export const signManyBody = z.object({ expiresIn, paths: z.array(z.string()).min(1).max(MAX_PATHS) });

export async function signOne(call: CallerCall): Promise<FastifyReply> {
  const { context, request, reply, address, caller } = call;
  const body = await readJson(call, signBody);
  checkExpiry(body.expiresIn, context.now());
  requireBucket(context.snapshot().config, address.bucket);
  const object = await findObjectAs(context.callers, during(caller, 'storage.object.sign', request), address);
  if (!object || (body.versionId && body.versionId !== object.version)) throw objectNotFound();
  const url = `${address.bucket}/${address.name}`;
  const transformations = body.transform ? await signedTransformation(body.transform) : undefined;
  const token = await context.tokens.signDownload(url, body.expiresIn, transformations);
  const route = transformations === undefined ? 'object' : 'render/image';
  // Not percent-encoded: clients encode the whole of it.
  return await reply.send({ signedURL: `/${route}/sign/${url}?token=${token}` });
}

export async function signMany(call: CallerCall): Promise<FastifyReply> {
  const { context, request, reply, address, caller } = call;
  const { bucket } = address;
  const body = await readJson(call, signManyBody);
  checkExpiry(body.expiresIn, context.now());
  const visible = new Set(
    await readAs(
      context.callers,
      during(caller, 'storage.object.sign_many', request),
      sql`select o.name from storage.objects o where o.bucket_id = ${bucket} and o.name = any (${body.paths}::text[])`,
    ),
  );
  const signed = await Promise.all(
    body.paths.map(async (path) => {
      if (!visible.has(path)) return { error: NO_ACCESS, path, signedURL: null };
      const token = await context.tokens.signDownload(`${bucket}/${path}`, body.expiresIn);
      return { error: null, path, signedURL: `/object/sign/${bucket}/${path}?token=${token}` };
    }),
  );
  return await reply.send(signed);
}

export async function createUploadLink(call: CallerCall): Promise<FastifyReply> {
  const { context, request, reply, address, caller } = call;
  requireBucket(context.snapshot().config, address.bucket);
  parseObjectPath(address.name);
  const ownerId = callerOwner(caller);
  const upsert = request.headers['x-upsert'] === 'true';
  const metadata = { mimetype: DEFAULT_CONTENT_TYPE };
  const userMetadata = readMetadataHeader(request.headers['x-metadata']);
  const as = during(caller, UPLOAD_LINK_OPERATION, request);
  await dryRunUpload(context.callers, as, { ...address, ownerId, metadata, userMetadata }, upsert);
  const url = `${address.bucket}/${address.name}`;
  const maker = { role: caller.role, claims: caller.claims };
  const token = await context.tokens.signUpload(url, UPLOAD_LINK_SECONDS, { owner: ownerId, upsert, maker });
  return await reply.send({ url: `/object/upload/sign/${url}?token=${token}`, token });
}

function checkExpiry(seconds: number, now: Date): void {
  if (!Number.isSafeInteger(Math.floor(now.getTime() / 1000) + seconds)) throw invalidParameter('expiresIn');
}
