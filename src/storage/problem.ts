// Every expected error of the storage API, and its format on the wire. The format is the one of Supabase Storage:
// nearly every 4xx is sent as HTTP 400 with the real status as text in the body, and clients test both.
import { SESSION_RESTRICTED } from '../identity/caller.ts';
import { hasCode } from '../lib/error-code.ts';
import type { RefusalFormat } from '../http/refusal-format.ts';
import {
  databaseFailure,
  isDatabaseError,
  sqlstate,
  retryAfter,
  type DatabaseError,
  type DatabaseFailure,
} from '../postgres/pg-error.ts';
import { Abort, Problem, type ProblemMore } from '../problem/problem.ts';

type Shape = ProblemMore & {
  /** The `error` key; the code by default. */
  readonly label?: string | undefined;
  /** The status line; 400 by default. */
  readonly http?: number | undefined;
};

export class StorageProblem extends Problem {
  readonly label: string;
  readonly httpStatus: number;

  /** `status` is sent as `statusCode` in the body. The HTTP status is part of `shape`. */
  constructor(status: number, code: string, message: string, shape: Shape) {
    super(code, status, message, shape);
    this.label = shape.label ?? code;
    this.httpStatus = shape.http ?? 400;
  }
}

type Maker = (more?: ProblemMore) => StorageProblem;
type MakerOf<A extends unknown[] = [string]> = (...about: A) => StorageProblem;

const row =
  (status: number, code: string, message: string, shape: Shape = {}): Maker =>
  (more) =>
    new StorageProblem(status, code, message, { ...shape, ...more });

const rowOf =
  <A extends unknown[] = [string]>(
    status: number,
    code: string,
    message: (...about: A) => string,
    shape: Shape = {},
    more?: (...about: A) => ProblemMore,
  ): MakerOf<A> =>
  (...about) =>
    new StorageProblem(status, code, message(...about), { ...shape, ...more?.(...about) });

const text = (message: string): string => message;
const DENIED: Shape = { label: 'Unauthorized' };
const TYPE: Shape = { label: 'invalid_mime_type' };
const EXISTS = 'The resource already exists';

export const bucketNotFound = row(404, 'NoSuchBucket', 'Bucket not found', { label: 'Bucket not found' });
export const objectNotFound = row(404, 'NoSuchKey', 'Object not found', { label: 'not_found' });
/** The row exists and its bytes do not. */
export const blobNotFound = row(404, 'NoSuchKey', 'The resource was not found', { label: 'Not found' });
export const relatedNotFound = row(404, 'InvalidRequest', 'The related resource does not exist');
export const routeNotFound = rowOf(
  404,
  'InvalidRequest',
  (method: string, path: string) => `Route ${method}:${path} not found`,
  { label: 'Not Found', http: 404 },
);

export const noCredentials = row(401, 'AccessDenied', 'No API key found in request', {
  ...DENIED,
  http: 401,
});
export const sessionEnded = row(401, 'session_not_found', 'The session of this token has ended', {
  ...DENIED,
  http: 401,
});
export const sessionRestricted = row(403, 'insufficient_aal', SESSION_RESTRICTED, { ...DENIED, http: 403 });
export const badToken = rowOf(403, 'AccessDenied', text, DENIED);
export const accessDenied = row(403, 'AccessDenied', 'Access denied', DENIED);
export const policyRefused = row(403, 'AccessDenied', 'new row violates row-level security policy', DENIED);
export const invalidRole = row(403, 'AccessDenied', 'Access denied: Invalid role', { ...DENIED, http: 403 });
export const invalidUrlToken = rowOf(400, 'InvalidJWT', text);
export const invalidSignature = rowOf(
  400,
  'InvalidSignature',
  (message: string = 'Invalid signature') => message,
);
export const featureNotEnabled = rowOf(403, 'FeatureNotEnabled', (name) => `feature not enabled: ${name}`, {
  http: 403,
});

export const alreadyExists = row(409, 'ResourceAlreadyExists', EXISTS, { label: 'Duplicate' });
export const bucketAlreadyExists = row(409, 'BucketAlreadyExists', EXISTS, { label: 'Duplicate' });
export const bucketsAreDeclared = row(
  405,
  'NotSupported',
  'Buckets are declared in svc.yaml and cannot be created, changed, ' +
    'emptied or deleted through the API; remove objects with remove()',
  { http: 405 },
);

