// A mailed link must contain our own host, whatever hosts the request contains.
import { request } from 'node:http';
import { afterAll, expect, test } from 'vitest';
import { mailSecrets, startAuth, type AuthWorld } from '../../support/auth-world.ts';

const worlds: AuthWorld[] = [];
afterAll(async () => {
  for (const world of worlds) await world.close();
});

async function mailWith(world: AuthWorld, email: string, headers: Record<string, string>): Promise<URL> {
  await new Promise<void>((resolve, reject) => {
    const body = JSON.stringify({ email });
    const sent = request(
      `${world.url}/auth/v1/recover`,
      {
        method: 'POST',
        headers: { apikey: world.keys.publishable, 'content-type': 'application/json', ...headers },
      },
      (response) => response.resume().on('end', resolve),
    );
    sent.on('error', reject).end(body);
  });
  const [mail] = await world.mails(email);
  return mailSecrets(mail!).link;
}

const FORGED: ReadonlyArray<Record<string, string>> = [
  { host: 'evil.example' },
  { host: 'localhost.evil.example' },
  { host: '127.0.0.1:1@evil.example' },
  { host: 'localhost:8080.evil.example' },
  { 'x-forwarded-host': 'evil.example' },
  { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'evil.example', 'x-forwarded-prefix': '/x' },
  { forwarded: 'host=evil.example;proto=https' },
  { 'x-original-host': 'evil.example' },
  { referer: 'https://evil.example/', origin: 'https://evil.example' },
];

test.each([
  ['configured', 'https://api.example'],
  ['local', undefined],
])('%s base URL', async (_kind, baseUrl) => {
  const world = await startAuth({ baseUrl });
  worlds.push(world);
  for (const [index, headers] of FORGED.entries()) {
    const email = `host${index}@example.com`;
    await world.call('POST', '/signup', { body: { email, password: 'correct horse' } });
    const link = await mailWith(world, email, headers);
    expect(link.href).not.toContain('evil');
    expect(link.origin).toBe(baseUrl ?? `http://${link.hostname}:${new URL(world.url).port}`);
    expect(['api.example', 'localhost', '127.0.0.1']).toContain(link.hostname);
  }
});

test('a redirect target from a header or the referrer must be on the list', async () => {
  const world = await startAuth({ auth: { redirectUrls: ['https://app.example'] } });
  worlds.push(world);
  await world.call('POST', '/signup', { body: { email: 'r@example.com', password: 'correct horse' } });
  const link = await mailWith(world, 'r@example.com', {
    redirect_to: 'https://evil.example/',
    referer: 'https://evil.example/',
  });
  expect(link.searchParams.get('redirect_to')).toBe('https://app.example');
});
