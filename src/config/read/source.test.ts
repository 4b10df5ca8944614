// Remote files come from real servers on the loopback interface: one with a configurable response, and one that
// implements enough of S3's GET for the real SDK.
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { readModeVariables } from './env-file.ts';
import { isRemote, readSource } from './source.ts';

const FILE = 'version: 1\n# ü\n';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'svc-source-'));
});
afterAll(() => rmSync(directory, { recursive: true }));

describe('a local file', () => {
  test('svc.yaml is found, before svc.yml', async () => {
    const home = join(directory, 'home');
    mkdirSync(home);
    await expect(readSource(undefined, home)).rejects.toMatchObject({
      code: 'no_config',
      hint: expect.stringMatching(/svc init/),
    });
    writeFileSync(join(home, 'svc.yml'), 'version: 2');
    expect(await readSource(undefined, home)).toEqual({
      name: 'svc.yml',
      directory: home,
      text: 'version: 2',
    });
    writeFileSync(join(home, 'svc.yaml'), FILE);
    expect(await readSource(undefined, home)).toEqual({ name: 'svc.yaml', directory: home, text: FILE });
  });

  test('relative paths in the file start at its directory', async () => {
    mkdirSync(join(directory, 'conf'));
    writeFileSync(join(directory, 'conf', 'app.yaml'), FILE);
    const source = await readSource('conf/app.yaml', directory);
    expect(source).toEqual({ name: 'conf/app.yaml', directory: join(directory, 'conf'), text: FILE });
  });

  test('a directory, invalid UTF-8 and a file that is too large are rejected', async () => {
    await expect(readSource('svc.yml', directory)).rejects.toMatchObject({
      hint: expect.stringMatching(/svc\.yaml/),
    });
    mkdirSync(join(directory, 'folder'));
    await expect(readSource('folder', directory)).rejects.toMatchObject({
      message: 'folder is a directory',
    });
    writeFileSync(join(directory, 'latin1.yaml'), Buffer.from([0x61, 0x3a, 0x20, 0xfc]));
    await expect(readSource('latin1.yaml', directory)).rejects.toThrow(/not UTF-8/);
    writeFileSync(join(directory, 'huge.yaml'), Buffer.alloc(9 * 1024 * 1024, 0x20));
    await expect(readSource('huge.yaml', directory)).rejects.toThrow(/too large/);
  });
});

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

