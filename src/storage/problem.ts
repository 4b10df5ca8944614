// Every expected error of the storage API and its wire dialect. The dialect is the clients': nearly every 4xx
// travels as HTTP 400 with the true status as text in the body, and applications in the field test both.
import {
  databaseFailure,
  isDatabaseError,
  retryAfter,
  type DatabaseError,
  type DatabaseFailure,
} from '../postgres/pg-error.ts';
import { Abort, Problem, type ProblemMore } from '../problem/problem.ts';
import { hasCode } from '../lib/error-code.ts';

type Shape = {
  readonly code: string;
  /** The `error` key. */
  readonly label: string;
  /** The true status, `statusCode` in the body. */
  readonly status: number;
  /** The status line; 400 unless said otherwise. */
  readonly http?: number | undefined;
};

export class StorageProblem extends Problem {
  readonly label: string;
  readonly httpStatus: number;

  constructor(shape: Shape, message: string, more: ProblemMore = {}) {
    super(shape.code, shape.status, message, more);
    this.label = shape.label;
    this.httpStatus = shape.http ?? 400;
  }
}

const make =
  (code: string, label: string, status: number, message: string, http?: number) =>
  (more?: ProblemMore): StorageProblem =>
    new StorageProblem({ code, label, status, http }, message, more);

export const bucketNotFound: Maker = make('NoSuchBucket', 'Bucket not found', 404, 'Bucket not found');
export const objectNotFound: Maker = make('NoSuchKey', 'not_found', 404, 'Object not found');
/** The row is there and its bytes are not. */
export const blobNotFound: Maker = make('NoSuchKey', 'Not found', 404, 'The resource was not found');
const policyRefused: Maker = make(
  'AccessDenied',
  'Unauthorized',
  403,
  'new row violates row-level security policy',
);
export const accessDenied: Maker = make('AccessDenied', 'Unauthorized', 403, 'Access denied');
export const invalidRole: Maker = make(
  'AccessDenied',
  'Unauthorized',
  403,
  'Access denied: Invalid role',
  403,
);
export const noCredentials: Maker = make(
  'AccessDenied',
  'Unauthorized',
  401,
  'No API key found in request',
  401,
);
export const badToken = (message: string): StorageProblem =>
  new StorageProblem({ code: 'AccessDenied', label: 'Unauthorized', status: 403 }, message);

export const invalidUrlToken = (message: string): StorageProblem =>
  new StorageProblem({ code: 'InvalidJWT', label: 'InvalidJWT', status: 400 }, message);
export const invalidSignature = (message = 'Invalid signature'): StorageProblem =>
  new StorageProblem({ code: 'InvalidSignature', label: 'InvalidSignature', status: 400 }, message);

export const alreadyExists: Maker = make(
  'ResourceAlreadyExists',
  'Duplicate',
  409,
  'The resource already exists',
);
export const bucketAlreadyExists: Maker = make(
  'BucketAlreadyExists',
  'Duplicate',
  409,
  'The resource already exists',
);
export const bucketsAreDeclared: Maker = make(
  'NotSupported',
  'NotSupported',
  405,
  'Buckets are declared in svc.yaml and cannot be created, changed, emptied or deleted through the API; remove objects with remove()',
  405,
);

export const mimeTypeRefused = (type: string): StorageProblem =>
  new StorageProblem(
    { code: 'InvalidMimeType', label: 'invalid_mime_type', status: 415 },
    `mime type ${type} is not supported`,
  );
export const invalidContentType: Maker = make(
  'InvalidMimeType',
  'invalid_mime_type',
  415,
  'Invalid Content-Type header',
);
export const contentTypeMismatch = (declared: string, found: string): StorageProblem =>
  new StorageProblem(
    { code: 'InvalidMimeType', label: 'invalid_mime_type', status: 415 },
    `mime type ${found} is not supported: the content was declared as ${declared}`,
  );
