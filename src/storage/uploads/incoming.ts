// An upload's body as it arrives: raw or as a form, counted, hashed and watched while it flows. Nothing here
// holds more than a chunk, and nothing closes the connection before the refusal has been sent.
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import busboy from 'busboy';
import type { FastifyRequest } from 'fastify';
import { isFolderPlaceholder } from '../objects/object-path.ts';
import { Abort } from '../../problem/problem.ts';
import { checkDeclaredType, checkSniffedType, isHeaderValue, SNIFF_BYTES } from '../objects/content-type.ts';
import type { UploadSlots } from './upload-slots.ts';
import { invalidRequest, invalidRobotsTag, StorageProblem, tooLarge } from '../problem.ts';

export type UploadFields = {
  readonly contentType: string;
  readonly cacheControl: string;
  readonly contentEncoding: string | undefined;
  readonly robots: string | undefined;
  readonly userMetadata: Readonly<Record<string, unknown>> | null;
};

export type IncomingUpload = {
  /** What is known before the bytes. */
  readonly fields: UploadFields;
  readonly source: Readable;
  /** Bytes the client announced, of the whole body where that is all it says. */
  readonly declaredBytes: number | undefined;
  /** True when `declaredBytes` is exactly the object's size. */
  readonly exact: boolean;
  /** The rest of the form: some clients send its fields after the file. */
  finish(): Promise<UploadFields>;
  /** Stops reading; the connection is left to whoever answers. */
  abandon(): void;
};

const MAX_USER_METADATA_BYTES = 1024 * 1024;
const MAX_FORM_FIELDS = 10;
/** All fields of a form together; what more there is says nothing about a file. */
const MAX_FIELDS_BYTES = MAX_USER_METADATA_BYTES + 64 * 1024;
/** Times the stall limit that the fields in front of a file may take, however steadily they trickle. */
const HEAD_STALLS = 4;
const DEFAULT_CACHE_CONTROL = 'no-cache';
/** After a request was given up its connection stays open this long, so that the answer can still be read. */
const CLOSE_GRACE_MS = 250;

/** What a form is held to until its file begins, and behind it. */
type FormLimits = {
  readonly slots: Pick<UploadSlots, 'opening'>;
  readonly limits: { readonly stallMs: number };
};

export async function openUpload(limits: FormLimits, request: FastifyRequest): Promise<IncomingUpload> {
  const contentType = request.headers['content-type'];
  return contentType !== undefined && /^multipart\/form-data\s*;/i.test(contentType)
    ? await openForm(limits, request)
    : openRaw(request);
}

function openRaw(request: FastifyRequest): IncomingUpload {
  const { headers } = request;
  const declared = headers['content-length'];
  const fields: UploadFields = {
    contentType: headers['content-type'] ?? 'application/octet-stream',
    cacheControl: checkedValue('Cache-Control', headers['cache-control']) ?? DEFAULT_CACHE_CONTROL,
    contentEncoding: checkedValue('Content-Encoding', headers['content-encoding']),
    robots: readRobots(request),
    userMetadata: readMetadataHeader(headers['x-metadata']),
  };
  return {
    fields,
    source: request.body instanceof Readable ? request.body : request.raw,
    declaredBytes: declared === undefined ? undefined : Number(declared),
    exact: true,
    finish: () => Promise.resolve(fields),
    abandon: () => {},
  };
}

