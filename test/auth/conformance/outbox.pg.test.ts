// The mail outbox with providers that use their real protocols: an HTTP API, an SMTP server, Amazon SES.
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';
import { afterEach, describe, expect, test } from 'vitest';
import { Outbox } from '../../../src/auth/mail/outbox.ts';
import type { MailSettings } from '../../../src/auth/settings.ts';
import { silentLog } from '../../../src/log/log.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { collectLog } from '../../support/collect-log.ts';
import { startAuth, type AuthWorld, type AuthWorldOptions } from '../../support/auth-world.ts';
import { scaled } from '../../support/run/scaled.ts';

const open: Array<() => Promise<unknown>> = [];
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close();
});

type Seen = { headers: IncomingMessage['headers']; url: string; body: string };

/** An HTTP API that responds with `answer` and records its requests. */
async function anApi(
  answer: (seen: Seen, nth: number) => { status: number; body?: unknown } | 'hang up',
): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server: Server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      const entry = { headers: request.headers, url: request.url ?? '', body };
      seen.push(entry);
      const reply = answer(entry, seen.length);
      if (reply === 'hang up') request.socket.destroy();
      else
        response
          .writeHead(reply.status, { 'content-type': 'application/json' })
          .end(JSON.stringify(reply.body ?? {}));
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  open.push(() => new Promise((resolve) => server.close(resolve)));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

async function aWorld(options: AuthWorldOptions): Promise<AuthWorld> {
  const world = await startAuth(options);
  open.push(() => world.close());
  return world;
}

const resend = (env: Record<string, string>): AuthWorldOptions => ({
  env,
  mail: {
    type: 'resend',
    apiKey: 're_key',
    defaultFromEmail: 'App <app@example.com>',
    url: undefined,
    region: undefined,
  },
});

