// The S3 protocol endpoint, spoken to with the AWS client and with signatures made by its own signer; what a client
// would not send is signed by hand or bent after signing.
import { createHash, createHmac } from 'node:crypto';
import { Readable } from 'node:stream';
import {
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetBucketLocationCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListBucketsCommand,
  ListObjectsCommand,
  ListObjectsV2Command,
  paginateListObjectsV2,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { call, type Answer } from './http.ts';
import { aBucket, createWorld, OWN, type User, type World } from './world.ts';

const KEYS = { accessKeyId: 'operator', secretAccessKey: 'a-secret-of-the-operator-0123456789' };
const ENVIRONMENT = {
  SVC_S3_ACCESS_KEY_ID: KEYS.accessKeyId,
  SVC_S3_SECRET_ACCESS_KEY: KEYS.secretAccessKey,
};
const BUCKETS = [
  aBucket('files', { rls: [OWN] }),
  aBucket('open', { public: true }),
  aBucket('small', { maxSizeBytes: 10, types: ['text/plain'] }),
];

let world: World;
let service: S3Client;

beforeAll(async () => {
  world = await createWorld({ buckets: BUCKETS, s3: ENVIRONMENT });
  service = client();
});

afterAll(async () => {
  service.destroy();
  await world.stop();
});

function client(credentials: S3ClientConfig['credentials'] = KEYS, more: S3ClientConfig = {}): S3Client {
  return new S3Client({
    endpoint: `${world.url}/s3`,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials,
    maxAttempts: 1,
    ...more,
  });
}

const userClient = (user: User): S3Client =>
  client({
    accessKeyId: 'svc',
    secretAccessKey: world.keys.publishable,
    sessionToken: user.token,
  });

/** The code of the refusal, and its status. */
async function refusal(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    const { name, $metadata } = error as { name: string; $metadata?: { httpStatusCode?: number } };
    return `${String($metadata?.httpStatusCode)} ${name}`;
  }
  return 'no refusal';
}

const put = (s3: S3Client, Key: string, Body: string | Buffer, Bucket = 'files'): Promise<unknown> =>
  s3.send(new PutObjectCommand({ Bucket, Key, Body }));
const text = async (s3: S3Client, Key: string, Bucket = 'files'): Promise<string | undefined> => {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  return await Body?.transformToString();
};