export const mimeTypeRefused = rowOf(
  415,
  'InvalidMimeType',
  (type) => `mime type ${type} is not supported`,
  TYPE,
);
export const invalidContentType = row(415, 'InvalidMimeType', 'Invalid Content-Type header', TYPE);
export const contentTypeMismatch = rowOf(
  415,
  'InvalidMimeType',
  (declared: string, found: string) =>
    `mime type ${found} is not supported: the content was declared as ${declared}`,
  TYPE,
);
export const tooLarge = rowOf(
  413,
  'EntityTooLarge',
  (message: string = 'The object exceeded the maximum allowed size') => message,
  { label: 'Payload too large' },
);
export const unreadableImage = row(
  400,
  'InvalidRequest',
  'The source image is invalid or unsupported for rendering',
);

export const invalidKey = rowOf(400, 'InvalidKey', (name) => `Invalid key: ${name.slice(0, 1024)}`);
export const invalidBucketName = row(400, 'InvalidBucketName', 'Bucket name invalid', {
  label: 'Invalid Input',
});
export const invalidRange = rowOf(
  416,
  'InvalidRange',
  (_size: number) => 'invalid range provided',
  { label: 'invalid_range', http: 416 },
  (size) => ({ headers: { 'content-range': `bytes */${size}` } }),
);
export const preconditionFailed = row(
  412,
  'PreconditionFailed',
  'At least one of the preconditions did not hold',
  { http: 412 },
);
export const invalidRequest = rowOf(400, 'InvalidRequest', text);
/** The body does not have the documented shape. */
export const invalidBody = rowOf(400, 'InvalidRequest', text, { label: 'Error' });
export const invalidRobotsTag = rowOf(
  400,
  'InvalidRequest',
  (reason) => `Invalid X-Robots-Tag header: ${reason}`,
  { label: 'invalid_x_robots_tag' },
);
export const invalidParameter = rowOf(400, 'InvalidParameter', (name) => `Invalid Parameter ${name}`);

export const lockTimeout = row(503, 'LockTimeout', 'acquiring lock timeout', {
  label: 'acquiring_lock_timeout',
});
export const slowDown = rowOf(
  429,
  'SlowDown',
  (message: string = 'Too many connections issued to the database') => message,
  { label: 'too_many_connections', http: 429 },
  (_message?: string) => ({ headers: { 'retry-after': '1' } }),
);
export const databaseTimeout = row(544, 'DatabaseTimeout', 'The connection to the database timed out', {
  http: 544,
});
/** A failover is temporary, so the status marks a failure of the server. */
export const databaseReadOnly = row(503, 'DatabaseReadOnly', 'The database is in read-only mode', {
  http: 503,
  headers: { 'retry-after': '5' },
});
export const databaseError = rowOf(
  500,
  'DatabaseError',
  (sqlstate: string, _cause: unknown) => `database error, code: ${sqlstate}`,
  { http: 500 },
  (_sqlstate, cause) => ({ cause }),
);
/** The disk, its quota or the store has no room: nothing of the upload is kept, and the same may succeed later. */
export const insufficientStorage = row(
  507,
  'InsufficientStorage',
  'The storage is full; delete objects or enlarge it, then try again',
  { http: 507 },
);
export const requestAborted = row(499, 'Aborted', 'Request aborted', { label: 'Request aborted', http: 499 });
export const deadlinePassed = row(408, 'RequestTimeout', 'The request took longer than it may', {
  http: 408,
});
/** The server was too slow: the database or the store did not respond. */
export const serviceTimeout = row(503, 'ServiceTimeout', 'The server did not finish the request in time', {
  http: 503,
  headers: { 'retry-after': '2' },
});
export const internalError = row(500, 'InternalError', 'Internal Server Error', {
  label: 'Internal',
  http: 500,
});

/** The directory of the files is missing, or is another one: the state of all objects is unknown. */
export const storageUnavailable = rowOf(
  503,
  'StorageUnavailable',
  (_cause: unknown) => 'The storage cannot be used at the moment; see the server log for the reason',
  { http: 503 },
  (cause) => ({ cause, headers: { 'retry-after': '5' } }),
);

const storageBusy = ({ status, message, headers }: Problem): StorageProblem =>
  new StorageProblem(status, 'SlowDown', message, { http: status, headers });

