// What only the S3 protocol can refuse, with the codes its clients know. Everything else is refused with the problems
// of the storage API, whose codes are S3's too.
import { StorageProblem } from '../problem.ts';

const make =
  (code: string, status: number, message: string) =>
  (detail?: string): StorageProblem =>
    new StorageProblem({ code, label: code, status, http: status }, detail ?? message);

type Maker = (detail?: string) => StorageProblem;

export const accessDenied: Maker = make('AccessDenied', 403, 'Access denied');
export const unknownAccessKey: Maker = make('InvalidAccessKeyId', 403, 'The access key id is not known');
export const signatureMismatch: Maker = make(
  'SignatureDoesNotMatch',
  403,
  'The signature is not the one this request and secret make',
);
export const clockSkewed: Maker = make(
  'RequestTimeTooSkewed',
  403,
  'The clocks of client and server are more than 15 minutes apart',
);
export const malformedAuthorization: Maker = make(
  'AuthorizationHeaderMalformed',
  400,
  'The authorization cannot be read',
);
export const malformedQueryAuthorization: Maker = make(
  'AuthorizationQueryParametersError',
  400,
  'The X-Amz-* parameters cannot be read',
);
export const invalidToken: Maker = make('InvalidToken', 400, 'The session token is not valid');
export const expiredToken: Maker = make('ExpiredToken', 400, 'The session token has expired');
export const invalidArgument: Maker = make('InvalidArgument', 400, 'An argument is not valid');
export const badDigest: Maker = make('BadDigest', 400, 'The body does not have the digest it was sent with');
export const contentHashMismatch: Maker = make(
  'XAmzContentSHA256Mismatch',
  400,
  'The body does not have the SHA-256 that was signed',
);
export const incompleteBody: Maker = make('IncompleteBody', 400, 'The body is not as long as was announced');
export const malformedXml: Maker = make('MalformedXML', 400, 'The XML is not what is expected here');
export const entityTooLarge: Maker = make('EntityTooLarge', 413, 'The body is larger than it may be');
export const notImplemented: Maker = make('NotImplemented', 501, 'This part of S3 is not implemented');
export const methodNotAllowed: Maker = make(
  'MethodNotAllowed',
  405,
  'Buckets are declared in svc.yaml and cannot be created or deleted here',
);
export const preconditionFailed: Maker = make(
  'PreconditionFailed',
  412,
  'At least one of the preconditions did not hold',
);
export const keysMissing: Maker = make(
  'ServiceUnavailable',
  503,
  'The S3 endpoint is on but SVC_S3_ACCESS_KEY_ID and SVC_S3_SECRET_ACCESS_KEY (at least 32 characters) are not set',
);
