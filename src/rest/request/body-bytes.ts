// Reads and decompresses the body of a request. The limit also applies to the decompressed size, because a few bytes
// can become gigabytes.
import type { IncomingHttpHeaders } from 'node:http';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import { bodyTooLarge, readBody } from '../../http/body.ts';
import { badBody, unsupportedEncoding } from '../problem.ts';

const DECODERS = new Map([
  ['gzip', promisify(gunzip)],
  ['x-gzip', promisify(gunzip)],
  ['deflate', promisify(inflate)],
  ['br', promisify(brotliDecompress)],
]);

/** Refuses an unknown encoding before the body is read. */
export function readBytes(body: unknown, headers: IncomingHttpHeaders, maxBytes: number): Promise<Buffer> {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? '';
  const isPlain = encoding === '' || encoding === 'identity';
  if (!isPlain && !DECODERS.has(encoding)) throw unsupportedEncoding(encoding);
  const received = readBody(body, maxBytes, headers['content-length']);
  return isPlain ? received : received.then((bytes) => decode(bytes, encoding, maxBytes));
}

async function decode(bytes: Buffer, encoding: string, maxBytes: number): Promise<Buffer> {
  const decoder = DECODERS.get(encoding);
  if (!decoder || bytes.length === 0) return bytes;
  try {
    return await decoder(bytes, { maxOutputLength: maxBytes });
  } catch (error) {
    if (error instanceof RangeError) throw bodyTooLarge(maxBytes);
    throw badBody(`The body is not valid ${encoding}`, 'Compress it again, or send it as it is.');
  }
}
