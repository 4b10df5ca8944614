// Bodies that were compressed on their way. The limit holds for what comes out: a few bytes can become gigabytes.
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import { bodyTooLarge } from '../../http/body.ts';
import { badBody, unsupportedEncoding } from '../problem.ts';

const DECODERS = new Map([
  ['gzip', promisify(gunzip)],
  ['x-gzip', promisify(gunzip)],
  ['deflate', promisify(inflate)],
  ['br', promisify(brotliDecompress)],
]);

/** Refused before the body is read. */
export function checkEncoding(header: string | undefined): void {
  const encoding = encodingOf(header);
  if (encoding !== undefined && !DECODERS.has(encoding)) throw unsupportedEncoding(encoding);
}

export async function decodeBody(
  bytes: Buffer,
  header: string | undefined,
  maxBytes: number,
): Promise<Buffer> {
  const encoding = encodingOf(header);
  const decoder = encoding === undefined ? undefined : DECODERS.get(encoding);
  if (!decoder || bytes.length === 0) return bytes;
  try {
    return await decoder(bytes, { maxOutputLength: maxBytes });
  } catch (error) {
    if (error instanceof RangeError) throw bodyTooLarge(maxBytes);
    throw badBody(`The body is not valid ${encoding ?? ''}`, 'Compress it again, or send it as it is.');
  }
}

function encodingOf(header: string | undefined): string | undefined {
  const encoding = header?.trim().toLowerCase();
  return encoding === '' || encoding === 'identity' ? undefined : encoding;
}
