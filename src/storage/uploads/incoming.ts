// The body of an upload as it arrives, raw or as a form. Holds at most a chunk in memory, and never closes the
// connection: a refusal is still to be sent on it.
import { Readable } from 'node:stream';
import busboy from 'busboy';
import type { FastifyRequest } from 'fastify';
import { clientNetwork } from '../../lib/ip-address.ts';
import { Abort } from '../../problem/problem.ts';
import { checkDeclaredType } from '../objects/content-type.ts';
import type { UploadRules } from '../objects/bucket.ts';
import { invalidRequest, tooLarge } from '../problem.ts';
import { formFields, rawFields, readMetadataHeader, readRobots, type UploadFields } from './fields.ts';
import type { UploadContext } from './upload-context.ts';

export type IncomingUpload = {
  /** Fields known so far. For a form: the fields before its file. */
  readonly fields: UploadFields;
  readonly source: Readable;
  /** Content-Length, which includes the fields of a form. */
  readonly declaredBytes: number | undefined;
  /** Whether `declaredBytes` is exactly the object's size. */
  readonly exact: boolean;
  /** Reads the rest of a form, and returns its final fields: some clients send them after the file. */
  finish(): Promise<UploadFields>;
  /** Stops reading. */
  abandon(): void;
};

const MAX_USER_METADATA_BYTES = 1024 * 1024;
const MAX_FORM_FIELDS = 10;
/** All fields of a form together. */
const MAX_FIELDS_BYTES = MAX_USER_METADATA_BYTES + 64 * 1024;
/** Deadline for the fields before the file, as a multiple of `timeouts.body_idle`. */
const HEAD_IDLES = 4;

type FormContext = Pick<UploadContext, 'slots' | 'snapshot'>;

export async function openUpload(context: FormContext, request: FastifyRequest): Promise<IncomingUpload> {
  const contentType = request.headers['content-type'] ?? '';
  return /^multipart\/form-data\s*;/i.test(contentType) ? await openForm(context, request) : openRaw(request);
}

/** Refuses what would be refused with any content. */
export function checkDeclaration(upload: IncomingUpload, { maxBytes, types }: UploadRules): void {
  const overhead = upload.exact ? 0 : (MAX_FORM_FIELDS + 1) * MAX_USER_METADATA_BYTES;
  if (upload.declaredBytes !== undefined && upload.declaredBytes > maxBytes + overhead) throw tooLarge();
  checkDeclaredType(upload.fields.contentType, types);
}

function openRaw(request: FastifyRequest): IncomingUpload {
  const fields = rawFields(request);
  return {
    fields,
    source: request.body instanceof Readable ? request.body : request.raw,
    declaredBytes: contentLength(request),
    exact: true,
    finish: () => Promise.resolve(fields),
    abandon: () => {},
  };
}

function openForm({ slots, snapshot }: FormContext, request: FastifyRequest): Promise<IncomingUpload> {
  const body = request.raw;
  const given = new Map<string, string>();
  let givenBytes = 0;
  let partType: string | undefined;
  const fromHeaders = {
    robots: readRobots(request),
    userMetadata: readMetadataHeader(request.headers['x-metadata']),
  };
  const form = busboy({
    headers: request.headers,
    limits: { files: 1, fields: MAX_FORM_FIELDS, fieldSize: MAX_USER_METADATA_BYTES },
  });
  const ended = Promise.withResolvers<void>();
  // Awaited by `finish` only; until then a rejection must not count as unhandled.
  ended.promise.catch(() => {});

  return new Promise((resolve, reject) => {
    let failure: Error | undefined;
    const fail = (error: Error): void => {
      failure ??= error;
      stopWatching();
      body.unpipe(form);
      ended.reject(failure);
      reject(failure);
      if (!form.destroyed) form.destroy(failure);
    };
    const expire = (): void => fail(new Abort('deadline'));
    const leave = slots.opening(clientNetwork(request.client.address), fail);
    // Every request has an idle timeout for its body. A slow form head with occasional bytes needs a separate
    // deadline.
    const { bodyIdleMs } = snapshot().config.server.timeouts;
    const deadline = setTimeout(expire, bodyIdleMs * HEAD_IDLES);
    const stopWatching = (): void => {
      clearTimeout(deadline);
      leave();
    };
    request.scope.signal.addEventListener('abort', expire, { once: true });
    form.on('field', (name, value, { valueTruncated }) => {
      givenBytes += name.length + value.length;
      if (givenBytes > MAX_FIELDS_BYTES)
        fail(tooLarge('The fields of the form exceeded the maximum allowed size'));
      else if (!valueTruncated) given.set(name, value);
      else if (name === 'metadata' || name === 'userMetadata')
        fail(tooLarge('The user_metadata exceeded the maximum allowed size'));
    });
    form.on('file', (_name, source, { mimeType }) => {
      partType = mimeType;
      stopWatching();
      source.on('error', () => {});
      resolve({
        get fields() {
          return formFields(given, partType, fromHeaders);
        },
        source,
        declaredBytes: contentLength(request),
        exact: false,
        finish: async () => {
          await ended.promise;
          return formFields(given, partType, fromHeaders);
        },
        abandon: () => {
          body.unpipe(form);
          form.destroy();
        },
      });
    });
    form.on('close', () => {
      stopWatching();
      ended.resolve();
      reject(invalidRequest('No content provided'));
    });
    form.on('error', (error) =>
      fail(failure ?? invalidRequest(error instanceof Error ? error.message : 'The form cannot be read')),
    );
    for (const event of ['aborted', 'error']) body.once(event, () => fail(new Abort('client-gone')));
    body.pipe(form);
  });
}

function contentLength({ headers }: FastifyRequest): number | undefined {
  const length = headers['content-length'];
  return length === undefined ? undefined : Number(length);
}