function openForm({ slots, limits }: FormLimits, request: FastifyRequest): Promise<IncomingUpload> {
  const body: IncomingMessage = request.raw;
  const given = new Map<string, string>();
  const declared = request.headers['content-length'];
  const robots = readRobots(request);
  const headerMetadata = readMetadataHeader(request.headers['x-metadata']);
  let failure: Error | undefined;
  let partType: string | undefined;

  const form = busboy({
    headers: request.headers,
    limits: { files: 1, fields: MAX_FORM_FIELDS, fieldSize: MAX_USER_METADATA_BYTES },
  });
  const abandon = (): void => {
    body.unpipe(form);
    form.destroy();
  };
  const read = (): UploadFields => {
    const cacheControl = checkedValue('cacheControl', given.get('cacheControl'));
    return {
      contentType: given.get('contentType') ?? partType ?? 'application/octet-stream',
      cacheControl: cacheControl === undefined ? DEFAULT_CACHE_CONTROL : `max-age=${cacheControl}`,
      contentEncoding: checkedValue('contentEncoding', given.get('contentEncoding')),
      robots,
      userMetadata: readMetadata(given.get('metadata') ?? given.get('userMetadata')) ?? headerMetadata,
    };
  };

  return new Promise((resolve, reject) => {
    let closed: () => void = () => {};
    let failed: (error: Error) => void = () => {};
    const ended = new Promise<void>((onEnd, onFailure) => {
      closed = onEnd;
      failed = onFailure;
    });
    // Looked at only once the file is through; until then it must not count as unhandled.
    ended.catch(() => {});
    const fail = (error: Error): void => {
      failure ??= error;
      clearTimeout(stall);
      clearTimeout(deadline);
      leave();
      body.unpipe(form);
      failed(failure);
      reject(failure);
      if (!form.destroyed) form.destroy(failure);
    };
    const giveUp = (): void => fail(new Abort('deadline'));
    const leave = slots.opening(fail);
    // Nothing else watches a form whose file has not begun, or is through: the file's own bytes are watched by whoever
    // takes them, who may be slower than the client.
    let stall = setTimeout(giveUp, limits.stallMs);
    const deadline = setTimeout(giveUp, limits.stallMs * HEAD_STALLS);
    request.scope.signal.addEventListener('abort', giveUp, { once: true });
    body.on('data', () => stall.refresh());
    let fieldBytes = 0;
    form.on('field', (name, value, info) => {
      fieldBytes += name.length + value.length;
      if (fieldBytes > MAX_FIELDS_BYTES)
        fail(tooLarge('The fields of the form exceeded the maximum allowed size'));
      else if (!info.valueTruncated) given.set(name, value);
      else if (name === 'metadata' || name === 'userMetadata')
        fail(tooLarge('The user_metadata exceeded the maximum allowed size'));
    });
    form.on('file', (_name, stream, info) => {
      partType = info.mimeType;
      leave();
      clearTimeout(stall);
      clearTimeout(deadline);
      stream.on('error', () => {});
      resolve({
        get fields() {
          return read();
        },
        source: stream,
        declaredBytes: declared === undefined ? undefined : Number(declared),
        exact: false,
        finish: async () => {
          stall = setTimeout(giveUp, limits.stallMs);
          await ended.finally(() => clearTimeout(stall));
          return read();
        },
        abandon,
      });
    });
    form.on('close', () => {
      clearTimeout(stall);
      clearTimeout(deadline);
      leave();
      closed();
      reject(invalidRequest('No content provided'));
    });
    form.on('error', (error) => {
      fail(failure ?? invalidRequest(error instanceof Error ? error.message : 'The form cannot be read'));
    });
    body.once('aborted', () => fail(new Abort('client-gone')));
    body.once('error', () => fail(new Abort('client-gone')));
    body.pipe(form);
  });
}

export type Measured = { bytes: number; md5: string };

export type MeterOptions = {
  readonly maxBytes: number;
  readonly contentType: string;
  readonly allowedTypes: readonly string[];
  readonly stallMs: number;
  readonly signal: AbortSignal;
};

/** The chunks of a body, as long as its limits hold. `result` is complete when the last chunk was taken. */
export class Meter {
  readonly #hash = createHash('md5');
  readonly #options: MeterOptions;
  #bytes = 0;
  #head: Buffer[] | undefined = [];

  constructor(options: MeterOptions) {
    this.#options = options;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Hex MD5 of everything that passed; call once, at the end. */
  digest(): string {
    return this.#hash.digest('hex');
  }

  async *watch(source: Readable): AsyncGenerator<Buffer, void, undefined> {
    const { signal, stallMs } = this.#options;
    let reason: Error | undefined;
    const giveUp = (error: Error): void => {
      reason ??= error;
      setTimeout(() => source.destroy(error), CLOSE_GRACE_MS).unref();
    };
    const stall = setTimeout(() => giveUp(new Abort('deadline')), stallMs);
    const onAbort = (): void => giveUp(new Abort('deadline'));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      // Leaving the loop early must not destroy the socket: the refusal is still to be written to it.
      for await (const chunk of source.iterator({ destroyOnReturn: false })) {
        if (!Buffer.isBuffer(chunk)) throw new TypeError('the body is not made of bytes');
        if (reason) throw reason;
        stall.refresh();
        this.#take(chunk);
        yield chunk;
      }
      this.#checkHead();
    } catch (error) {
      if (reason) throw reason;
      // A body that ends too early is a client that left.
      throw isStreamFailure(error) ? new Abort('client-gone') : error;
    } finally {
      clearTimeout(stall);
      signal.removeEventListener('abort', onAbort);
    }
  }