async function until<T>(read: () => Promise<T>, holds: (value: T) => boolean): Promise<T> {
  const deadline = Date.now() + scaled(10_000);
  for (;;) {
    const value = await read();
    if (holds(value)) return value;
    if (Date.now() > deadline) throw new Error(`still ${JSON.stringify(value)}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const state = (world: AuthWorld) => async () => {
  const [row] = await world.query<{
    state: string;
    attempts: number;
    content: Buffer | null;
    message_id: string | null;
    last_error: string | null;
  }>(sql`select state, attempts, content, message_id, last_error from auth.mail_outbox`);
  return row;
};
const settled = (world: AuthWorld, wanted: string) => until(state(world), (row) => row?.state === wanted);

describe('Resend', () => {
  test('a mail is sent with link, code and an idempotency key, and its content is deleted', async () => {
    const api = await anApi(() => ({ status: 200, body: { id: 'm1' } }));
    const world = await aWorld(resend({ SVC_RESEND_BASE_URL: api.url }));
    await world.call('POST', '/otp', { body: { email: 'a@example.com' } });
    expect(await settled(world, 'sent')).toMatchObject({ attempts: 1, content: null, message_id: 'm1' });
    const [sent] = api.seen;
    expect(sent).toMatchObject({
      url: '/emails',
      headers: { authorization: 'Bearer re_key', 'idempotency-key': expect.any(String) },
    });
    const mail = JSON.parse(sent?.body ?? '{}');
    expect(mail).toMatchObject({
      from: 'App <app@example.com>',
      to: ['a@example.com'],
      subject: expect.any(String),
    });
    expect(mail.html).toContain('/auth/v1/verify?token=');
    expect(mail.text).toMatch(/\b\d{6}\b/);
  });

  test('a failure and a lost response are retried with the same key', async () => {
    const api = await anApi((_seen, nth) =>
      nth === 1 ? { status: 500 } : nth === 2 ? 'hang up' : { status: 200, body: { id: 'm' } },
    );
    const world = await aWorld(resend({ SVC_RESEND_BASE_URL: api.url }));
    await world.call('POST', '/otp', { body: { email: 'a@example.com' } });
    for (const attempts of [1, 2]) {
      const row = await until(state(world), (row) => row?.state === 'pending' && row.attempts === attempts);
      expect(row?.last_error).toContain('Resend');
      world.ahead += 60_000;
      await world.call('POST', '/recover', { body: { email: 'nobody@example.com' } });
    }
    await settled(world, 'sent');
    expect(new Set(api.seen.map((request) => request.headers['idempotency-key'])).size).toBe(1);
    expect(api.seen).toHaveLength(3);
  });

  test('a rejection is final and visible, and the request succeeds', async () => {
    const api = await anApi(() => ({ status: 422, body: { message: 'The domain is not verified' } }));
    const world = await aWorld(resend({ SVC_RESEND_BASE_URL: api.url }));
    expect((await world.call('POST', '/otp', { body: { email: 'a@example.com' } })).text).toBe('{}');
    expect((await settled(world, 'failed'))?.last_error).toContain('The domain is not verified');
    const listed = await world.call('GET', '/admin/mails', { apikey: world.keys.secret });
    expect(listed.json.mails[0]).toMatchObject({ state: 'failed', to: 'a@example.com' });
    expect(listed.json.mails[0]).not.toHaveProperty('html');
  });

  test('a mail that cannot be sent before its link expires fails', async () => {
    const world = await aWorld(resend({ SVC_RESEND_BASE_URL: 'http://127.0.0.1:1' }));
    await world.call('POST', '/otp', { body: { email: 'a@example.com' } });
    await until(state(world), (row) => row?.state === 'pending' && row.attempts === 1);
    world.ahead += 3_700_000;
    await world.call('POST', '/recover', { body: { email: 'nobody@example.com' } });
    expect((await settled(world, 'failed'))?.last_error).toContain('expired');
  });

  test('two instances do not send one mail twice', async () => {
    const api = await anApi(() => ({ status: 200, body: { id: 'm' } }));
    const world = await aWorld({ ...resend({}), mail: 'catch' });
    const settings: MailSettings = { type: 'resend', apiKey: 'k', from: 'a@b.co', baseUrl: api.url };
    const make = () =>
      new Outbox({
        db: world.owner,
        box: world.keyring.box('mail'),
        settings: () => settings,
        now: () => world.now(),
        log: silentLog,
      });
    const boxes = [make(), make(), make()];
    for (let i = 0; i < 20; i++) {
      await boxes[0]!.enqueue(
        world.owner,
        { kind: 'recovery', to: `t${i}@example.com`, subject: 's', text: 't' },
        null,
        world.now(),
      );
    }
    await Promise.all(
      boxes.map(async (box) => {
        while ((await box.deliverDue()) > 0);
      }),
    );
    expect(api.seen).toHaveLength(20);
    for (const box of boxes) await box.close();
  });
});

test('a mail of a copied database is captured where its recipient is not one to send to', async () => {
  const api = await anApi(() => ({ status: 200, body: { id: 'm' } }));
  const world = await aWorld({ mail: 'catch' });
  const provider = { type: 'resend', apiKey: 'k', from: 'a@b.co', baseUrl: api.url } as const;
  let settings: MailSettings = provider;
  const outbox = new Outbox({
    db: world.owner,
    box: world.keyring.box('mail'),
    settings: () => settings,
    now: () => world.now(),
    log: silentLog,
  });
  for (const to of ['me@example.com', 'customer@example.com']) {
    const mail = { kind: 'recovery', to, subject: 's', text: 't' } as const;
    await outbox.enqueue(world.owner, mail, null, world.now());
  }
  settings = { ...provider, onlyTo: ['me@example.com'] };
  await outbox.deliverDue();
  expect(api.seen.map(({ body }) => (JSON.parse(body) as { to: unknown }).to)).toEqual([['me@example.com']]);
  const [mail] = await world.mails('customer@example.com');
  expect(mail).toMatchObject({ state: 'caught', text: 't' });
  await outbox.close();
});

test('a captured mail is logged once its transaction has committed', async () => {
  const { log, lines } = collectLog();
  const world = await aWorld({ mail: 'catch', log });
  const outbox = new Outbox({
    db: world.owner,
    box: world.keyring.box('mail'),
    settings: () => ({ type: 'catch', from: 'a@b.co' }),
    now: () => world.now(),
    log,
  });
  const order = (to: string) => ({ kind: 'recovery', to, subject: 's', text: 't', code: '123456' }) as const;
  const failing = world.owner.transaction(async (db) => {
    await outbox.enqueue(db, order('lost@example.com'), null, world.now());
    throw new Error('rolled back');
  });
  await expect(failing).rejects.toThrow('rolled back');
  await outbox.enqueue(world.owner, order('kept@example.com'), null, world.now());
  for (let round = 0; round < 2; round++) {
    outbox.wake();
    await outbox.settled();
  }
  const captured = lines().filter(({ msg }) => String(msg).startsWith('mail captured'));
  expect(captured).toMatchObject([{ kind: 'recovery', to: 'kept@example.com', code: '123456' }]);
  await outbox.close();
});

test('an outbox that is woken before the file is loaded waits for it', async () => {
  const world = await aWorld({ mail: 'catch' });
  let settings: (() => MailSettings | undefined) | undefined;
  const outbox = new Outbox({
    db: world.owner,
    box: world.keyring.box('mail'),
    settings: () => {
      if (!settings) throw new Error('nothing is loaded');
      return settings();
    },
    now: () => world.now(),
    log: silentLog,
  });
  // Does what the timer does during a long first migration.
  outbox.wake();
  await outbox.settled();
  const api = await anApi(() => ({ status: 200, body: { id: 'm' } }));
  settings = () => ({ type: 'resend', apiKey: 'k', from: 'a@b.co', baseUrl: api.url });
  await outbox.enqueue(
    world.owner,
    { kind: 'recovery', to: 't@example.com', subject: 's', text: 't' },
    null,
    world.now(),
  );
  outbox.wake();
  await outbox.settled();
  expect(api.seen).toHaveLength(1);
  await outbox.close();
});

describe('SMTP', () => {
  async function aServer(
    onData: (message: string) => Error | undefined,
  ): Promise<{ url: string; messages: string[]; users: string[] }> {
    const messages: string[] = [];
    const users: string[] = [];
    const server = new SMTPServer({
      authOptional: true,
      disabledCommands: ['STARTTLS'],
      onAuth: ({ username }, _session, done) => {
        users.push(username ?? '');
        done(null, { user: 'u' });
      },
      onData(stream, _session, done) {
        let message = '';
        stream.on('data', (chunk: Buffer) => {
          message += chunk.toString();
        });
        stream.on('end', () => {
          messages.push(message);
          done(onData(message) ?? null);
        });
      },
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    open.push(() => new Promise((resolve) => server.close(() => resolve(undefined))));
    return { url: `smtp://127.0.0.1:${(server.server.address() as AddressInfo).port}`, messages, users };
  }
  const smtp = (url: string): AuthWorldOptions => ({
    mail: { type: 'smtp', apiKey: undefined, defaultFromEmail: 'app@example.com', url, region: undefined },
  });

  test('a mail arrives with both parts and clean headers', async () => {
    const server = await aServer(() => undefined);
    const world = await aWorld(smtp(server.url));
    await world.call('POST', '/otp', { body: { email: 'a@example.com' } });
    await settled(world, 'sent');
    const [message = ''] = server.messages;
    expect(message).toMatch(/^From: app@example\.com/m);
    expect(message).toMatch(/^To: a@example\.com/m);
    expect(message).toContain('multipart/alternative');
    expect(message).toMatch(/^Auto-Submitted: auto-generated/m);
  });

  test('4xx is tried again, 5xx is not', async () => {
    const busy = Object.assign(new Error('busy'), { responseCode: 451 });
    const server = await aServer((message) => (server.messages.length > 1 || !message ? undefined : busy));
    const world = await aWorld(smtp(server.url));
    await world.call('POST', '/otp', { body: { email: 'a@example.com' } });
    await until(state(world), (row) => row?.state === 'pending' && row.attempts === 1);
    world.ahead += 10_000;
    await world.call('POST', '/recover', { body: { email: 'nobody@example.com' } });
    await settled(world, 'sent');
    const refusing = await aServer(() => Object.assign(new Error('no'), { responseCode: 550 }));
    const second = await aWorld(smtp(refusing.url));
    await second.call('POST', '/otp', { body: { email: 'a@example.com' } });
    await settled(second, 'failed');
    expect(refusing.messages).toHaveLength(1);
  });

  test('a server without TLS receives neither password nor mail if TLS is required', async () => {
    const server = await aServer(() => undefined);
    const url = `${server.url.replace('smtp://', 'smtp://me:canary@')}?requireTLS=true`;
    const world = await aWorld(smtp(url));
    await world.call('POST', '/otp', { body: { email: 'a@example.com' } });
    await until(state(world), (row) => row?.attempts === 1 && row.state !== 'sending');
    expect(server.messages).toHaveLength(0);
    expect(server.users).toEqual([]);
    const [mail] = await world.query<{ last_error: string }>(sql`select last_error from auth.mail_outbox`);
    expect(mail?.last_error).toMatch(/TLS/);
    expect(mail?.last_error).not.toContain('canary');
  });

  test('a process that dies while sending leaves an uncertain mail, not a second one', async () => {
    const server = await aServer(() => undefined);
    const world = await aWorld(smtp(server.url));
    await world.query(sql`
      insert into auth.mail_outbox (kind, recipient, subject, content, state, attempts, lease_until, transport)
      values ('recovery', 'a@example.com', 's', 'x', 'sending', 1, now() - interval '1 minute', 'smtp')`);
    await world.call('POST', '/recover', { body: { email: 'nobody@example.com' } });
    await settled(world, 'uncertain');
    expect(server.messages).toHaveLength(0);
  });
});

