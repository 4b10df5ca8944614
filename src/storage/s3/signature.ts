// AWS Signature Version 4 on a received request, from the header or from a presigned URL. It proves that whoever
// sent the request knows the secret of an access key, and says how its body is vouched for; who that is, and what
// they may do, is decided elsewhere.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import {
  accessDenied,
  clockSkewed,
  invalidArgument,
  malformedAuthorization,
  malformedQueryAuthorization,
  signatureMismatch,
} from './problem.ts';

const ALGORITHM = 'AWS4-HMAC-SHA256';
const MAX_SKEW_MS = 15 * 60_000;
const MAX_EXPIRES_SECONDS = 7 * 24 * 60 * 60;

export type QueryParameter = readonly [name: string, value: string];

export type SignedRequest = {
  readonly method: string;
  /** As received, without the query. */
  readonly rawPath: string;
  readonly query: readonly QueryParameter[];
  readonly headers: IncomingHttpHeaders;
};

/** What a request claims about its signature; proves nothing until `verify`. */
export type Claim = {
  readonly accessKeyId: string;
  readonly sessionToken: string | undefined;
  readonly from: 'header' | 'query';
  readonly scope: string;
  readonly date: string;
  readonly signedHeaders: readonly string[];
  readonly signature: string;
  readonly expiresSeconds: number | undefined;
  readonly payload: string;
};

/** How the chunks of a signed stream are checked: each signature covers the one before it. */
export type Seal = {
  readonly signingKey: Buffer;
  readonly date: string;
  readonly scope: string;
  readonly signature: string;
};

/** Undefined when the request carries no signature at all. */
export function readClaim(request: SignedRequest): Claim | undefined {
  const { authorization } = request.headers;
  const inQuery = request.query.some(([name]) => /^x-amz-(algorithm|signature)$/i.test(name));
  if (authorization !== undefined && inQuery) throw invalidArgument('Only one way to sign may be used');
  if (authorization !== undefined) return readHeader(request, authorization);
  return inQuery ? readQuery(request) : undefined;
}

function readHeader({ headers }: SignedRequest, authorization: string): Claim {
  const match = /^AWS4-HMAC-SHA256\s+(.*)$/.exec(authorization.trim());
  if (!match) throw malformedAuthorization(`Only ${ALGORITHM} is known`);
  const parts = new Map<string, string>();
  for (const part of (match[1] ?? '').split(',')) {
    const at = part.indexOf('=');
    const name = part.slice(0, at).trim();
    if (at < 0 || parts.has(name)) throw malformedAuthorization();
    parts.set(name, part.slice(at + 1).trim());
  }
  const payload = single(headers, 'x-amz-content-sha256');
  if (payload === undefined) throw invalidArgument('x-amz-content-sha256 is missing');
  const claim: Claim = {
    ...readCredential(parts.get('Credential') ?? '', malformedAuthorization),
    sessionToken: single(headers, 'x-amz-security-token'),
    from: 'header',
    date: single(headers, 'x-amz-date') ?? '',
    signedHeaders: readSignedHeaders(parts.get('SignedHeaders') ?? '', malformedAuthorization),
    signature: parts.get('Signature') ?? '',
    expiresSeconds: undefined,
    payload,
  };
  checkSigned(claim, headers);
  return claim;
}

function readQuery({ query, headers }: SignedRequest): Claim {
  const value = (name: string): string | undefined => {
    const found = query.filter(([one]) => one === name);
    if (found.length > 1) throw malformedQueryAuthorization(`${name} is there twice`);
    return found[0]?.[1];
  };
  if (value('X-Amz-Algorithm') !== ALGORITHM) {
    throw malformedQueryAuthorization(`X-Amz-Algorithm must be ${ALGORITHM}`);
  }
  const expires = value('X-Amz-Expires') ?? '';
  const expiresSeconds = Number(expires);
  if (!/^\d{1,6}$/.test(expires) || expiresSeconds < 1 || expiresSeconds > MAX_EXPIRES_SECONDS) {
    throw malformedQueryAuthorization(`X-Amz-Expires must be between 1 and ${MAX_EXPIRES_SECONDS}`);
  }
  const claim: Claim = {
    ...readCredential(value('X-Amz-Credential') ?? '', malformedQueryAuthorization),
    sessionToken: value('X-Amz-Security-Token'),
    from: 'query',
    date: value('X-Amz-Date') ?? '',
    signedHeaders: readSignedHeaders(value('X-Amz-SignedHeaders') ?? '', malformedQueryAuthorization),
    signature: value('X-Amz-Signature') ?? '',
    expiresSeconds,
    payload: value('X-Amz-Content-Sha256') ?? single(headers, 'x-amz-content-sha256') ?? 'UNSIGNED-PAYLOAD',
  };
  checkSigned(claim, headers);
  return claim;
}