/** Anything thrown, as the problem to send. A fault becomes a bare 500 and keeps its cause for the log. */
export function toStorageProblem(error: unknown): StorageProblem {
  if (error instanceof StorageProblem) return error;
  if (error instanceof Abort) return fromAbort(error);
  if (error instanceof Problem) return fromProblem(error);
  if (isDatabaseError(error)) return fromDatabase(error);
  if (isStorageFull(error)) return insufficientStorage({ cause: error });
  // Fastify parses the media type before the route's handler runs.
  if (hasCode(error, 'FST_ERR_CTP_INVALID_MEDIA_TYPE')) return invalidContentType();
  const failure = databaseFailure(error);
  return failure ? databaseFailed(failure, error) : internalError({ cause: error });
}

function fromAbort({ reason }: Abort): StorageProblem {
  if (reason === 'client-gone') return requestAborted();
  return reason === 'slow-body' ? deadlinePassed() : serviceTimeout();
}

function databaseFailed(failure: DatabaseFailure, cause: unknown): StorageProblem {
  const { status, message, hint, kind } = failure;
  const code = kind === 'outcome-unknown' ? 'OutcomeUnknown' : 'DatabaseUnavailable';
  return new StorageProblem(status, code, message, {
    http: status,
    hint,
    cause,
    headers: retryAfter(failure),
  });
}

/** Error names of S3-compatible stores; S3 itself is never full. */
const FULL_NAMES: ReadonlySet<string> = new Set([
  'InsufficientCapacity',
  'InsufficientStorage',
  'QuotaExceeded',
  'StorageFull',
  'XMinioAdminBucketQuotaExceeded',
  'XMinioStorageFull',
]);

export function isStorageFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof StorageProblem) return error.code === 'InsufficientStorage';
  // EFBIG is the file size limit of a process or a file system.
  if (hasCode(error, 'ENOSPC', 'EDQUOT', 'EFBIG')) return true;
  return FULL_NAMES.has(error.name) || errorStatus(error) === 507;
}

/** HTTP status in an error of the AWS SDK. */
function errorStatus(error: Error): unknown {
  if (!('$metadata' in error)) return undefined;
  const { $metadata: metadata } = error;
  return typeof metadata === 'object' && metadata !== null && 'httpStatusCode' in metadata
    ? metadata.httpStatusCode
    : undefined;
}

function fromProblem(problem: Problem): StorageProblem {
  if (problem.code === 'pool_exhausted') return slowDown();
  if (problem.code === 'overloaded') return storageBusy(problem);
  if (problem.code === 'body_too_large') return tooLarge(problem.message);
  if (problem.code === 'storage_gone' || problem.code === 'storage_elsewhere')
    return storageUnavailable(problem);
  const { code, status, headers } = problem;
  // A broken storage location is for the operator: the original message, which names it, goes to the log only.
  const message = code.startsWith('storage_')
    ? 'The storage cannot be used at the moment; see the server log for the reason'
    : problem.message;
  return new StorageProblem(status, code, message, { http: status, headers, cause: problem });
}

const unstorable = (): StorageProblem => invalidRequest('A value contains characters that cannot be stored');
const BY_SQLSTATE: ReadonlyMap<string, () => StorageProblem> = new Map([
  ['42501', policyRefused],
  ['23505', alreadyExists],
  ['23503', relatedNotFound],
  ['22021', unstorable],
  ['22P05', unstorable],
  ['55P03', lockTimeout],
  ['57014', databaseTimeout],
  ['25006', databaseReadOnly],
  ['53300', () => slowDown()],
]);

function fromDatabase(error: DatabaseError): StorageProblem {
  const code = sqlstate(error);
  if (code === '42501' && !/row-level security/.test(error.message)) return accessDenied();
  if (code === '53100') return insufficientStorage({ cause: error });
  const known = BY_SQLSTATE.get(code);
  if (known) return known();
  const failure = databaseFailure(error);
  return failure && failure.status !== 500 ? databaseFailed(failure, error) : databaseError(code, error);
}

/** The body: the four keys that clients read. */
export function toWire(problem: StorageProblem): Record<string, string> {
  return {
    statusCode: String(problem.status),
    error: problem.label,
    message: problem.message,
    code: problem.code,
  };
}

export const storageFormat: RefusalFormat = (problem) => {
  const written = toStorageProblem(problem);
  return {
    status: written.httpStatus,
    headers: written.headers,
    body: JSON.stringify(toWire(written)),
  };
};