export const tooLarge = (
  message = 'The object exceeded the maximum allowed size',
  more: ProblemMore = {},
): StorageProblem =>
  new StorageProblem({ code: 'EntityTooLarge', label: 'Payload too large', status: 413 }, message, more);

export const invalidKey = (name: string): StorageProblem =>
  new StorageProblem(
    { code: 'InvalidKey', label: 'InvalidKey', status: 400 },
    `Invalid key: ${name.slice(0, 1024)}`,
  );
export const invalidBucketName: Maker = make(
  'InvalidBucketName',
  'Invalid Input',
  400,
  'Bucket name invalid',
);
export const invalidRange = (size: number): StorageProblem =>
  new StorageProblem(
    { code: 'InvalidRange', label: 'invalid_range', status: 416, http: 416 },
    'invalid range provided',
    { headers: { 'content-range': `bytes */${size}` } },
  );
export const preconditionFailed: Maker = make(
  'PreconditionFailed',
  'PreconditionFailed',
  412,
  'At least one of the preconditions did not hold',
  412,
);
export const invalidRequest = (message: string): StorageProblem =>
  new StorageProblem({ code: 'InvalidRequest', label: 'InvalidRequest', status: 400 }, message);
/** The body does not have the documented shape. */
export const invalidBody = (message: string): StorageProblem =>
  new StorageProblem({ code: 'InvalidRequest', label: 'Error', status: 400 }, message);
export const invalidRobotsTag = (reason: string): StorageProblem =>
  new StorageProblem(
    { code: 'InvalidRequest', label: 'invalid_x_robots_tag', status: 400 },
    `Invalid X-Robots-Tag header: ${reason}`,
  );
export const invalidParameter = (name: string): StorageProblem =>
  new StorageProblem(
    { code: 'InvalidParameter', label: 'InvalidParameter', status: 400 },
    `Invalid Parameter ${name}`,
  );
export const routeNotFound = (method: string, path: string): StorageProblem =>
  new StorageProblem(
    { code: 'InvalidRequest', label: 'Not Found', status: 404, http: 404 },
    `Route ${method}:${path} not found`,
  );
export const featureNotEnabled = (feature: string): StorageProblem =>
  new StorageProblem(
    { code: 'FeatureNotEnabled', label: 'FeatureNotEnabled', status: 403, http: 403 },
    `feature not enabled: ${feature}`,
  );
export const unreadableImage: Maker = make(
  'InvalidRequest',
  'InvalidRequest',
  400,
  'The source image is invalid or unsupported for rendering',
);
const relatedNotFound: Maker = make(
  'InvalidRequest',
  'InvalidRequest',
  404,
  'The related resource does not exist',
);
export const lockTimeout: Maker = make(
  'LockTimeout',
  'acquiring_lock_timeout',
  503,
  'acquiring lock timeout',
);
export const slowDown = (message = 'Too many connections issued to the database'): StorageProblem =>
  new StorageProblem({ code: 'SlowDown', label: 'too_many_connections', status: 429, http: 429 }, message, {
    headers: { 'retry-after': '1' },
  });
const databaseTimeout: Maker = make(
  'DatabaseTimeout',
  'DatabaseTimeout',
  544,
  'The connection to the database timed out',
  544,
);
const databaseReadOnly: Maker = make(
  'DatabaseReadOnly',
  'DatabaseReadOnly',
  503,
  'The database is in read-only mode',
);
const databaseError = (sqlstate: string, cause: unknown): StorageProblem =>
  new StorageProblem(
    { code: 'DatabaseError', label: 'DatabaseError', status: 500, http: 500 },
    `database error, code: ${sqlstate}`,
    { cause },
  );
