// GET /render/image/…: an object as a smaller or other picture, with the rights of the object itself.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { BlobMissing } from '../backend/backend.ts';
import { requireBucket, requirePublicBucket } from '../objects/bucket.ts';
import { evaluate } from '../http/conditions.ts';
import {
  canRender,
  describeTransformation,
  parseTransformation,
  transformedTag,
  wantedFormat,
  type ImageRenderer,
  type Transformation,
} from '../objects/image.ts';
import type { Address } from '../objects/object-path.ts';
import { fileFacts, findObject, type StoredObject } from '../objects/object.ts';
import { blobNotFound, invalidSignature, preconditionFailed } from '../problem.ts';
import { writeHeaders } from '../http/serve.ts';
import type { StorageContext } from '../storage-context.ts';
import { present, readDownloadLink, readerOf } from './download.ts';

export async function renderPublic(
  context: StorageContext,
  renderer: ImageRenderer,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
): Promise<FastifyReply> {
  requirePublicBucket(context.snapshot().config, address.bucket);
  const wanted = parseTransformation(queryOf(request));
  const object = present(await findObject(context.owner, address), request);
  return await answer(context, renderer, request, reply, { object, shared: true }, wanted);
}

export async function renderAs(
  context: StorageContext,
  renderer: ImageRenderer,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
): Promise<FastifyReply> {
  const wanted = parseTransformation(queryOf(request));
  const reader = await readerOf(context, request, address, 'closed', 'storage.render.image_authenticated');
  const object = present(await reader.find(), request);
  return await answer(context, renderer, request, reply, { object, shared: reader.shared }, wanted);
}

export async function renderSigned(
  context: StorageContext,
  renderer: ImageRenderer,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
): Promise<FastifyReply> {
  const grant = await readDownloadLink(context, request, address);
  // The token says what may be seen of the picture; the query could say something else.
  if (grant.transformations === undefined) throw invalidSignature();
  const wanted = parseTransformation(JSON.parse(grant.transformations) as Record<string, unknown>);
  requireBucket(context.snapshot().config, address.bucket);
  const object = present(await findObject(context.owner, address), request);
  const reading = { object, shared: false, expiresAt: grant.expiresAt };
  return await answer(context, renderer, request, reply, reading, wanted);
}

/** For signing: the transformation as the token carries it; undefined where nothing can be rendered. */
export async function signedTransformation(
  transform: Readonly<Record<string, unknown>>,
): Promise<string | undefined> {
  if (Object.keys(transform).length === 0 || !(await canRender())) return undefined;
  return JSON.stringify(parseTransformation(transform));
}

async function answer(
  context: StorageContext,
  renderer: ImageRenderer,
  request: FastifyRequest,
  reply: FastifyReply,
  reading: { object: StoredObject; shared: boolean; expiresAt?: Date | undefined },
  wanted: Transformation,
): Promise<FastifyReply> {
  const { object } = reading;
  const facts = fileFacts(object);
  const format = wantedFormat(wanted, request.headers.accept);
  const etag = transformedTag(facts.etag, wanted, format);
  const verdict = evaluate(request.headers, { ...facts, etag });
  if (verdict === 'failed') throw preconditionFailed();
  const writeAll = (): void => {
    writeHeaders(reply, request, reading);
    reply.removeHeader('accept-ranges').removeHeader('content-encoding');
    reply.header('etag', etag).header('x-transformations', describeTransformation(wanted));
    reply.raw.appendHeader('Vary', 'Accept');
  };
  if (verdict === 'not-modified') {
    writeAll();
    return await reply.code(304).send();
  }
  const read = async (): Promise<Buffer> => {
    const body = await context.backend.read(object.version, facts.size);
    if (Buffer.isBuffer(body)) return body;
    const chunks: Buffer[] = [];
    for await (const chunk of body) if (Buffer.isBuffer(chunk)) chunks.push(chunk);
    return Buffer.concat(chunks);
  };
  const rendered = await renderer
    .render(read, facts.size, wanted, format, request.scope.signal)
    .catch((error: unknown) => {
      throw error instanceof BlobMissing ? blobNotFound() : error;
    });
  writeAll();
  // A picture made here, whatever was stored.
  return await reply
    .removeHeader('content-security-policy')
    .header('content-type', rendered.contentType)
    .header('content-length', rendered.body.length)
    .send(rendered.body);
}

function queryOf(request: FastifyRequest): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(request.url.split('?').slice(1).join('?')));
}
