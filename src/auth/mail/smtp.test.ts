import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { describe, expect, test } from 'vitest';
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
])('%j is not a mail server, and its error does not quote it', async (url) => {
  expect(readSmtpUrl(url)).toBeUndefined();
  const mail = { kind: 'recovery', to: 'a@b.co', subject: 's', text: 't' } as const;
  const sent = smtpTransport(url).send({ idempotencyKey: 'k', from: 'a@b.co', mail });
  const error = await sent.catch((cause: unknown) => cause);
  expect(error).toMatchObject({ outcome: 'rejected' });
  expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('canary');
});

describe('a connection that the server closes', () => {
  /** Starts a server that answers each command and closes the connection at `closeAt`. */
  async function serverThatCloses(closeAt: string): Promise<Server> {
    const server = createServer((socket) => {
      let isData = false;
      let text = '';
      socket.on('error', () => {});
      socket.write('220 test\r\n');
      socket.on('data', (chunk: Buffer) => {
        text += chunk.toString();
        for (let end = text.indexOf('\r\n'); end >= 0; end = text.indexOf('\r\n')) {
          const line = text.slice(0, end);
          text = text.slice(end + 2);
          if (isData ? line === '.' && closeAt === '.' : line.startsWith(closeAt)) {
            socket.destroy();
            return;
          }
          if (isData) isData = line !== '.';
          else if (line === 'DATA') isData = true;
          if (line === 'DATA') socket.write('354 go on\r\n');
          else if (!isData) socket.write('250 ok\r\n');
        }
      });
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return server;
  }

  test.each([
    ['MAIL', 'retry'],
    ['RCPT', 'retry'],
    ['DATA', 'retry'],
    ['.', 'uncertain'],
  ])('at %s: %s', async (closeAt, outcome) => {
    const server = await serverThatCloses(closeAt);
    const transport = smtpTransport(`smtp://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const mail = { kind: 'recovery', to: 'a@example.com', subject: 's', text: 't' } as const;
    try {
      const sent = transport.send({ idempotencyKey: 'k', from: 'b@example.com', mail });
      await expect(sent).rejects.toMatchObject({ outcome });
    } finally {
      transport.close();
      server.close();
    }
  });
});
