// Reads a request body up to a limit. A feature receives the body as an unmodified stream, because the content type
// and the size limit depend on the API and on the file, which can change without a restart.
import type { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { formatBytes } from '../lib/bytes.ts';
import { Abort, Problem } from '../problem/problem.ts';

export const bodyTooLarge = (maxBytes: number): Problem<'body_too_large'> =>
  new Problem('body_too_large', 413, `The request body is larger than ${formatBytes(maxBytes)}`, {
    hint: 'Send less at once, or raise server.max_body_size in svc.yaml.',
  });

/** The body was incomplete at the deadline, or stalled. */
export const bodyTooSlow = (): Problem<'request_timeout'> =>
  new Problem('request_timeout', 408, 'The request body did not arrive in time', {
    hint: 'Send it again. The limits are body_idle and request under server.timeouts in svc.yaml.',
  });

/** Passes the stream through, because Fastify would parse by content type and with one fixed limit. */
export function passBodyThrough(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
}

/** Returns the whole body. A body above `maxBytes` fails with 413 as soon as the excess is known. */
export async function readBody(body: unknown, maxBytes: number, declaredLength?: string): Promise<Buffer> {
  if (!isReadable(body)) return Buffer.alloc(0);
  if (declaredLength !== undefined && Number(declaredLength) > maxBytes) {
    // Drains unread bytes, because the next request would start with them.
    body.resume();
    throw bodyTooLarge(maxBytes);
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  return await new Promise((resolve, reject) => {
    body.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) {
        chunks.push(chunk);
        return;
      }
      chunks.length = 0;
      body.removeAllListeners('data');
      body.resume();
      reject(bodyTooLarge(maxBytes));
    });
    body.on('end', () => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
    body.on('aborted', () => reject(new Abort('client-gone')));
    body.on('error', () => reject(new Abort('client-gone')));
  });
}

function isReadable(body: unknown): body is Readable {
  return typeof body === 'object' && body !== null && 'pipe' in body;
}
