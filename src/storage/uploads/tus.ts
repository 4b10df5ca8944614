// The wire format of tus 1.0.0: its headers, its answers and its refusals.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Log } from '../../log/log.ts';
import { answerProblem, answerRefusal } from '../http/answer.ts';
import { isHeaderValue } from '../objects/content-type.ts';
import { StorageProblem, toStorageProblem } from '../problem.ts';
import type { ResumableUpload } from './resumable-upload.ts';

export const TUS_VERSION = '1.0.0';
const EXTENSIONS = 'creation,creation-with-upload,creation-defer-length,termination,expiration';
export const CHUNK_TYPE = 'application/offset+octet-stream';

export class TusProblem extends StorageProblem {
  constructor(status: number, message: string) {
    super(status, 'Tus', message, { http: status });
  }
}

export const unknownUpload = (): TusProblem => new TusProblem(404, 'The file for this url was not found');
export const expiredUpload = (): TusProblem => new TusProblem(410, 'The file for this url no longer exists');
export const wrongOffset = (): TusProblem => new TusProblem(409, 'Upload-Offset conflict');
export const maximumExceeded = (): TusProblem => new TusProblem(413, 'Maximum size exceeded');
export const lockedUpload = (): TusProblem =>
  new TusProblem(423, 'Upload is being written by another request');

export function checkProtocol(request: FastifyRequest): void {
  const version = request.headers['tus-resumable'];
  if (version === undefined) throw new TusProblem(412, 'Tus-Resumable Required');
  if (version !== TUS_VERSION) throw new TusProblem(412, `Tus-Resumable must be ${TUS_VERSION}`);
}

export function readLength(request: FastifyRequest): number | null {
  const length = request.headers['upload-length'];
  const deferred = request.headers['upload-defer-length'];
  if ((length === undefined) === (deferred === undefined)) {
    throw new TusProblem(400, 'Either Upload-Length or Upload-Defer-Length must be given');
  }
  if (deferred !== undefined) {
    if (deferred !== '1') throw new TusProblem(400, 'Invalid upload-defer-length');
    return null;
  }
  const bytes = readNumber(length);
  if (bytes === undefined) throw new TusProblem(400, 'Invalid upload-length');
  return bytes;
}

export function readNumber(header: string | string[] | undefined): number | undefined {
  if (typeof header !== 'string' || !/^\d{1,15}$/.test(header)) return undefined;
  return Number(header);
}

/** `key base64, key base64`; a value may be missing. */
export function parseMetadata(header: string): Map<string, string> {
  const metadata = new Map<string, string>();
  for (const pair of header.split(',')) {
    const [key = '', value = '', ...rest] = pair.trim().split(' ');
    if (key === '' || rest.length > 0 || metadata.has(key) || !/^[A-Za-z0-9+/=]*$/.test(value)) {
      throw new TusProblem(400, 'Invalid upload-metadata');
    }
    metadata.set(key, Buffer.from(value, 'base64').toString('utf8'));
  }
  if (!isHeaderValue(header)) throw new TusProblem(400, 'Invalid upload-metadata');
  return metadata;
}

export function answerProgress(reply: FastifyReply, upload: ResumableUpload): FastifyReply {
  reply.header('upload-offset', upload.offset);
  if (!upload.completed) reply.header('upload-expires', upload.expiresAt.toUTCString());
  return reply.send();
}

export function answerOptions(reply: FastifyReply, maxBytes: number): FastifyReply {
  return reply
    .code(204)
    .headers({
      'tus-resumable': TUS_VERSION,
      'tus-version': TUS_VERSION,
      'tus-extension': EXTENSIONS,
      'tus-max-size': maxBytes,
    })
    .send();
}

/** Refusals are plain text: tus clients read the status and show the text. */
export function answerTus(
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
  log: Log,
): FastifyReply {
  const problem = toStorageProblem(error);
  if (problem.code === 'InvalidJWT' || problem.code === 'InvalidSignature') {
    return answerProblem(request, reply, problem);
  }
  if (problem.status >= 500 && problem.cause !== undefined) {
    log.error(
      { err: problem.cause, requestId: request.id },
      problem.status === 500 ? 'storage fault' : problem.message,
    );
  }
  request.scope.refusal = problem;
  return answerRefusal(
    request,
    reply,
    problem.status,
    { 'content-type': 'text/plain; charset=utf-8', 'tus-resumable': TUS_VERSION, ...problem.headers },
    problem.message,
  );
}