/** The disk, its quota or the store has no room: nothing of the upload is kept, and the same may succeed later. */
const insufficientStorage: Maker = make(
  'InsufficientStorage',
  'InsufficientStorage',
  507,
  'The storage is full; delete objects or enlarge it, then try again',
  507,
);
const requestAborted: Maker = make('Aborted', 'Request aborted', 499, 'Request aborted', 499);
const deadlinePassed: Maker = make(
  'RequestTimeout',
  'RequestTimeout',
  408,
  'The request took longer than it may',
  408,
);
const internalError = (cause?: unknown): StorageProblem =>
  new StorageProblem(
    { code: 'InternalError', label: 'Internal', status: 500, http: 500 },
    'Internal Server Error',
    { cause },
  );

type Maker = (more?: ProblemMore) => StorageProblem;

/** Whatever was thrown, as the problem to show. Faults become a bare 500 and keep their cause for the log. */
export function toStorageProblem(error: unknown): StorageProblem {
  if (error instanceof StorageProblem) return error;
  if (error instanceof Abort) return error.reason === 'client-gone' ? requestAborted() : deadlinePassed();
  if (error instanceof Problem) return fromProblem(error);
  if (isDatabaseError(error)) return fromDatabase(error);
  if (isStorageFull(error)) return insufficientStorage({ cause: error });
  // The router looks at the media type before any route does.
  if (hasCode(error, 'FST_ERR_CTP_INVALID_MEDIA_TYPE')) {
    return invalidContentType();
  }
  const failure = databaseFailure(error);
  return failure ? databaseFailed(failure, error) : internalError(error);
}

function databaseFailed(failure: DatabaseFailure, cause: unknown): StorageProblem {
  const { status, message, hint, kind } = failure;
  const label = kind === 'outcome-unknown' ? 'OutcomeUnknown' : 'DatabaseUnavailable';
  return new StorageProblem({ code: label, label, status, http: status }, message, {
    hint,
    cause,
    headers: retryAfter(failure),
  });
}

/** S3 itself is never full; the stores that speak it have a name each. */
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
  // EFBIG is the limit of a process or a file system on one file.
  if (hasCode(error, 'ENOSPC', 'EDQUOT', 'EFBIG')) return true;
  return FULL_NAMES.has(error.name) || statusOf(error) === 507;
}

/** The status of a store's answer, as its SDK tells it. */
function statusOf(error: Error): unknown {
  if (!('$metadata' in error)) return undefined;
  const { $metadata: metadata } = error;
  return typeof metadata === 'object' && metadata !== null && 'httpStatusCode' in metadata
    ? metadata.httpStatusCode
    : undefined;
}

function fromProblem(problem: Problem): StorageProblem {
  if (problem.code === 'pool_exhausted') return slowDown();
  if (problem.code === 'body_too_large') return tooLarge(problem.message);
  const { code, status } = problem;
  // What is wrong with the place of the files is for the operator and its log: the message names the place.
  const message = code.startsWith('storage_')
    ? 'The storage cannot be used at the moment; the log of the server says why'
    : problem.message;
  return new StorageProblem({ code, label: code, status, http: status }, message, {
    headers: problem.headers,
    cause: problem,
  });
}

function fromDatabase(error: DatabaseError): StorageProblem {
  switch (error.code) {
    case '42501':
      return /row-level security/.test(error.message) ? policyRefused() : accessDenied();
    case '23505':
      return alreadyExists();
    case '23503':
      return relatedNotFound();
    case '22021':
    case '22P05':
      return invalidRequest('A value contains characters that cannot be stored');
    case '55P03':
      return lockTimeout();
    case '57014':
      return databaseTimeout();
    case '25006':
      return databaseReadOnly();
    case '53100':
      return insufficientStorage({ cause: error });
    case '53300':
      return slowDown();
    default: {
      const failure = databaseFailure(error);
      if (failure && failure.status !== 500) return databaseFailed(failure, error);
      return databaseError(error.code, error);
    }
  }
}

/** The four keys every client reads, in the order they are known in. */
export function toWire(problem: StorageProblem): Record<string, string> {
  return {
    statusCode: String(problem.status),
    error: problem.label,
    message: problem.message,
    code: problem.code,
  };
}
