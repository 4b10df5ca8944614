// The body of a signed request, given on only as far as it is vouched for: plain bytes held against the signed hash
// and the digests sent along, or an aws-chunked stream taken apart, each chunk under its own signature. Nothing is
// kept but the line being read; a body that turns out wrong fails before its last byte is given on as whole.
import { createHash, type Hash } from 'node:crypto';
import { Readable, Transform, type TransformCallback } from 'node:stream';
import { crc32 } from 'node:zlib';
import type { FastifyRequest } from 'fastify';
import { Abort } from '../../problem/problem.ts';
import {
  badDigest,
  contentHashMismatch,
  entityTooLarge,
  incompleteBody,
  invalidArgument,
  notImplemented,
  signatureMismatch,
} from './problem.ts';
import { hmac, sameText, type Seal } from './signature.ts';
import type { Signer } from './signer.ts';

export type Payload = {
  readonly source: Readable;
  /** Bytes of the content, without the framing of chunks. */
  readonly declaredBytes: number | undefined;
  abandon(): void;
};

const EMPTY_HASH = createHash('sha256').digest('hex');
const MAX_LINE_BYTES = 8 * 1024;
const MAX_TRAILERS = 8;

export function openPayload(request: FastifyRequest, { claim, seal }: Signer): Payload {
  const { headers } = request;
  const digests = readDigests((name) => header(request, name));
  const streaming = claim.payload.startsWith('STREAMING-');
  const length = streaming ? header(request, 'x-amz-decoded-content-length') : headers['content-length'];
  if (length !== undefined && !/^\d{1,15}$/.test(length)) throw invalidArgument('The length is not a number');
  const declaredBytes = length === undefined ? undefined : Number(length);
  const body = toBody(claim.payload, seal, digests, declaredBytes);
  const from = request.body instanceof Readable ? request.body : request.raw;
  const gone = (): void => void body.destroy(new Abort('client-gone'));
  from.once('aborted', gone);
  from.once('error', gone);
  // An error nobody reads any more must not end the process.
  body.on('error', () => {});
  from.pipe(body);
  return {
    source: body,
    declaredBytes,
    abandon: () => {
      from.unpipe(body);
      body.destroy();
    },
  };
}

/** The whole of a small body. */
export async function readPayload(
  request: FastifyRequest,
  signer: Signer,
  maxBytes: number,
): Promise<string> {
  const payload = openPayload(request, signer);
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of payload.source.iterator({ destroyOnReturn: false })) {
      if (!Buffer.isBuffer(chunk)) throw new TypeError('the body is not made of bytes');
      bytes += chunk.length;
      if (bytes > maxBytes) throw entityTooLarge();
      chunks.push(chunk);
    }
  } catch (error) {
    payload.abandon();
    throw error;
  }
  return Buffer.concat(chunks).toString('utf8');
}

function toBody(payload: string, seal: Seal, digests: Digests, declaredBytes: number | undefined): Transform {
  if (payload === 'UNSIGNED-PAYLOAD') return new PlainBody(digests, undefined);
  if (/^[0-9a-f]{64}$/.test(payload)) return new PlainBody(digests, payload);
  const match = /^STREAMING-(?:(UNSIGNED-PAYLOAD)|AWS4-HMAC-SHA256-PAYLOAD)(-TRAILER)?$/.exec(payload);
  if (!match || (match[1] && !match[2])) throw notImplemented(`Not known: x-amz-content-sha256 ${payload}`);
  if (declaredBytes === undefined) throw invalidArgument('x-amz-decoded-content-length is missing');
  return new ChunkedBody({
    digests,
    declaredBytes,
    seal: match[1] ? undefined : seal,
    trailer: match[2] !== undefined,
  });
}

type Digest = {
  readonly expected: string;
  update(chunk: Buffer): void;
  result(): string;
};
type Digests = Digest[];

const DIGEST_HEADERS: Readonly<Record<string, () => Omit<Digest, 'expected'>>> = {
  'content-md5': () => hashed('md5'),
  'x-amz-checksum-sha1': () => hashed('sha1'),
  'x-amz-checksum-sha256': () => hashed('sha256'),
  'x-amz-checksum-crc32': () => {
    let sum = 0;
    return {
      update: (chunk) => (sum = crc32(chunk, sum)),
      result: () => {
        const bytes = Buffer.alloc(4);
        bytes.writeUInt32BE(sum);
        return bytes.toString('base64');
      },
    };
  },
};

function hashed(algorithm: string): Omit<Digest, 'expected'> {
  const hash = createHash(algorithm);
  return { update: (chunk) => void hash.update(chunk), result: () => hash.digest('base64') };
}

/** Those that are sent and known here; CRC-32C and CRC-64 are left unchecked. */
function readDigests(value: (name: string) => string | undefined): Digests {
  return Object.entries(DIGEST_HEADERS).flatMap(([name, create]) => {
    const expected = value(name);
    return expected === undefined ? [] : [{ ...create(), expected }];
  });
}

class PlainBody extends Transform {
  readonly #digests: Digests;
  readonly #expected: string | undefined;
  readonly #hash: Hash | undefined;

