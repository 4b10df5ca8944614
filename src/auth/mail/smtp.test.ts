import { expect, test } from 'vitest';
import { readSmtpUrl, smtpTransport } from './smtp.ts';

test.each([
  ['smtp://me:pw@mail.example.com', { host: 'mail.example.com', port: 587, secure: false, requireTLS: true }],
  ['smtp://me:pw@mail.example.com:25?requireTLS=false', { port: 25, requireTLS: false }],
  ['smtp://mail.example.com', { requireTLS: false }],
  ['smtp://mail.example.com?requireTLS=true', { requireTLS: true }],
  ['smtp://me:pw@127.0.0.1:1025', { port: 1025, requireTLS: false }],
  ['smtp://me:pw@[::1]:1025', { host: '::1', requireTLS: false }],
  ['smtp://me:pw@localhost', { requireTLS: false }],
  ['smtps://me:p%2Fw@mail.example.com', { port: 465, secure: true, auth: { user: 'me', pass: 'p/w' } }],
])('%s', (url, expected) => {
  expect(readSmtpUrl(url)).toMatchObject(expected);
});

test.each([
  '',
  'mail.example.com:587',
  'https://mail.example.com',
  'smtp://me:a/canary@host',
  'smtp://me:%canary@host',
])('%j is no mail server, and its failure repeats nothing of it', async (url) => {
  expect(readSmtpUrl(url)).toBeUndefined();
  const mail = { kind: 'recovery', to: 'a@b.co', subject: 's', text: 't' } as const;
  const sent = smtpTransport(url).send({ idempotencyKey: 'k', from: 'a@b.co', mail });
  const error = await sent.catch((cause: unknown) => cause);
  expect(error).toMatchObject({ outcome: 'rejected' });
  expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('canary');
});
