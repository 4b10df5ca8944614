// Mail under `svc dev`: captured by default, sent with --send-mail. `svc mail test` sends through the
// provider.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { createDatabase } from '../support/database.ts';
import { runSvc, startSvc } from '../support/svc-process.ts';

const YAML = `version: 1
auth: { email: {} }
providers: { email: { type: resend, api_key: "\${MAIL_KEY}", default_from_email: App <app@example.com> } }
`;

let provider: Server;
let answer = { status: 200, body: { id: 'message-1' } as Record<string, unknown> };
const received: Array<{ readonly to: string; readonly key: string | undefined }> = [];
let directory: string;
let config: string;
let database: Awaited<ReturnType<typeof createDatabase>>;
let env: Record<string, string>;

beforeAll(async () => {
  provider = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    request.on('end', () => {
      const { to } = JSON.parse(text) as { to: [string] };
      received.push({ to: to[0], key: request.headers.authorization });
      response.writeHead(answer.status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(answer.body));
    });
  });
  await new Promise<void>((resolve) => void provider.listen(0, '127.0.0.1', resolve));
  directory = mkdtempSync(join(tmpdir(), 'svc-dev-mail-'));
  config = join(directory, 'svc.yaml');
  writeFileSync(config, YAML);
  database = await createDatabase();
  const { port } = provider.address() as AddressInfo;
  env = {
    SVC_DATABASE_URL: database.url,
    SVC_RESEND_BASE_URL: `http://127.0.0.1:${port}`,
    SVC_LOG_FORMAT: 'json',
    MAIL_KEY: 're_key',
  };
});
beforeEach(() => {
  received.length = 0;
  answer = { status: 200, body: { id: 'message-1' } };
});
afterAll(async () => {
  provider.close();
  rmSync(directory, { recursive: true, force: true });
  await database.drop();
});

type Sent = { readonly to: string; readonly state: string };

/** Requests a code for each address, and returns the mails when all are settled. */
async function codesUnder(
  args: readonly string[],
  addresses: readonly string[],
  variables = env,
): Promise<{ mails: readonly Sent[]; output: string }> {
  const svc = await startSvc({ command: 'dev', config, arguments: args, env: variables });
  try {
    for (const email of addresses) {
      const headers = { apikey: svc.publishableKey, 'content-type': 'application/json' };
      const body = JSON.stringify({ email });
      expect((await fetch(`${svc.url}/auth/v1/otp`, { method: 'POST', headers, body })).status).toBe(200);
    }
    const list = async (): Promise<readonly Sent[]> => {
      const headers = { apikey: svc.secretKey };
      const lists = addresses.map(async (to) => {
        const response = await fetch(`${svc.url}/auth/v1/admin/mails?limit=1&to=${to}`, { headers });
        return ((await response.json()) as { mails: Sent[] }).mails;
      });
      return (await Promise.all(lists)).flat().map(({ to, state }) => ({ to, state }));
    };
    await expect
      .poll(async () => (await list()).filter(({ state }) => /pending|sending/.test(state)))
      .toEqual([]);
    const mails = await list();
    // A captured mail is logged after the transaction that records it.
    const captured = mails.filter(({ state }) => state === 'caught').length;
    await expect.poll(() => svc.output().split('mail captured').length - 1).toBe(captured);
    return { mails, output: svc.output() };
  } finally {
    await svc.stop();
  }
}

test('svc dev captures mail although a provider is configured, and logs the code and the link', async () => {
  const { mails, output } = await codesUnder([], ['ann@example.com']);
  expect(mails).toEqual([{ to: 'ann@example.com', state: 'caught' }]);
  expect(received).toEqual([]);
  const line = output.split('\n').find((text) => text.includes('mail captured')) ?? '{}';
  expect(JSON.parse(line)).toMatchObject({
    kind: expect.stringMatching(/^(?:magic_link|confirm)$/),
    to: 'ann@example.com',
    code: expect.stringMatching(/^\d{6}$/),
    link: expect.stringMatching(/\/auth\/v1\/verify\?token=\w+&type=/),
  });
});

test('svc dev starts without the variables of the provider, and captures mail', async () => {
  const { MAIL_KEY: _unset, ...others } = env;
  const { mails, output } = await codesUnder([], ['una@example.com'], others);
  expect(mails).toEqual([{ to: 'una@example.com', state: 'caught' }]);
  expect(output).toContain('the environment has no variable MAIL_KEY');
  const refused = await runSvc(['dev', '--config', config, '--send-mail'], { env: others });
  expect(refused.code).toBe(2);
  expect(refused.output).toContain('--send-mail needs providers.email');
});

test('svc dev --send-mail sends mail to everybody', async () => {
  const { mails } = await codesUnder(['--send-mail'], ['bob@example.com']);
  expect(mails).toEqual([{ to: 'bob@example.com', state: 'sent' }]);
  expect(received).toEqual([{ to: 'bob@example.com', key: 'Bearer re_key' }]);
});

test('svc dev --send-mail=… sends to these recipients and captures the rest', async () => {
  const { mails } = await codesUnder(
    ['--send-mail=me@example.com,@example.org'],
    ['me@example.com', 'cara@example.org', 'customer@example.com'],
  );
  expect(mails.map(({ state }) => state)).toEqual(['sent', 'sent', 'caught']);
  expect(received.map(({ to }) => to).toSorted()).toEqual(['cara@example.org', 'me@example.com']);
});

test('svc mail test sends one mail and prints the answer of the provider', async () => {
  const send = (address: string) => runSvc(['mail', 'test', address, '--config', config], { env });
  const sent = await send('Me@Example.com');
  expect([sent.code, sent.output]).toEqual([0, 'sent to me@example.com by resend: message-1\n']);
  expect(received).toEqual([{ to: 'me@example.com', key: 'Bearer re_key' }]);
  answer = { status: 403, body: { message: 'The domain is not verified' } };
  const refused = await send('me@example.com');
  expect(refused.code).toBe(1);
  expect(refused.output).toContain('Resend answered 403: The domain is not verified');
  expect((await send('nobody')).code).toBe(2);
  const { MAIL_KEY: _unset, ...others } = env;
  expect((await runSvc(['mail', 'test', 'a@example.com', '--config', config], { env: others })).code).toBe(
    78,
  );
});
