import pg from 'pg';
import { expect, test } from 'vitest';
import { Abort, Problem } from '../problem/problem.ts';
import * as catalogue from './problem.ts';

// The whole catalogue as it goes over the wire: a changed code, status or text is a change for every client.
test('the catalogue', () => {
  const shown = Object.entries(catalogue)
    .filter(
      ([name]) =>
        !['StorageProblem', 'isStorageFull', 'storageFormat', 'toStorageProblem', 'toWire'].includes(name),
    )
    .map(([name, make]) => {
      const problem: unknown =
        name === 'invalidRange'
          ? catalogue.invalidRange(10)
          : (make as (...args: string[]) => unknown)('X', 'Y');
      if (!(problem instanceof catalogue.StorageProblem)) throw new Error(`${name} makes no problem`);
      return `${problem.httpStatus} ${Object.values(catalogue.toWire(problem)).join(' | ')}`;
    });
  expect(shown.sort((a, b) => (a < b ? -1 : 1))).toMatchInlineSnapshot(`
    [
      "400 400 | Error | X | InvalidRequest",
      "400 400 | Invalid Input | Bucket name invalid | InvalidBucketName",
      "400 400 | InvalidJWT | X | InvalidJWT",
      "400 400 | InvalidKey | Invalid key: X | InvalidKey",
      "400 400 | InvalidParameter | Invalid Parameter X | InvalidParameter",
      "400 400 | InvalidRequest | The source image is invalid or unsupported for rendering | InvalidRequest",
      "400 400 | InvalidRequest | X | InvalidRequest",
      "400 400 | InvalidSignature | X | InvalidSignature",
      "400 400 | invalid_x_robots_tag | Invalid X-Robots-Tag header: X | InvalidRequest",
      "400 403 | Unauthorized | Access denied | AccessDenied",
      "400 403 | Unauthorized | X | AccessDenied",
      "400 403 | Unauthorized | new row violates row-level security policy | AccessDenied",
      "400 404 | Bucket not found | Bucket not found | NoSuchBucket",
      "400 404 | InvalidRequest | The related resource does not exist | InvalidRequest",
      "400 404 | Not found | The resource was not found | NoSuchKey",
      "400 404 | not_found | Object not found | NoSuchKey",
      "400 409 | Duplicate | The resource already exists | BucketAlreadyExists",
      "400 409 | Duplicate | The resource already exists | ResourceAlreadyExists",
      "400 413 | Payload too large | X | EntityTooLarge",
      "400 415 | invalid_mime_type | Invalid Content-Type header | InvalidMimeType",
      "400 415 | invalid_mime_type | mime type X is not supported | InvalidMimeType",
      "400 415 | invalid_mime_type | mime type Y is not supported: the content was declared as X | InvalidMimeType",
      "400 503 | acquiring_lock_timeout | acquiring lock timeout | LockTimeout",
      "401 401 | Unauthorized | No API key found in request | AccessDenied",
      "401 401 | Unauthorized | The session of this token has ended | session_not_found",
      "403 403 | FeatureNotEnabled | feature not enabled: X | FeatureNotEnabled",
      "403 403 | Unauthorized | Access denied: Invalid role | AccessDenied",
      "403 403 | Unauthorized | Verify the second factor of this account first | insufficient_aal",
      "404 404 | Not Found | Route X:Y not found | InvalidRequest",
      "405 405 | NotSupported | Buckets are declared in svc.yaml and cannot be created, changed, emptied or deleted through the API; remove objects with remove() | NotSupported",
      "408 408 | RequestTimeout | The request took longer than it may | RequestTimeout",
      "412 412 | PreconditionFailed | At least one of the preconditions did not hold | PreconditionFailed",
      "416 416 | invalid_range | invalid range provided | InvalidRange",
      "429 429 | too_many_connections | X | SlowDown",
      "499 499 | Request aborted | Request aborted | Aborted",
      "500 500 | DatabaseError | database error, code: X | DatabaseError",
      "500 500 | Internal | Internal Server Error | InternalError",
      "503 503 | DatabaseReadOnly | The database is in read-only mode | DatabaseReadOnly",
      "503 503 | ServiceTimeout | The server did not finish the request in time | ServiceTimeout",
      "503 503 | StorageUnavailable | The storage cannot be used at the moment; see the server log for the reason | StorageUnavailable",
      "507 507 | InsufficientStorage | The storage is full; delete objects or enlarge it, then try again | InsufficientStorage",
      "544 544 | DatabaseTimeout | The connection to the database timed out | DatabaseTimeout",
    ]
  `);
});

const database = (code: string, message = 'internal text'): pg.DatabaseError =>
  Object.assign(new pg.DatabaseError(message, 1, 'error'), { code });

const FULL = 'The storage is full; delete objects or enlarge it, then try again';
test.each([
  [
    database('42501', 'new row violates row-level security policy for table "objects"'),
    403,
    'new row violates row-level security policy',
  ],
  [database('42501', 'permission denied for table objects'), 403, 'Access denied'],
  [database('23505'), 409, 'The resource already exists'],
  [database('23503'), 404, 'The related resource does not exist'],
  [Object.assign(database('23001'), { constraint: 'a_fkey' }), 404, 'The related resource does not exist'],
  [database('55P03'), 503, 'acquiring lock timeout'],
  [database('57014'), 544, 'The connection to the database timed out'],
  [database('22021'), 400, 'A value contains characters that cannot be stored'],
  [database('XX000'), 500, 'database error, code: XX000'],
  [new Problem('pool_exhausted', 504, 'x'), 429, 'Too many connections issued to the database'],
  [new Problem('body_too_large', 413, 'too large'), 413, 'too large'],
  [new Abort('client-gone'), 499, 'Request aborted'],
  [new Abort('deadline'), 503, 'The server did not finish the request in time'],
  [new Abort('slow-body'), 408, 'The request took longer than it may'],
  [database('53100'), 507, FULL],
  [Object.assign(new Error('secret detail'), { code: 'ENOSPC' }), 507, FULL],
  [Object.assign(new Error('secret detail'), { code: 'EDQUOT' }), 507, FULL],
  [Object.assign(new Error('secret detail'), { name: 'QuotaExceeded' }), 507, FULL],
  [Object.assign(new Error('secret detail'), { name: 'XMinioStorageFull' }), 507, FULL],
  [Object.assign(new Error('secret detail'), { $metadata: { httpStatusCode: 507 } }), 507, FULL],
  [Object.assign(new Error('secret detail'), { code: 'EACCES' }), 500, 'Internal Server Error'],
  [new TypeError('secret detail'), 500, 'Internal Server Error'],
])('%s', (error, status, message) => {
  const problem = catalogue.toStorageProblem(error);
  expect([problem.status, problem.message]).toEqual([status, message]);
  expect(JSON.stringify(catalogue.toWire(problem))).not.toContain('secret detail');
});