function readCredential(
  text: string,
  malformed: (detail: string) => Error,
): Pick<Claim, 'accessKeyId' | 'scope'> {
  const match = /^([\w.-]{1,128})\/(\d{8}\/[\w-]{1,64}\/s3\/aws4_request)$/.exec(text);
  if (!match) throw malformed('The credential must be <access key>/<date>/<region>/s3/aws4_request');
  return { accessKeyId: match[1] ?? '', scope: match[2] ?? '' };
}

function readSignedHeaders(text: string, malformed: (detail: string) => Error): readonly string[] {
  const names = text.split(';');
  if (!names.every((name) => /^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(name)) || !names.includes('host')) {
    throw malformed('The signed headers must name host, in lower case');
  }
  return names;
}

/** What steers S3 must be under the signature, or whoever is in the middle steers it. */
function checkSigned({ signedHeaders, from }: Claim, headers: IncomingHttpHeaders): void {
  const unsigned = Object.keys(headers).filter(
    (name) =>
      name.startsWith('x-amz-') &&
      !signedHeaders.includes(name) &&
      !(from === 'query' && name === 'x-amz-content-sha256'),
  );
  if (unsigned.length > 0) throw accessDenied(`These headers are not signed: ${unsigned.join(', ')}`);
}

/** Throws unless the claim was made with this secret, for this request, at about this time. */
export function verify(claim: Claim, request: SignedRequest, secret: string, now: Date): Seal {
  checkTime(claim, now);
  const { scope, date, signature } = claim;
  const signingKey = deriveKey(secret, scope);
  const canonical = createHash('sha256').update(canonicalRequest(claim, request)).digest('hex');
  const expected = hmac(signingKey, [ALGORITHM, date, scope, canonical].join('\n')).toString('hex');
  if (!sameText(signature, expected)) throw signatureMismatch();
  return { signingKey, date, scope, signature };
}

function checkTime({ date, scope, expiresSeconds, from }: Claim, now: Date): void {
  const malformed = from === 'header' ? malformedAuthorization : malformedQueryAuthorization;
  const match = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(date);
  const [, year, month, day, hour, minute, second] = match ?? [];
  const signedAt = Date.parse(
    `${year ?? ''}-${month ?? ''}-${day ?? ''}T${hour ?? ''}:${minute ?? ''}:${second ?? ''}Z`,
  );
  if (Number.isNaN(signedAt)) throw malformed('The date must be like 20240131T235959Z');
  if (scope.slice(0, 8) !== date.slice(0, 8))
    throw malformed('The date of the credential is not the request’s');
  const age = now.getTime() - signedAt;
  if (expiresSeconds === undefined) {
    if (Math.abs(age) > MAX_SKEW_MS) throw clockSkewed();
    return;
  }
  if (age < -MAX_SKEW_MS) throw accessDenied('Request is not valid yet');
  if (age > expiresSeconds * 1000) throw accessDenied('Request has expired');
}

function canonicalRequest(claim: Claim, { method, rawPath, query, headers }: SignedRequest): string {
  const parameters = query
    .filter(([name]) => !(claim.from === 'query' && name === 'X-Amz-Signature'))
    .map(([name, value]) => [encode(name), encode(value)] as const)
    .toSorted(([nameA, a], [nameB, b]) => compare(nameA, nameB) || compare(a, b))
    .map(([name, value]) => `${name}=${value}`);
  return [
    method,
    canonicalPath(rawPath),
    parameters.join('&'),
    ...claim.signedHeaders.map((name) => `${name}:${headerValue(headers, name)}`),
    '',
    claim.signedHeaders.join(';'),
    claim.payload,
  ].join('\n');
}

/** Segments decoded once and encoded anew: clients differ in what they escape, and the signature is over one form. */
function canonicalPath(rawPath: string): string {
  return rawPath
    .split('/')
    .map((segment) => encode(decode(segment)))
    .join('/');
}

export function parseQuery(raw: string): QueryParameter[] {
  return raw
    .split('&')
    .filter((part) => part !== '')
    .map((part) => {
      const at = part.indexOf('=');
      const [name, value] = at < 0 ? [part, ''] : [part.slice(0, at), part.slice(at + 1)];
      return [decode(name.replaceAll('+', ' ')), decode(value.replaceAll('+', ' '))] as const;
    });
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Percent signs that escape nothing cannot have been signed.
    throw invalidArgument('The URL is not properly encoded');
  }
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function headerValue(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name];
  return (Array.isArray(value) ? value.join(',') : (value ?? '')).trim().replace(/ +/g, ' ');
}

function single(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** By bytes of UTF-8; what is compared is ASCII. */
function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function deriveKey(secret: string, scope: string): Buffer {
  return scope.split('/').reduce<Buffer>((key, part) => hmac(key, part), Buffer.from(`AWS4${secret}`));
}

export function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

export function sameText(given: string, expected: string): boolean {
  const a = Buffer.from(given);
  const b = Buffer.from(expected);
  return a.length === b.length && timingSafeEqual(a, b);
}