  constructor(digests: Digests, expected: string | undefined) {
    super();
    this.#digests = digests;
    this.#expected = expected;
    this.#hash = expected === undefined ? undefined : createHash('sha256');
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#hash?.update(chunk);
    for (const digest of this.#digests) digest.update(chunk);
    done(null, chunk);
  }

  override _flush(done: TransformCallback): void {
    if (this.#hash && this.#hash.digest('hex') !== this.#expected) done(contentHashMismatch());
    else done(failedDigest(this.#digests));
  }
}

function failedDigest(digests: Digests): Error | null {
  return digests.every((digest) => sameText(digest.expected, digest.result())) ? null : badDigest();
}

type ChunkedOptions = {
  readonly digests: Digests;
  readonly declaredBytes: number;
  /** Undefined when the chunks are not signed. */
  readonly seal: Seal | undefined;
  readonly trailer: boolean;
};

/** `size[;chunk-signature=…]`, the bytes, and again; a chunk of size 0 and perhaps trailers end it. */
class ChunkedBody extends Transform {
  readonly #options: ChunkedOptions;
  /** A trailer's digest can only be known at the end, so all of them are made from the beginning. */
  readonly #trailing: ReadonlyMap<string, Omit<Digest, 'expected'>>;
  #state: 'size' | 'data' | 'after-data' | 'trailer' | 'end' = 'size';
  #line: Buffer = Buffer.alloc(0);
  #left = 0;
  #total = 0;
  #previous: string;
  #signature = '';
  #hash = createHash('sha256');
  readonly #trailers: string[] = [];

  constructor(options: ChunkedOptions) {
    super();
    this.#options = options;
    this.#previous = options.seal?.signature ?? '';
    this.#trailing = new Map(
      options.trailer ? Object.entries(DIGEST_HEADERS).map(([name, create]) => [name, create()]) : [],
    );
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    try {
      this.#take(chunk);
      done();
    } catch (error) {
      done(error instanceof Error ? error : incompleteBody());
    }
  }

  override _flush(done: TransformCallback): void {
    // Some clients leave out the empty line behind the last chunk.
    const whole = this.#state === 'end' || (this.#state === 'trailer' && !this.#options.trailer);
    if (!whole || this.#total !== this.#options.declaredBytes) done(incompleteBody());
    else done(failedDigest(this.#options.digests));
  }

  #take(bytes: Buffer): void {
    let rest = bytes;
    while (rest.length > 0) {
      if (this.#state === 'data') {
        const part = rest.subarray(0, this.#left);
        rest = rest.subarray(part.length);
        this.#left -= part.length;
        this.#pass(part);
        if (this.#left === 0) {
          this.#checkChunk();
          this.#state = 'after-data';
        }
        continue;
      }
      if (this.#state === 'end') throw incompleteBody();
      const end = rest.indexOf(10);
      const piece = end < 0 ? rest : rest.subarray(0, end + 1);
      if (this.#line.length + piece.length > MAX_LINE_BYTES)
        throw invalidArgument('A chunk header is too long');
      this.#line = Buffer.concat([this.#line, piece]);
      rest = rest.subarray(piece.length);
      if (end < 0) return;
      const line = this.#line.toString('latin1').replace(/\r?\n$/, '');
      this.#line = Buffer.alloc(0);
      this.#takeLine(line);
    }
  }

  #pass(part: Buffer): void {
    this.#total += part.length;
    if (this.#total > this.#options.declaredBytes) throw incompleteBody();
    if (this.#options.seal) this.#hash.update(part);
    for (const digest of this.#options.digests) digest.update(part);
    for (const digest of this.#trailing.values()) digest.update(part);
    this.push(part);
  }

  #takeLine(line: string): void {
    if (this.#state === 'after-data') {
      if (line !== '') throw incompleteBody();
      this.#state = 'size';
    } else if (this.#state === 'size') {
      const match = /^([0-9a-fA-F]{1,12})(?:;chunk-signature=([0-9a-f]{64}))?$/.exec(line);
      if (!match) throw invalidArgument('A chunk header cannot be read');
      this.#left = Number.parseInt(match[1] ?? '', 16);
      this.#signature = match[2] ?? '';
      if (this.#left > 0) this.#state = 'data';
      else {
        this.#checkChunk();
        this.#state = 'trailer';
      }
    } else if (line === '') {
      this.#checkTrailers();
      this.#state = 'end';
    } else {
      if (!this.#options.trailer || this.#trailers.length >= MAX_TRAILERS) throw incompleteBody();
      this.#trailers.push(line);
      // The signature of the trailers is the last of them, and not every client ends it with an empty line.
    }
  }

  #checkChunk(): void {
    this.#seal('AWS4-HMAC-SHA256-PAYLOAD', this.#signature, [EMPTY_HASH, this.#hash.digest('hex')]);
    this.#hash = createHash('sha256');
  }

  #checkTrailers(): void {
    const lines = this.#trailers.filter((line) => !/^x-amz-trailer-signature\s*:/i.test(line));
    const given = this.#trailers.find((line) => /^x-amz-trailer-signature\s*:/i.test(line));
    const trailers = lines.map((line): readonly [string, string] => {
      const at = line.indexOf(':');
      if (at < 1) throw invalidArgument('A trailer cannot be read');
      return [line.slice(0, at).trim().toLowerCase(), line.slice(at + 1).trim()];
    });
    if (this.#options.trailer) {
      const text = trailers.map(([name, value]) => `${name}:${value}\n`).join('');
      this.#seal('AWS4-HMAC-SHA256-TRAILER', given?.slice(given.indexOf(':') + 1).trim() ?? '', [
        createHash('sha256').update(text).digest('hex'),
      ]);
    }
    for (const [name, value] of trailers) {
      const digest = this.#trailing.get(name);
      if (digest && !sameText(value, digest.result())) throw badDigest();
    }
  }

  #seal(algorithm: string, given: string, hashes: readonly string[]): void {
    const { seal } = this.#options;
    if (!seal) return;
    const text = [algorithm, seal.date, seal.scope, this.#previous, ...hashes].join('\n');
    const expected = hmac(seal.signingKey, text).toString('hex');
    if (!sameText(given, expected)) throw signatureMismatch('The signature of a chunk is wrong');
    this.#previous = expected;
  }
}

function header(request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value[0] : value;
}
