// Files share an origin with the API: a browser must not run any uploaded file.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { call } from '../conformance/http.ts';
import { aBucket, createWorld, OWN, type World } from '../conformance/world.ts';

let world: World;
beforeAll(async () => {
  world = await createWorld({
    buckets: [
      aBucket('any', { public: true, rls: [OWN] }),
      aBucket('pictures', { public: true, rls: [OWN], types: ['image/png', 'image/jpeg', 'image/gif'] }),
    ],
  });
});
afterAll(() => world?.stop());

const SCRIPT = '<script>alert(document.domain)</script>';
const GIF_PAGE = Buffer.concat([Buffer.from('GIF89a/*'), Buffer.from(`*/=1;${SCRIPT}`)]);
/** A browser runs none of these types with nosniff. */
const HARMLESS = /^(text\/plain|application\/octet-stream|image\/(png|gif|jpeg)|font\/|video\/|audio\/)/;

test.each([
  ['text/html', SCRIPT],
  ['TEXT/HTML; charset=utf-8', SCRIPT],
  ['text/html;image/png', SCRIPT],
  ['application/xhtml+xml', `<html xmlns="http://www.w3.org/1999/xhtml">${SCRIPT}</html>`],
  ['image/svg+xml', `<svg xmlns="http://www.w3.org/2000/svg">${SCRIPT}</svg>`],
  [
    'application/xml',
    `<?xml version="1.0"?><x:script xmlns:x="http://www.w3.org/1999/xhtml">alert(1)</x:script>`,
  ],
  ['text/xml', '<a/>'],
  ['application/rss+xml', '<rss/>'],
  ['application/pdf', '%PDF-1.4'],
  ['application/javascript', 'alert(1)'],
  ['text/javascript', 'alert(1)'],
  ['multipart/related; boundary=x', SCRIPT],
  ['message/rfc822', SCRIPT],
  ['application/x-shockwave-flash', 'FWS'],
  ['image/png', SCRIPT],
  ['image/gif', GIF_PAGE],
  ['text/plain', SCRIPT],
  ['application/octet-stream', SCRIPT],
])('%s', async (type, body) => {
  const name = randomUUID();
  const uploaded = await call('POST', `${world.url}/object/any/${name}`, {
    headers: { ...world.alice.headers, 'content-type': type },
    body,
  });
  if (uploaded.status !== 200) {
    expect(uploaded.json.statusCode).toBe('415');
    return;
  }
  const signed = await call('POST', `${world.url}/object/sign/any/${name}`, {
    headers: world.alice.headers,
    body: { expiresIn: 60 },
  });
  for (const [url, headers] of [
    [`${world.url}/object/public/any/${name}`, {}],
    [`${world.url}/object/any/${name}`, world.alice.headers],
    [`${world.url}${signed.json.signedURL}`, {}],
    [`${world.url}/object/public/any/${name}?download=a"b.html%0d%0aX-Injected: 1`, {}],
  ] as const) {
    const answer = await call('GET', url, { headers });
    const served = answer.headers.get('content-type') ?? '';
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    const sandboxed = answer.headers.get('content-security-policy')?.includes('sandbox') ?? false;
    expect(sandboxed || HARMLESS.test(served), `${served} is neither harmless nor in a sandbox`).toBe(true);
    expect(served.toLowerCase()).not.toContain('html');
    expect(answer.headers.get('x-injected')).toBeNull();
    expect(answer.headers.get('content-disposition') ?? '').not.toMatch(/["\r\n]/);
  }
});

test.each([
  ['image/png', SCRIPT],
  ['image/png', `\ufeff  <!DOCTYPE html>${SCRIPT}`],
  ['image/jpeg', `<?xml version="1.0"?><!-- c --><svg>${SCRIPT}</svg>`],
  ['image/gif', '%PDF-1.7\n%âãÏÓ\n'],
  ['image/png', '<marquee onstart=alert(1)>'],
])('a bucket of pictures rejects %s with different content', async (type, body) => {
  for (const send of ['raw', 'form'] as const) {
    const form = new FormData();
    form.append('', new Blob([body], { type }), 'x.png');
    const answer = await call('POST', `${world.url}/object/pictures/${randomUUID()}`, {
      headers: { ...world.alice.headers, ...(send === 'raw' ? { 'content-type': type } : {}) },
      body: send === 'raw' ? body : form,
    });
    expect([answer.status, answer.json.statusCode]).toEqual([400, '415']);
  }
});

test.each(['copy', 'move'])('also after a %s', async (way) => {
  const name = randomUUID();
  const uploaded = await call('POST', `${world.url}/object/any/${name}`, {
    headers: { ...world.alice.headers, 'content-type': 'image/png' },
    body: SCRIPT,
  });
  expect(uploaded.status).toBe(200);
  const order = { bucketId: 'any', sourceKey: name, destinationBucket: 'pictures', destinationKey: name };
  const answer = await call('POST', `${world.url}/object/${way}`, {
    headers: world.alice.headers,
    body: order,
  });
  expect([answer.status, answer.json.statusCode]).toEqual([400, '415']);
  for (const mimetype of ['nonsense', 'text/html\r\nX-Injected: 1', '']) {
    const renamed = await call('POST', `${world.url}/object/copy`, {
      headers: world.alice.headers,
      body: {
        ...order,
        destinationBucket: 'any',
        destinationKey: `${name}-2`,
        copyMetadata: false,
        metadata: { mimetype },
      },
    });
    expect([renamed.status, renamed.json.statusCode], mimetype).toEqual([400, '415']);
  }
});

test('rejects header values that would break the response', async () => {
  for (const [field, value] of [
    ['cacheControl', '60\r\nX-Injected: 1'],
    ['contentType', 'text/plain\r\nX-Injected: 1'],
    ['contentEncoding', 'gzip\nX: 1'],
  ] as const) {
    const form = new FormData();
    form.append(field, value);
    form.append('', new Blob(['x']), 'x');
    const answer = await call('POST', `${world.url}/object/any/${randomUUID()}`, {
      headers: world.alice.headers,
      body: form,
    });
    expect(answer.status, field).toBe(400);
  }
});

test('invalid values written by SQL still produce a response', async () => {
  const name = randomUUID();
  await call('POST', `${world.url}/object/any/${name}`, { headers: world.alice.headers, body: 'x' });
  await world.owner.query(sql`
    update storage.objects set metadata = metadata || ${JSON.stringify({
      mimetype: 'text/html\r\nX-Injected: 1',
      cacheControl: 'a\nb',
      eTag: '"x\ny"',
      xRobotsTag: 'a\nb',
      contentEncoding: 'a\nb',
    })}::jsonb where name = ${name}`);
  const answer = await call('GET', `${world.url}/object/public/any/${name}`);
  expect(answer.headers.get('x-injected')).toBeNull();
  expect([200, 500]).toContain(answer.status);
  expect(answer.status).toBe(200);
  expect(answer.headers.get('content-type')).toBe('application/octet-stream');
});
