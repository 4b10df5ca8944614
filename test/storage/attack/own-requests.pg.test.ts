// The storage API sends requests only to the configured store. Callers cannot change the address, and redirects of
// the store are not followed.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { S3Backend } from '../../../src/storage/backend/s3.ts';

let inner: Server;
let redirecting: Server;
let reached = 0;
const serverPort = (server: Server): number => (server.address() as AddressInfo).port;

beforeAll(async () => {
  inner = createServer((_request, response) => {
    reached += 1;
    response.end('internal secret');
  }).listen(0, '127.0.0.1');
  await once(inner, 'listening');
  redirecting = createServer((request, response) => {
    request.resume();
    response.writeHead(307, { location: `http://127.0.0.1:${serverPort(inner)}/latest/meta-data` }).end();
  }).listen(0, '127.0.0.1');
  await once(redirecting, 'listening');
});
afterAll(() => {
  inner.close();
  redirecting.close();
});

test('a redirect of the store is an error and is not followed', async () => {
  const backend = new S3Backend({
    bucket: 'b',
    region: undefined,
    endpoint: `http://127.0.0.1:${serverPort(redirecting)}`,
    accessKeyId: 'id',
    secretAccessKey: 'secret-that-must-not-show',
  });
  try {
    const version = randomUUID();
    for (const attempt of [
      () => backend.read(version, 1),
      () => backend.copy(version, randomUUID(), 1),
      () => backend.check(),
    ]) {
      const error: unknown = await attempt().then(
        () => undefined,
        (cause: unknown) => cause,
      );
      expect(error).toBeInstanceOf(Error);
      expect(String(error)).not.toContain('secret-that-must-not-show');
    }
    expect(reached).toBe(0);
  } finally {
    backend.close();
  }
});

test('an invalid version never becomes part of an address', async () => {
  const backend = new S3Backend({
    bucket: 'b',
    region: undefined,
    endpoint: `http://127.0.0.1:${serverPort(inner)}`,
    accessKeyId: 'a',
    secretAccessKey: 'b',
  });
  try {
    for (const version of ['../../other-bucket/key', 'x?acl', '@127.0.0.1', '']) {
      await expect(backend.read(version, 1)).rejects.toThrow('no blob');
      expect((await backend.remove([{ version, staged: true }])).size).toBe(0);
    }
    expect(reached).toBe(0);
  } finally {
    backend.close();
  }
});