describe('objects', () => {
  test('what is put comes back, with its type, metadata and ETag', async () => {
    const body = 'hello s3';
    const { ETag } = await service.send(
      new PutObjectCommand({
        Bucket: 'files',
        Key: "o/name-free (1) + 'x' & @=;,$!.txt",
        Body: body,
        ContentType: 'text/plain',
        CacheControl: 'max-age=60',
        Metadata: { colour: 'blue' },
      }),
    );
    expect(ETag).toBe(`"${createHash('md5').update(body).digest('hex')}"`);
    const Key = "o/name-free (1) + 'x' & @=;,$!.txt";
    const found = await service.send(new GetObjectCommand({ Bucket: 'files', Key }));
    expect(await found.Body?.transformToString()).toBe(body);
    expect(found).toMatchObject({
      ContentType: 'text/plain',
      ContentLength: 8,
      Metadata: { colour: 'blue' },
      ETag,
    });
    const head = await service.send(new HeadObjectCommand({ Bucket: 'files', Key }));
    expect(head).toMatchObject({ ContentLength: 8, ETag, Metadata: { colour: 'blue' } });
    const { data } = await world.client('service').storage.from('files').download(Key);
    expect(await data?.text()).toBe(body);
  });

  test('a stream is sent in chunks and arrives without them', async () => {
    const body = Buffer.alloc(300_000, 'abcdefg');
    await service.send(
      new PutObjectCommand({
        Bucket: 'files',
        Key: 'stream.bin',
        Body: Readable.from([body.subarray(0, 100_000), body.subarray(100_000)]),
        ContentLength: body.length,
      }),
    );
    expect(await text(service, 'stream.bin')).toBe(body.toString());
  });

  test('ranges and conditions', async () => {
    await put(service, 'range.txt', '0123456789');
    const part = await service.send(
      new GetObjectCommand({ Bucket: 'files', Key: 'range.txt', Range: 'bytes=2-4' }),
    );
    expect(await part.Body?.transformToString()).toBe('234');
    expect(part.ContentRange).toBe('bytes 2-4/10');
    const get = (more: object): Promise<unknown> =>
      service.send(new GetObjectCommand({ Bucket: 'files', Key: 'range.txt', ...more }));
    expect(await refusal(get({ Range: 'bytes=20-' }))).toBe('416 InvalidRange');
    expect(await refusal(get({ IfMatch: '"other"' }))).toBe('412 PreconditionFailed');
    expect(await refusal(get({ IfNoneMatch: part.ETag }))).toMatch(/^304 /);
    expect(
      await refusal(
        service.send(
          new PutObjectCommand({ Bucket: 'files', Key: 'range.txt', Body: 'x', IfNoneMatch: '*' }),
        ),
      ),
    ).toBe('412 PreconditionFailed');
    expect(await text(service, 'range.txt')).toBe('0123456789');
  });

  test('copies, deletes one and deletes many', async () => {
    await put(service, 'c/source', 'bytes');
    const { CopyObjectResult } = await service.send(
      new CopyObjectCommand({ Bucket: 'open', Key: 'c/copy', CopySource: 'files/c/source' }),
    );
    expect(CopyObjectResult?.ETag).toBe(`"${createHash('md5').update('bytes').digest('hex')}"`);
    expect(await text(service, 'c/copy', 'open')).toBe('bytes');
    await service.send(new DeleteObjectCommand({ Bucket: 'open', Key: 'c/copy' }));
    expect(await refusal(text(service, 'c/copy', 'open'))).toBe('404 NoSuchKey');
    await service.send(new DeleteObjectCommand({ Bucket: 'open', Key: 'c/copy' }));

    await put(service, 'd/1 & 2', '1');
    await put(service, 'd/3', '3');
    const { Deleted, Errors } = await service.send(
      new DeleteObjectsCommand({
        Bucket: 'files',
        Delete: { Objects: [{ Key: 'd/1 & 2' }, { Key: 'd/3' }, { Key: 'd/none' }] },
      }),
    );
    expect(Deleted?.map(({ Key }) => Key)).toEqual(['d/1 & 2', 'd/3', 'd/none']);
    expect(Errors).toBeUndefined();
    expect(await refusal(text(service, 'd/3'))).toBe('404 NoSuchKey');
  });

  test('the limits of a bucket hold', async () => {
    expect(
      await refusal(
        service.send(
          new PutObjectCommand({
            Bucket: 'small',
            Key: 'a',
            Body: 'more than ten bytes',
            ContentType: 'text/plain',
          }),
        ),
      ),
    ).toBe('413 EntityTooLarge');
    expect(
      await refusal(
        service.send(
          new PutObjectCommand({ Bucket: 'small', Key: 'a', Body: 'x', ContentType: 'image/png' }),
        ),
      ),
    ).toBe('415 InvalidMimeType');
    expect(await refusal(put(service, 'a/../b', 'x'))).toMatch(/^4\d\d /);
    expect(await refusal(put(service, 'schlüssel', 'x'))).toBe('400 InvalidKey');
    expect(await refusal(put(service, 'x', 'x', 'nowhere'))).toBe('404 NoSuchBucket');
  });
});

describe('lists', () => {
  test('pages, prefixes, folders', async () => {
    for (const key of ['l/a', 'l/b/1', 'l/b/2', 'l/c', 'l/d&e']) await put(service, key, key);
    const { Contents, CommonPrefixes, KeyCount } = await service.send(
      new ListObjectsV2Command({ Bucket: 'files', Prefix: 'l/', Delimiter: '/' }),
    );
    expect(Contents?.map(({ Key, Size }) => [Key, Size])).toEqual([
      ['l/a', 3],
      ['l/c', 3],
      ['l/d&e', 5],
    ]);
    expect(CommonPrefixes).toEqual([{ Prefix: 'l/b/' }]);
    expect(KeyCount).toBe(4);

    const seen: Array<string | undefined> = [];
    const pages = paginateListObjectsV2({ client: service, pageSize: 2 }, { Bucket: 'files', Prefix: 'l/' });
    for await (const page of pages) seen.push(...(page.Contents ?? []).map(({ Key }) => Key));
    expect(seen).toEqual(['l/a', 'l/b/1', 'l/b/2', 'l/c', 'l/d&e']);

    const after = await service.send(
      new ListObjectsV2Command({ Bucket: 'files', Prefix: 'l/', StartAfter: 'l/b/2' }),
    );
    expect(after.Contents?.map(({ Key }) => Key)).toEqual(['l/c', 'l/d&e']);
    const first = await service.send(
      new ListObjectsCommand({ Bucket: 'files', Prefix: 'l/', MaxKeys: 1, Marker: 'l/a' }),
    );
    expect(first).toMatchObject({ IsTruncated: true, NextMarker: 'l/b/1' });
  });

  test('buckets are read and not changed', async () => {
    const { Buckets } = await service.send(new ListBucketsCommand({}));
    expect(Buckets?.map(({ Name }) => Name)).toEqual(['files', 'open', 'small']);
    await service.send(new HeadBucketCommand({ Bucket: 'files' }));
    await service.send(new GetBucketLocationCommand({ Bucket: 'files' }));
    expect(await refusal(service.send(new HeadBucketCommand({ Bucket: 'none' })))).toMatch(/^404 /);
    expect(await refusal(service.send(new CreateBucketCommand({ Bucket: 'new' })))).toBe(
      '405 MethodNotAllowed',
    );
  });
});