  #take(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#options.maxBytes) throw tooLarge();
    this.#hash.update(chunk);
    if (!this.#head) return;
    this.#head.push(chunk);
    if (this.#bytes >= SNIFF_BYTES) this.#checkHead();
  }

  #checkHead(): void {
    const head = this.#head;
    if (!head) return;
    this.#head = undefined;
    checkSniffedType(
      Buffer.concat(head).subarray(0, SNIFF_BYTES),
      this.#options.contentType,
      this.#options.allowedTypes,
    );
  }
}

function isStreamFailure(error: unknown): boolean {
  if (error instanceof StorageProblem || error instanceof Abort) return false;
  if (!(error instanceof Error)) return false;
  return (
    ('code' in error && /^(ECONNRESET|ERR_STREAM_PREMATURE_CLOSE|HPE_)/.test(String(error.code))) ||
    error.message === 'Unexpected end of form' ||
    error.message === 'aborted'
  );
}

/** Refuses what could not be stored with any content; the bytes are judged while they flow. */
export function checkDeclaration(
  upload: IncomingUpload,
  name: string,
  limits: { readonly maxBytes: number; readonly types: readonly string[] },
): { maxBytes: number; types: readonly string[] } {
  const placeholder = isFolderPlaceholder(name);
  const maxBytes = placeholder ? 0 : limits.maxBytes;
  const types = placeholder ? [] : limits.types;
  const overhead = upload.exact ? 0 : (MAX_FORM_FIELDS + 1) * MAX_USER_METADATA_BYTES;
  if (upload.declaredBytes !== undefined && upload.declaredBytes > maxBytes + overhead) throw tooLarge();
  checkDeclaredType(upload.fields.contentType, types);
  return { maxBytes, types };
}

export function readMetadataHeader(header: string | string[] | undefined): Record<string, unknown> {
  if (typeof header !== 'string') return {};
  return readMetadata(Buffer.from(header, 'base64').toString('utf8')) ?? {};
}

/** A JSON object, or undefined: what cannot be read is ignored, as everywhere this API is spoken. */
export function readMetadata(json: string | undefined): Record<string, unknown> | undefined {
  if (json === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      // NUL has no place in jsonb.
      return json.includes('\\u0000') ? undefined : { ...value };
    }
  } catch {
    // Not JSON: ignored like any other value that is no object.
  }
  return undefined;
}

const ROBOTS_RULE =
  /^(all|none|noindex|nofollow|noarchive|nosnippet|noimageindex|notranslate|indexifembedded|nocache|max-snippet:\s*-?\d+|max-image-preview:\s*(none|standard|large)|max-video-preview:\s*-?\d+|unavailable_after:\s*[\w :,+-]+)$/i;

function readRobots(request: FastifyRequest): string | undefined {
  const header = request.headers['x-robots-tag'];
  if (header === undefined) return undefined;
  const value = Array.isArray(header) ? header.join(', ') : header;
  if (value.length > 512 || !isHeaderValue(value)) throw invalidRobotsTag('malformed value');
  for (const part of value.split(',')) {
    // A rule may be addressed: "googlebot: noindex".
    const rule = part.trim();
    const addressed = /^[a-z][\w.-]*\s*:\s*(.+)$/i.exec(rule)?.[1];
    if (!ROBOTS_RULE.test(rule) && !(addressed !== undefined && ROBOTS_RULE.test(addressed))) {
      throw invalidRobotsTag(`unknown rule "${rule.slice(0, 60)}"`);
    }
  }
  return value;
}

/** A value that will be sent as a header one day, refused when it cannot be; empty counts as absent. */
function checkedValue(what: string, value: string | undefined): string | undefined {
  if (value === undefined || value === '') return undefined;
  if (value.length > 1024 || !isHeaderValue(value))
    throw invalidRequest(`${what} cannot be sent as a header`);
  return value;
}
