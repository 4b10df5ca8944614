// A database that is unavailable for a while, as in a failover: every API holds requests, and gives the same error when
// it cannot wait any longer.
import { inject, expect, test } from 'vitest';
import { RecentLines } from '../../../src/log/recent-lines.ts';
import { startBackendWorld } from '../../support/backend-world.ts';
import { startSilentProxy } from '../../support/network/silent-proxy.ts';

const YAML = `version: 1
project: { name: failover }
database: { failover_wait: 3s }
tables:
  notes:
    fields: [{ name: id, type: integer, primary_key: true }]
    rls: [{ operations: [select, insert], using: "true", with_check: "true" }]
storage: { open: { public: true } }
`;

type Call = readonly [path: string, body?: unknown, headers?: Readonly<Record<string, string>>];

test('while the server restarts, every API holds requests and serves them, or returns unavailable', async () => {
  const way = await startSilentProxy(inject('postgresUrl'));
  const world = await startBackendWorld(YAML, {
    through: (url) => way.through(url),
    jobsMayFail: ['storage cleanup', 'could not'],
    dashboard: { mode: 'readwrite', recentLines: new RecentLines() },
  });
  const call = async ([path, body, headers]: Call): Promise<Response> =>
    await fetch(`${world.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { apikey: world.keys.publishable, 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  const account = { email: 'a@example.com', password: 'a long password' };
  const key = { secret_key: world.keys.secret };
  const secret = { apikey: world.keys.secret, authorization: `Bearer ${world.keys.secret}` };
  let id = 1;
  const calls = (): readonly Call[] => [
    ['/rest/v1/notes'],
    ['/rest/v1/notes', { id: id++ }],
    ['/auth/v1/token?grant_type=password', account],
    ['/storage/v1/object/public/open/a.txt'],
    ['/dashboard/api/session', key, { origin: world.url }],
  ];
  try {
    expect((await call(['/auth/v1/signup', account])).status).toBe(200);
    const upload: Call = [
      '/storage/v1/object/open/a.txt',
      'hello',
      { ...secret, 'content-type': 'text/plain' },
    ];
    expect((await call(upload)).status).toBe(200);
    const good = await Promise.all(calls().map(call));
    const statuses = [200, 201, 200, 200, 200];
    expect(good.map(({ status }) => status)).toEqual(statuses);

    way.restart();
    // Data that is written to a connection before its end is noticed has an unknown outcome.
    await expect.poll(() => way.refusals).toBeGreaterThan(0);
    const held = calls().map(call);
    const before = way.refusals;
    await expect.poll(() => way.refusals).toBeGreaterThan(before + 8);
    way.recover();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual(statuses);
    expect((await fetch(`${world.url}/ready`)).status).toBe(200);

    way.restart();
    const known = way.refusals;
    await expect.poll(() => way.refusals).toBeGreaterThan(known);
    const refused = await Promise.all(calls().map(call));
    const told = await Promise.all(
      refused.map(async (answer) => {
        const [code] = /PGRST\d+|[Dd]atabase_?[A-Za-z]+/.exec(await answer.text()) ?? [];
        return [answer.status, answer.headers.get('retry-after'), code];
      }),
    );
    expect(told).toEqual([
      [503, '2', 'PGRST000'],
      [503, '2', 'PGRST000'],
      [503, '2', 'database_unavailable'],
      [503, '2', 'DatabaseUnavailable'],
      [503, '2', 'database_unreachable'],
    ]);
    await expect.poll(async () => (await fetch(`${world.url}/ready`)).status).toBe(503);
    way.recover();
    await expect.poll(async () => (await fetch(`${world.url}/ready`)).status).toBe(200);
    expect((await Promise.all(calls().map(call))).map(({ status }) => status)).toEqual(statuses);
  } finally {
    await world.close();
    await way.close();
  }
});