type Hand = {
  readonly method: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly keys?: { readonly accessKeyId: string; readonly secretAccessKey: string };
  readonly at?: Date;
};

const digest = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex');
const mac = (key: Buffer | string, data: string): Buffer => createHmac('sha256', key).update(data).digest();
const escape = (value: string): string =>
  encodeURIComponent(value).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

/** Signature V4 by hand: the signature, and the key it was made with. */
function sign(hand: Hand, payload: string): { signature: string; key: Buffer; date: string; scope: string } {
  const date = stamp(hand.at);
  const scope = `${date.slice(0, 8)}/eu-x/s3/aws4_request`;
  const headers = Object.entries(hand.headers ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const query = Object.entries(hand.query ?? {})
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${escape(name)}=${escape(value)}`);
  const canonical = [
    hand.method,
    hand.path,
    query.join('&'),
    ...headers.map(([name, value]) => `${name}:${value}`),
    '',
    headers.map(([name]) => name).join(';'),
    payload,
  ].join('\n');
  const secret = (hand.keys ?? KEYS).secretAccessKey;
  const key = scope.split('/').reduce<Buffer>((last, part) => mac(last, part), Buffer.from(`AWS4${secret}`));
  const signature = mac(key, ['AWS4-HMAC-SHA256', date, scope, digest(canonical)].join('\n')).toString('hex');
  return { signature, key, date, scope };
}

function stamp(at = new Date()): string {
  return at.toISOString().replace(/[-:]|\.\d+/g, '');
}

function presign(hand: Hand, expires = 60): string {
  const date = stamp(hand.at);
  const query = {
    ...hand.query,
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${(hand.keys ?? KEYS).accessKeyId}/${date.slice(0, 8)}/eu-x/s3/aws4_request`,
    'X-Amz-Date': date,
    'X-Amz-Expires': String(expires),
    'X-Amz-SignedHeaders': 'host',
  };
  const { host } = new URL(world.origin);
  const { signature } = sign({ ...hand, query, headers: { host } }, 'UNSIGNED-PAYLOAD');
  return `${world.origin}${hand.path}?${new URLSearchParams({ ...query, 'X-Amz-Signature': signature }).toString()}`;
}

/** Headers of a signed request, and what its chunks are signed with. */
function authorize(
  hand: Hand,
  payload: string,
): { headers: Record<string, string>; seal: ReturnType<typeof sign> } {
  const { host } = new URL(world.origin);
  const headers = {
    ...hand.headers,
    host,
    'x-amz-date': stamp(hand.at),
    'x-amz-content-sha256': payload,
  };
  const seal = sign({ ...hand, headers }, payload);
  const credential = `${(hand.keys ?? KEYS).accessKeyId}/${seal.scope}`;
  const names = Object.keys(headers).toSorted().join(';');
  const { host: _host, ...sent } = headers;
  return {
    headers: {
      ...sent,
      authorization: `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names}, Signature=${seal.signature}`,
    },
    seal,
  };
}

const PATH = '/storage/v1/s3/files/hand.txt';
const codeOf = (answer: Answer): string =>
  `${answer.status} ${/<Code>(.*)<\/Code>/.exec(answer.text)?.[1] ?? ''}`;

