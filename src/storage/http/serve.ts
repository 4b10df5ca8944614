// Answering with an object's bytes. Headers come from the row; the backend is only opened to send a body.
import type { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { freeChunk } from '../../lib/memory/free-chunk.ts';
import type { Log } from '../../log/log.ts';
import { BlobMissing, type Backend } from '../backend/backend.ts';
import { evaluate, selectRange } from './conditions.ts';
import { SANDBOX, servedType } from '../objects/content-type.ts';
import { objectFacts, type StoredObject } from '../objects/object.ts';
import { blobNotFound, invalidRange, preconditionFailed } from '../problem.ts';
import { queryValue } from './raw-path.ts';

export type Reading = {
  readonly object: StoredObject;
  /** True for a public object, which shared caches may store. */
  readonly shared: boolean;
  /** End of a signed link, sent instead of `Cache-Control`. */
  readonly expiresAt?: Date | undefined;
};

export async function serve(
  context: { readonly backend: Backend; readonly log: Log },
  request: FastifyRequest,
  reply: FastifyReply,
  reading: Reading,
  /** Finds the object again when its bytes were replaced after the row was read. */
  reread: () => Promise<StoredObject | undefined>,
): Promise<FastifyReply> {
  const { object } = reading;
  const facts = objectFacts(object);
  const verdict = evaluate(request.headers, facts);
  if (verdict === 'failed') throw preconditionFailed();
  writeHeaders(reply, request, reading);
  if (verdict === 'not-modified') return await reply.code(304).send();

  if (request.method === 'HEAD') {
    return await reply.code(200).header('content-length', facts.size).send();
  }
  const range = selectRange(request.headers, facts);
  if (range === 'unsatisfiable') {
    clearHeaders(reply);
    throw invalidRange(facts.size);
  }
  let body;
  try {
    body = await context.backend.read(object.version, facts.size, range);
  } catch (error) {
    clearHeaders(reply);
    if (!(error instanceof BlobMissing)) throw error;
    const current = await reread();
    if (current && current.version !== object.version) {
      return await serve(context, request, reply, { ...reading, object: current }, () =>
        Promise.resolve(undefined),
      );
    }
    context.log.error({ version: object.version, bucket: object.bucket_id }, 'an object has no bytes');
    throw blobNotFound();
  }
  const length = range ? range.end - range.start + 1 : facts.size;
  reply.header('content-length', length);
  if (range) reply.code(206).header('content-range', `bytes ${range.start}-${range.end}/${facts.size}`);
  return Buffer.isBuffer(body) ? await reply.send(body) : pump(body, reply);
}

/**
 * Pipes a stream to the socket and frees each chunk once it is written. Uses events instead of `for await`, which
 * would concatenate waiting chunks and leave the originals to the garbage collector.
 */
function pump(body: Readable, reply: FastifyReply): FastifyReply {
  const { raw } = reply;
  if (raw.destroyed) {
    // The client left while the body was being opened; its `close` event is over, so the body is closed here.
    body.destroy();
    return reply.hijack();
  }
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) raw.setHeader(name, value);
  }
  reply.hijack();
  raw.statusCode = reply.statusCode;
  body.on('data', (chunk: Buffer) => {
    if (!raw.write(chunk, () => freeChunk(chunk))) body.pause();
  });
  raw.on('drain', () => body.resume());
  raw.once('close', () => body.destroy());
  body.once('end', () => raw.end());
  // The head is sent: only an aborted connection can show that the body is incomplete.
  body.once('error', () => raw.destroy());
  return reply;
}

/** Fastify keeps headers across a thrown error; an error must not carry those of an object. */
export function clearHeaders(reply: FastifyReply): void {
  for (const name of Object.keys(reply.getHeaders())) {
    if (!/^(access-control-|vary$|x-request-id$)/.test(name)) reply.removeHeader(name);
  }
  reply.headers(SAFE_HEADERS);
}

/**
 * Headers of every response, because stored files, and errors that quote them, share an origin with the API.
 */
export const SAFE_HEADERS: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': SANDBOX,
};

export function writeHeaders(
  reply: FastifyReply,
  request: FastifyRequest,
  { object, shared, expiresAt }: Reading,
): void {
  const facts = objectFacts(object);
  const { contentType, policy } = servedType(facts.contentType);
  reply.headers({
    ...SAFE_HEADERS,
    'content-type': contentType,
    etag: facts.etag,
    'last-modified': facts.lastModified.toUTCString(),
    'accept-ranges': 'bytes',
    'x-robots-tag': facts.robots ?? 'none',
  });
  if (policy === undefined) reply.removeHeader('content-security-policy');
  if (facts.contentEncoding !== undefined) reply.header('content-encoding', facts.contentEncoding);
  if (shared) reply.header('cross-origin-resource-policy', 'cross-origin');
  if (expiresAt) {
    reply.header('expires', expiresAt.toUTCString());
    reply.header('cross-origin-resource-policy', 'cross-origin');
  } else {
    reply.header('cache-control', shared ? facts.cacheControl : privately(facts.cacheControl));
    if (!shared) varyByCaller(reply);
  }
  const download = queryValue(request, 'download');
  if (download !== undefined) reply.header('content-disposition', disposition(download));
}

/** Shared caches must not store a private object, even if the uploader allowed it. */
export function privately(cacheControl: string): string {
  const kept = cacheControl
    .split(',')
    .map((directive) => directive.trim())
    .filter((directive) => directive !== '' && !/^(public|private|s-maxage\b.*|immutable)$/i.test(directive));
  return ['private', ...kept].join(', ');
}

export function varyByCaller(reply: FastifyReply): void {
  reply.raw.appendHeader('Vary', 'Authorization, apikey');
}

/** An empty name requests a download without a file name. */
export function disposition(name: string): string {
  if (name === '') return 'attachment;';
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename=${encoded}; filename*=UTF-8''${encoded}`;
}
