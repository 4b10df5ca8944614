import { describe, expect, test } from 'vitest';
import { StorageProblem } from '../problem.ts';
import { parseQuery, readClaim, verify, type SignedRequest } from './signature.ts';

// The worked examples of the AWS documentation.
const SECRET = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
const NOON = new Date('2013-05-24T00:00:00Z');
const EMPTY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

const inHeader: SignedRequest = {
  method: 'GET',
  rawPath: '/test.txt',
  query: [],
  headers: {
    host: 'examplebucket.s3.amazonaws.com',
    range: 'bytes=0-9',
    'x-amz-content-sha256': EMPTY,
    'x-amz-date': '20130524T000000Z',
    authorization:
      'AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,' +
      'SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,' +
      'Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  },
};

const inQuery: SignedRequest = {
  method: 'GET',
  rawPath: '/test.txt',
  query: parseQuery(
    'X-Amz-Algorithm=AWS4-HMAC-SHA256' +
      '&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request' +
      '&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host' +
      '&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404',
  ),
  headers: { host: 'examplebucket.s3.amazonaws.com' },
};

const list: SignedRequest = {
  method: 'GET',
  rawPath: '/',
  query: parseQuery('max-keys=2&prefix=J'),
  headers: {
    host: 'examplebucket.s3.amazonaws.com',
    'x-amz-content-sha256': EMPTY,
    'x-amz-date': '20130524T000000Z',
    authorization:
      'AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, ' +
      'SignedHeaders=host;x-amz-content-sha256;x-amz-date, ' +
      'Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  },
};

/** The code of the refusal, undefined when the signature holds. */
function judge(request: SignedRequest, now = NOON, secret = SECRET): string | undefined {
  try {
    const claim = readClaim(request);
    if (!claim) return 'unsigned';
    verify(claim, request, secret, now);
    return undefined;
  } catch (error) {
    if (error instanceof StorageProblem) return error.code;
    throw error;
  }
}

describe('the documented examples hold', () => {
  test.each([
    ['a header', inHeader],
    ['a query', inQuery],
    ['a list', list],
  ])('%s', (_name, request) => {
    expect(judge(request)).toBeUndefined();
  });
});

const later = (minutes: number): Date => new Date(NOON.getTime() + minutes * 60_000);

describe('everything else does not', () => {
  test.each<readonly [string, SignedRequest, string]>([
    ['another method', { ...inHeader, method: 'PUT' }, 'SignatureDoesNotMatch'],
    ['another path', { ...inHeader, rawPath: '/other.txt' }, 'SignatureDoesNotMatch'],
    ['another query', { ...inHeader, query: [['acl', '']] }, 'SignatureDoesNotMatch'],
    [
      'another signed header',
      { ...inHeader, headers: { ...inHeader.headers, range: 'bytes=0-' } },
      'SignatureDoesNotMatch',
    ],
    [
      'an unsigned header that steers',
      { ...inHeader, headers: { ...inHeader.headers, 'x-amz-copy-source': '/a/b' } },
      'AccessDenied',
    ],
    [
      'another hash of the body',
      { ...inHeader, headers: { ...inHeader.headers, 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD' } },
      'SignatureDoesNotMatch',
    ],
    ['both ways at once', { ...inQuery, headers: inHeader.headers }, 'InvalidArgument'],
    ['no signature', { ...inHeader, headers: {} }, 'unsigned'],
    [
      'another scheme',
      { ...inHeader, headers: { authorization: 'Bearer x' } },
      'AuthorizationHeaderMalformed',
    ],
    [
      'a parameter twice',
      { ...inQuery, query: [...inQuery.query, ['X-Amz-Expires', '604800']] },
      'AuthorizationQueryParametersError',
    ],
  ])('%s', (_name, request, code) => {
    expect(judge(request)).toBe(code);
  });

  test('another secret', () => {
    expect(judge(inHeader, NOON, `${SECRET}x`)).toBe('SignatureDoesNotMatch');
  });

  test('the clock decides', () => {
    expect(judge(inHeader, later(14))).toBeUndefined();
    expect(judge(inHeader, later(16))).toBe('RequestTimeTooSkewed');
    expect(judge(inHeader, later(-16))).toBe('RequestTimeTooSkewed');
    expect(judge(inQuery, later(24 * 60 - 1))).toBeUndefined();
    expect(judge(inQuery, later(24 * 60 + 1))).toBe('AccessDenied');
    expect(judge(inQuery, later(-16))).toBe('AccessDenied');
  });
});