describe('signatures', () => {
  beforeAll(async () => put(service, 'hand.txt', 'by hand'));

  test('a presigned link reads, writes, and says no more than it was made for', async () => {
    const link = presign({ method: 'GET', path: PATH });
    expect((await call('GET', link)).text).toBe('by hand');
    expect(codeOf(await call('PUT', link, { body: 'other' }))).toBe('403 SignatureDoesNotMatch');
    expect(codeOf(await call('GET', link.replace('hand.txt', 'range.txt')))).toBe(
      '403 SignatureDoesNotMatch',
    );
    expect(codeOf(await call('GET', `${link}&response-content-type=text/html`))).toBe(
      '403 SignatureDoesNotMatch',
    );
    expect(codeOf(await call('GET', link.replace('X-Amz-Expires=60', 'X-Amz-Expires=600')))).toBe(
      '403 SignatureDoesNotMatch',
    );
    const written = await call('PUT', presign({ method: 'PUT', path: '/storage/v1/s3/files/put.txt' }), {
      body: 'put',
    });
    expect(written.status).toBe(200);
    expect(await text(service, 'put.txt')).toBe('put');
  });

  test('a link that makes a browser run what it opens is disarmed', async () => {
    const html = { 'response-content-type': 'text/html' };
    const answer = await call('GET', presign({ method: 'GET', path: PATH, query: html }));
    expect(answer.headers.get('content-type')).toMatch(/^text\/plain/);
  });

  test('links and headers are bound to time', async () => {
    const old = new Date(Date.now() - 20 * 60_000);
    expect(codeOf(await call('GET', presign({ method: 'GET', path: PATH, at: old })))).toBe(
      '403 AccessDenied',
    );
    expect((await call('GET', presign({ method: 'GET', path: PATH, at: old }, 3600))).status).toBe(200);
    const { headers } = authorize({ method: 'GET', path: PATH, at: old }, digest(''));
    expect(codeOf(await call('GET', world.origin + PATH, { headers }))).toBe('403 RequestTimeTooSkewed');
  });

  test('anonymous, unknown and wrong keys', async () => {
    expect(codeOf(await call('GET', world.origin + PATH))).toBe('403 AccessDenied');
    expect(codeOf(await call('GET', world.origin + PATH, { headers: world.service }))).toBe(
      '400 AuthorizationHeaderMalformed',
    );
    expect(await refusal(text(client({ ...KEYS, secretAccessKey: 'wrong' }), 'hand.txt'))).toBe(
      '403 SignatureDoesNotMatch',
    );
    expect(await refusal(text(client({ ...KEYS, accessKeyId: 'nobody' }), 'hand.txt'))).toBe(
      '403 InvalidAccessKeyId',
    );
    const keyOnly = client({ accessKeyId: 'svc', secretAccessKey: world.keys.publishable });
    expect(await refusal(text(keyOnly, 'hand.txt'))).toBe('403 AccessDenied');
  });

  test('a body that was changed after signing leaves nothing', async () => {
    const path = '/storage/v1/s3/files/tampered.txt';
    const { headers } = authorize({ method: 'PUT', path }, digest('honest'));
    expect(codeOf(await call('PUT', world.origin + path, { headers, body: 'forged' }))).toBe(
      '400 XAmzContentSHA256Mismatch',
    );
    expect(await refusal(text(service, 'tampered.txt'))).toBe('404 NoSuchKey');
  });

  test('signed chunks: whole, forged, cut short', async () => {
    const path = '/storage/v1/s3/files/chunks.txt';
    const parts = ['first part,', ' second part'];
    const total = String(parts.join('').length);
    const send = async (bend: (body: string) => string): Promise<string> => {
      const { headers, seal } = authorize(
        { method: 'PUT', path, headers: { 'x-amz-decoded-content-length': total } },
        'STREAMING-AWS4-HMAC-SHA256-PAYLOAD',
      );
      let last = seal.signature;
      const body = [...parts, ''].map((part) => {
        const lines = ['AWS4-HMAC-SHA256-PAYLOAD', seal.date, seal.scope, last, digest(''), digest(part)];
        last = mac(seal.key, lines.join('\n')).toString('hex');
        return `${part.length.toString(16)};chunk-signature=${last}\r\n${part}\r\n`;
      });
      return codeOf(await call('PUT', world.origin + path, { headers, body: bend(body.join('')) }));
    };
    expect(await send((body) => body.replace('second', 'forged'))).toBe('403 SignatureDoesNotMatch');
    expect(await send((body) => body.slice(0, body.indexOf('\r\nc;') + 2))).toBe('400 IncompleteBody');
    expect(await send((body) => body.replace(/chunk-signature=\w/, 'chunk-signature=x'))).toBe(
      '400 InvalidArgument',
    );
    expect(await refusal(text(service, 'chunks.txt'))).toBe('404 NoSuchKey');
    expect(await send((body) => body)).toBe('200 ');
    expect(await text(service, 'chunks.txt')).toBe(parts.join(''));
  });

  test('unsigned chunks with a checksum behind them', async () => {
    const path = '/storage/v1/s3/files/trailer.txt';
    const send = async (checksum: string): Promise<string> => {
      const { headers } = authorize(
        { method: 'PUT', path, headers: { 'x-amz-decoded-content-length': '5' } },
        'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
      );
      const body = `5\r\nhello\r\n0\r\nx-amz-checksum-crc32:${checksum}\r\n\r\n`;
      return codeOf(await call('PUT', world.origin + path, { headers, body }));
    };
    expect(await send('AAAAAA==')).toBe('400 BadDigest');
    expect(await refusal(text(service, 'trailer.txt'))).toBe('404 NoSuchKey');
    expect(await send('NhCmhg==')).toBe('200 ');
    expect(await text(service, 'trailer.txt')).toBe('hello');
  });

  test('what is not there is refused, not taken for something else', async () => {
    const query = { acl: '' };
    expect(codeOf(await call('PUT', presign({ method: 'PUT', path: PATH, query }), { body: 'x' }))).toBe(
      '501 NotImplemented',
    );
    expect(await text(service, 'hand.txt')).toBe('by hand');
    expect(await refusal(service.send(new CreateMultipartUploadCommand({ Bucket: 'files', Key: 'm' })))).toBe(
      '501 NotImplemented',
    );
  });
});

