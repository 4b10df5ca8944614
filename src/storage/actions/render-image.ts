// GET /render/image/…: an object as a transformed image, with the same access rules as the object.
import type { FastifyReply } from 'fastify';
import { BlobMissing, readAtMost } from '../backend/backend.ts';
import { evaluate } from '../http/conditions.ts';
import { readQuery } from '../http/raw-path.ts';
import { writeHeaders } from '../http/serve.ts';
import {
  describeTransformation,
  parseTransformation,
  transformedTag,
  wantedFormat,
  type Transformation,
} from '../objects/image.ts';
import { objectFacts } from '../objects/object.ts';
import { blobNotFound, invalidSignature, preconditionFailed } from '../problem.ts';
import type { Call, CallerCall } from '../storage-context.ts';
import {
  publicReader,
  readDownloadLink,
  chooseReader,
  requireObject,
  signedReader,
  type Reader,
} from './download.ts';

export async function renderPublic(call: Call): Promise<FastifyReply> {
  const reader = publicReader(call);
  return await render(call, reader, queriedTransformation(call));
}

export async function renderAs(call: CallerCall): Promise<FastifyReply> {
  const wanted = queriedTransformation(call);
  return await render(call, chooseReader(call, 'storage.render.image_authenticated'), wanted);
}

export async function renderSigned(call: Call): Promise<FastifyReply> {
  const { transformations, expiresAt } = await readDownloadLink(call);
  if (transformations === undefined) throw invalidSignature();
  // From the token and not from the query, which its holder can change.
  const wanted = parseTransformation(JSON.parse(transformations) as Record<string, unknown>);
  return await render(call, signedReader(call), wanted, expiresAt);
}

function queriedTransformation({ request }: Call): Transformation {
  return parseTransformation(Object.fromEntries(readQuery(request)));
}

async function render(
  { context, request, reply }: Call,
  { find, shared }: Reader,
  wanted: Transformation,
  expiresAt?: Date,
): Promise<FastifyReply> {
  const object = requireObject(await find(), request);
  const facts = objectFacts(object);
  const format = wantedFormat(wanted, request.headers.accept);
  const etag = transformedTag(facts.etag, wanted, format);
  const verdict = evaluate(request.headers, { ...facts, etag });
  if (verdict === 'failed') throw preconditionFailed();
  const writeImageHeaders = (): void => {
    writeHeaders(reply, request, { object, shared, expiresAt });
    reply.removeHeader('accept-ranges').removeHeader('content-encoding');
    reply.header('etag', etag).header('x-transformations', describeTransformation(wanted));
    reply.raw.appendHeader('Vary', 'Accept');
  };
  if (verdict === 'not-modified') {
    writeImageHeaders();
    return await reply.code(304).send();
  }
  const read = async (): Promise<Buffer> =>
    await readAtMost(await context.backend.read(object.version, facts.size));
  const image = await context.images
    .render(read, facts.size, wanted, format, request.scope.signal)
    .catch((error: unknown) => {
      throw error instanceof BlobMissing ? blobNotFound() : error;
    });
  writeImageHeaders();
  // The server rendered the image, so the stored type does not matter.
  return await reply
    .removeHeader('content-security-policy')
    .header('content-type', image.contentType)
    .header('content-length', image.body.length)
    .send(image.body);
}