test('SES gets a raw message at the address the environment names', async () => {
  const api = await anApi(() => ({ status: 200, body: { MessageId: 'ses-1' } }));
  const world = await aWorld({
    env: { SVC_SES_ENDPOINT: api.url },
    mail: {
      type: 'ses',
      apiKey: 'AKIATEST:secret',
      defaultFromEmail: 'app@example.com',
      url: undefined,
      region: 'eu-central-1',
    },
  });
  await world.call('POST', '/otp', { body: { email: 'a@example.com' } });
  expect(await settled(world, 'sent')).toMatchObject({ message_id: 'ses-1' });
  const [sent] = api.seen;
  expect(sent?.url).toBe('/v2/email/outbound-emails');
  expect(sent?.headers.authorization).toContain('AKIATEST/');
  const body = JSON.parse(sent?.body ?? '{}');
  expect(body.Destination.ToAddresses).toEqual(['a@example.com']);
  expect(Buffer.from(body.Content.Raw.Data, 'base64').toString()).toContain('To: a@example.com');
});

test('templates of the file are filled, escaped, and keep headers whole', async () => {
  const world = await aWorld({
    auth: {
      email: {
        verifyEmail: false,
        templates: [
          {
            name: 'magiclink',
            subject: 'Hello {{ .Data.name }}',
            body:
              '<p>{{ if .Data.name }}Hi {{ .Data.name }}{{ else }}Hi{{ end }}: ' +
              '<a href="{{ .ConfirmationURL }}">go</a> {{.Token}} {{ .Nothing }}</p>',
            position: { line: 1, column: 1 },
          },
        ],
      },
    },
  });
  const name = '<script>alert(1)</script>\r\nBcc: evil@example.com';
  await world.call('POST', '/otp', { body: { email: 'a@example.com', data: { name } } });
  const [mail] = await world.mails('a@example.com');
  expect(mail?.subject).toBe('Hello <script>alert(1)</script> Bcc: evil@example.com');
  expect(mail?.subject).not.toMatch(/[\r\n]/);
  expect(mail?.html).toContain('Hi &lt;script&gt;');
  expect(mail?.html).not.toContain('<script>');
  expect(mail?.html).toMatch(/href="http:\/\/127[^"]*&amp;type=magiclink/);
});

test("the language of a mail is the user's own", async () => {
  const world = await aWorld({});
  await world.call('POST', '/otp', { body: { email: 'a@example.com', data: { locale: 'de-AT' } } });
  expect((await world.mails('a@example.com'))[0]?.subject).toBe('Dein Anmeldelink');
});