describe('users', () => {
  test('policies decide, as everywhere', async () => {
    const alice = userClient(world.alice);
    const bob = userClient(world.bob);
    await put(alice, 'alice.txt', 'mine');
    expect(await text(alice, 'alice.txt')).toBe('mine');
    expect(await refusal(text(bob, 'alice.txt'))).toBe('404 NoSuchKey');
    expect(await refusal(put(bob, 'alice.txt', 'his'))).toBe('403 AccessDenied');
    await bob.send(new DeleteObjectCommand({ Bucket: 'files', Key: 'alice.txt' }));
    expect(await text(alice, 'alice.txt')).toBe('mine');
    const listed = await bob.send(new ListObjectsV2Command({ Bucket: 'files' }));
    expect(listed.Contents ?? []).toEqual([]);
    const copying = new CopyObjectCommand({ Bucket: 'files', Key: 'bob', CopySource: 'files/alice.txt' });
    expect(await refusal(bob.send(copying))).toBe('404 NoSuchKey');
    expect(await refusal(put(bob, 'x', 'x', 'open'))).toBe('403 AccessDenied');
    const { data } = await world.client(world.alice).storage.from('files').info('alice.txt');
    expect(data?.name).toBe('alice.txt');
  });

  test('a token that does not hold opens nothing', async () => {
    const bent = { ...world.alice, token: `${world.alice.token.slice(0, -2)}xx` };
    expect(await refusal(text(userClient(bent), 'alice.txt'))).toBe('400 InvalidToken');
    const key = { ...world.alice, token: world.keys.secret };
    expect(await refusal(text(userClient(key), 'alice.txt'))).toBe('400 InvalidToken');
  });
});

describe('settings', () => {
  test('off by default, and not usable without its keys', async () => {
    const off = await createWorld({ buckets: BUCKETS });
    try {
      const answer = await call('GET', `${off.url}/s3/files/a`);
      expect(codeOf(answer)).toBe('403 FeatureNotEnabled');
    } finally {
      await off.stop();
    }
    const keyless = await createWorld({ buckets: BUCKETS, s3: { SVC_S3_ACCESS_KEY_ID: 'operator' } });
    try {
      const answer = await call('GET', `${keyless.url}/s3/files/a`);
      expect(codeOf(answer)).toBe('503 ServiceUnavailable');
      expect(answer.text).toContain('SVC_S3_SECRET_ACCESS_KEY');
    } finally {
      await keyless.stop();
    }
  });
});
