// Which address counts as the client behind a reverse proxy: in rate limits, in stored sign-ins, in code functions and
// in the log. The clients use different loopback addresses, of which Linux has 2^24.
import { request as httpRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { collectLog } from '../support/collect-log.ts';
import {
  startHaproxy,
  startSmallProxy,
  withoutHaproxy,
  type ForwardingProxy,
} from '../support/network/forwarding-proxy.ts';

const FILE = `
version: 1
auth: { allow_anonymous: true }
functions:
  whoami: { runtime: node, file: functions/whoami.js }
`;
const FILES = {
  'functions/package.json': '{"type":"module"}',
  'functions/whoami.js': 'export default async (_req, ctx) => ({ body: { address: ctx.clientAddress } });',
};

type Answer = { readonly status: number; readonly json: Record<string, unknown> };
type Sent = { readonly body?: object; readonly headers?: Readonly<Record<string, string>> };

function call(url: string, key: string, from: string, path: string, sent: Sent = {}): Promise<Answer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        host: hostname,
        port,
        path,
        method: sent.body ? 'POST' : 'GET',
        localAddress: from,
        headers: { apikey: key, 'content-type': 'application/json', ...sent.headers },
      },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            json: JSON.parse(text || '{}') as Record<string, unknown>,
          }),
        );
      },
    );
    request.on('error', reject).end(sent.body && JSON.stringify(sent.body));
  });
}

const signIn = (email: string, password: string): Sent => ({ body: { email, password } });
const PASSWORD_GRANT = '/auth/v1/token?grant_type=password';
const SIGN_UP = '/auth/v1/signup';

async function tally(answers: ReadonlyArray<Promise<Answer>>): Promise<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (const { status } of await Promise.all(answers)) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

describe.runIf(process.platform === 'linux').each([
  ['a small proxy', startSmallProxy, undefined],
  ['HAProxy', startHaproxy, withoutHaproxy],
] as const)('behind %s that is trusted', (_name, startProxy, why) => {
  const { log, lines } = collectLog();
  let world: BackendWorld;
  let proxy: ForwardingProxy;
  const through = (from: string, path: string, sent?: Sent): Promise<Answer> =>
    call(proxy.url, world.keys.publishable, from, path, sent);

  beforeAll(async () => {
    if (why !== undefined) return;
    // Not all of loopback, because the clients also use loopback addresses.
    const yaml = `${FILE}server: { trusted_proxies: [127.0.0.1] }\n`;
    world = await startBackendWorld(yaml, { files: FILES, log });
    proxy = await startProxy(world.url);
  });
  afterAll(async () => {
    await proxy?.stop();
    await world?.close();
  });

  test.skipIf(why !== undefined)(
    `sixteen addresses are sixteen clients${why ? `: ${why}` : ''}`,
    async () => {
      const from16 = Array.from({ length: 64 }, (_, i) =>
        through(`127.0.0.${(i % 16) + 10}`, SIGN_UP, { body: {} }),
      );
      expect(await tally(from16)).toEqual({ 200: 64 });
      const fromOne = Array.from({ length: 40 }, () => through('127.0.0.40', SIGN_UP, { body: {} }));
      expect(await tally(fromOne)).toEqual({ 200: 30, 429: 10 });
      const sessions = await world.owner.query<{ ip: string; n: number }>(
        sql`select host(ip) as ip, count(*)::int as n from auth.sessions
          where host(ip) in ('127.0.0.1', '127.0.0.10', '127.0.0.40') group by 1 order by 1`,
      );
      expect(sessions).toEqual([
        { ip: '127.0.0.10', n: 4 },
        { ip: '127.0.0.40', n: 30 },
      ]);
    },
  );

  test.skipIf(why !== undefined)(
    'a guessing client is stopped, and other clients are not locked out',
    async () => {
      const account = { email: 'victim@example.com', password: 'correct horse battery' };
      expect((await through('127.0.0.50', SIGN_UP, { body: account })).status).toBe(200);
      const guesses = Array.from({ length: 150 }, (_, i) =>
        through('127.0.0.51', PASSWORD_GRANT, signIn(account.email, `guess ${i}`)),
      );
      expect(await tally(guesses)).toEqual({ 400: 10, 429: 140 });
      const owner = await through('127.0.0.50', PASSWORD_GRANT, { body: account });
      expect(owner.status).toBe(200);
      const made = sql`select distinct ip_address as ip from auth.audit_log_entries
        where payload->>'action' = 'login_failed'`;
      expect(await world.owner.query(made)).toEqual([{ ip: '127.0.0.51' }]);
    },
  );

  test.skipIf(why !== undefined)('an address that the client makes up changes nothing', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.66', forwarded: 'for=203.0.113.67' };
    const made = await through('127.0.0.60', '/functions/v1/whoami', { headers });
    expect(made.json).toEqual({ address: '127.0.0.60' });
    expect(lines().filter(({ url }) => url === '/functions/v1/whoami')).toMatchObject([
      { client: '127.0.0.60' },
    ]);
  });
});

describe('with no proxy that is trusted', () => {
  const { log, lines } = collectLog();
  let world: BackendWorld;
  const here = (path: string, sent?: Sent): Promise<Answer> =>
    call(world.url, world.keys.publishable, '127.0.0.1', path, sent);

  beforeAll(async () => {
    world = await startBackendWorld(FILE, { files: FILES, log });
  });
  afterAll(async () => await world.close());

  test('a program of this machine is not counted by address, but its guesses are', async () => {
    const signUps = Array.from({ length: 35 }, () => here(SIGN_UP, { body: {} }));
    expect(await tally(signUps)).toEqual({ 200: 35 });
    const statuses: number[] = [];
    for (let i = 0; i < 11; i++)
      statuses.push((await here(PASSWORD_GRANT, signIn('someone@example.com', `guess ${i}`))).status);
    expect(statuses).toEqual([...Array<number>(10).fill(400), 429]);
  });

  test('an untrusted proxy counts as one client and is logged once with a hint', async () => {
    const headers = (i: number) => ({ 'x-forwarded-for': `203.0.113.${i}` });
    const signUps = Array.from({ length: 35 }, (_, i) => here(SIGN_UP, { body: {}, headers: headers(i) }));
    expect(await tally(signUps)).toEqual({ 200: 30, 429: 5 });
    expect((await here('/functions/v1/whoami', { headers: headers(1) })).json).toEqual({
      address: '127.0.0.1',
    });
    const told = lines().filter(({ level }) => level === 'warn');
    expect(told).toMatchObject([{ peer: '127.0.0.1', add: 'server: { trusted_proxies: ["127.0.0.1"] }' }]);
  });
});