describe('a remote file', () => {
  let server: Server;
  let origin: string;
  let answer: Answer;
  let asked: IncomingMessage[];

  // Each test has its own server, because a cancelled request of an earlier test may still arrive.
  beforeEach(async () => {
    const received: IncomingMessage[] = [];
    asked = received;
    answer = (_request, response) => response.end(FILE);
    server = createServer((request, response) => {
      received.push(request);
      answer(request, response);
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });
  afterEach(() => vi.unstubAllEnvs());

  test('is read over HTTP, and has no directory', async () => {
    expect(await readSource(`${origin}/svc.yaml`, '/')).toEqual({
      name: `${origin}/svc.yaml`,
      directory: undefined,
      text: FILE,
    });
  });

  test('credentials are sent, but never shown', async () => {
    const location = `${origin.replace('//', '//me:p%40ss@')}/svc.yaml?X-Signature=hunter2`;
    expect((await readSource(location, '/')).name).toBe(`${origin}/svc.yaml`);
    expect(asked[0]?.headers.authorization).toBe(`Basic ${btoa('me:p@ss')}`);
    expect(asked[0]?.url).toContain('hunter2');
    answer = (_request, response) => response.writeHead(403).end();
    const problem: unknown = await readSource(location, '/').catch((error: unknown) => error);
    expect(problem).toMatchObject({
      message: `Cannot read ${origin}/svc.yaml: the server responded with status 403`,
    });
  });

  test('fails after an error status, a response that is too large, and a timeout', async () => {
    answer = (_request, response) => response.writeHead(404).end();
    await expect(readSource(`${origin}/x`, '/')).rejects.toThrow(/responded with status 404/);
    answer = (_request, response) => response.end(Buffer.alloc(9 * 1024 * 1024, 0x20));
    await expect(readSource(`${origin}/x`, '/')).rejects.toThrow(/too large/);
    answer = () => undefined;
    await expect(readSource(`${origin}/x`, '/', { timeoutMs: 50 })).rejects.toThrow(
      /no response within 0.05/,
    );
    // The timeout includes the body of the response.
    answer = (_request, response) => response.write('version: ');
    await expect(readSource(`${origin}/x`, '/', { timeoutMs: 50 })).rejects.toThrow(/no response within/);
    await expect(readSource('http://127.0.0.1:1/x', '/')).rejects.toThrow(/Cannot read http:\/\/127/);
  });

  test('is never read from another machine without encryption, not even after a redirect', async () => {
    await expect(readSource('http://config.example.com/svc.yaml', '/')).rejects.toMatchObject({
      code: 'insecure_config',
    });
    // 0.0.0.0 reaches the same server, but does not count as this machine.
    answer = (_request, response) =>
      response.writeHead(302, { location: `${origin.replace('127.0.0.1', '0.0.0.0')}/other` }).end();
    answer = redirectOnce(answer);
    await expect(readSource(`${origin}/svc.yaml`, '/')).rejects.toMatchObject({ code: 'insecure_config' });
    expect(asked.map(({ url }) => url)).toEqual(['/svc.yaml', '/other']);
  });

  test('is read from S3 with the credentials of the environment', async () => {
    stubAws(origin);
    const source = await readSource('s3://configs/team/svc.yaml', '/');
    expect(source).toEqual({ name: 's3://configs/team/svc.yaml', directory: undefined, text: FILE });
    expect(asked[0]?.method).toBe('GET');
    expect(asked[0]?.url).toMatch(/^\/configs\/team\/svc\.yaml/);
    expect(asked[0]?.headers.authorization).toMatch(/^AWS4-HMAC-SHA256 Credential=AKIATEST\//);
  });

  test('is pinned by a hash after #, which is not part of the address', async () => {
    stubAws(origin);
    const sha256 = createHash('sha256').update(FILE).digest('hex');
    for (const address of ['s3://configs/team/svc.yaml', `${origin}/svc.yaml`]) {
      expect(await readSource(`${address}#${sha256}`, '/')).toMatchObject({ name: address, text: FILE });
      await expect(readSource(`${address}#${'0'.repeat(64)}`, '/')).rejects.toMatchObject({
        code: 'config_hash_mismatch',
        details: expect.stringContaining(sha256),
      });
    }
    expect(asked.filter(({ url }) => url?.includes(sha256))).toEqual([]);
    expect(asked).toHaveLength(4);
    await expect(readSource(`${origin}/svc.yaml#main`, '/')).rejects.toMatchObject({ code: 'bad_location' });
  });

  test('fails for a missing S3 object and for a location without a key', async () => {
    stubAws(origin);
    answer = (_request, response) =>
      response
        .writeHead(404, { 'content-type': 'application/xml' })
        .end('<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>');
    await expect(readSource('s3://configs/nope.yaml', '/')).rejects.toMatchObject({
      message: expect.stringMatching(/^Cannot read s3:\/\/configs\/nope\.yaml: .*key does not exist/),
      hint: expect.stringMatching(/AWS_REGION/),
    });
    await expect(readSource('s3://configs', '/')).rejects.toMatchObject({ code: 'bad_location' });
  });
});

function redirectOnce(redirect: Answer): Answer {
  return (request, response) => {
    if (request.url === '/other') response.end(FILE);
    else redirect(request, response);
  };
}

function stubAws(endpoint: string): void {
  vi.stubEnv('AWS_ENDPOINT_URL', endpoint);
  vi.stubEnv('AWS_REGION', 'eu-test-1');
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIATEST');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret');
}

test('a location is remote by its scheme', () => {
  expect(
    ['s3://b/k', 'https://h/x', 'HTTP://h/x', 'svc.yaml', './https:/x', undefined].map(isRemote),
  ).toEqual([true, true, true, false, false, false]);
});

describe('variables', () => {
  test('.<mode>.env takes precedence over .env, the shell over both, and the process is not changed', () => {
    const home = join(directory, 'env');
    mkdirSync(home);
    writeFileSync(join(home, '.env'), 'A=env\nB=env\nC="two\nlines"\n# D=no\nexport E=e\n');
    writeFileSync(join(home, '.development.env'), 'B=mode\nF=mode\n');
    const shell = { F: 'shell', G: undefined };
    const variables = readModeVariables(home, 'development', shell);
    expect(variables).toEqual({ A: 'env', B: 'mode', C: 'two\nlines', E: 'e', F: 'shell' });
    expect(process.env['A']).toBeUndefined();
    expect(readModeVariables(undefined, 'production', { X: '1' })).toEqual({ X: '1' });
    expect(readModeVariables(join(home, 'nowhere'), 'production', {})).toEqual({});
  });
});
