// Tests the rights of request sessions. Uses a separate server, because the tests give excessive rights to its roles.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startFreshCluster, type FreshCluster } from '../../test/support/peers/fresh-cluster.ts';
import { CallerPool } from '../postgres/pool/caller-pool.ts';
import { provisionAt } from '../../test/support/provision.ts';
import { assertRequestSession } from './request-session.ts';
import { parseAddress } from '../postgres/address/parse-address.ts';

let cluster: FreshCluster;
let authenticatorUrl: string;
let superuser: pg.Client;

beforeAll(async () => {
  cluster = await startFreshCluster();
  ({ authenticatorUrl } = await provisionAt(cluster.url));
  superuser = new pg.Client(cluster.url);
  await superuser.connect();
});

afterAll(async () => {
  await superuser.end();
  await cluster.stop();
});

/** Returns equivalent forms of the same address. */
function forms(url: string): string[] {
  const { username, password, hostname, port, pathname } = new URL(url);
  const user = `user=${username}&password=${encodeURIComponent(decodeURIComponent(password))}`;
  return [
    url,
    `postgres://${pathname}?host=${hostname}&port=${port}&${user}`,
    `postgres://nobody:wrong@${hostname}:${port}${pathname}?${user}`,
    `postgresql://${hostname}:${port}?dbname=${pathname.slice(1)}&${user}`,
  ];
}

test('requests run as authenticator for every form of the address', async () => {
  for (const form of forms(cluster.url)) {
    const roles = await provisionAt(form);
    await assertRequestSession({ address: roles.authenticator.data, applicationName: 'test' });
    const pool = new CallerPool({
      address: parseAddress(roles.authenticatorUrl),
      applicationName: 'test',
      max: 1,
      minIdle: 0,
      idleTimeoutMs: 1000,
    });
    try {
      const [result] = await pool.run({ role: 'anon', claims: '{}' }, [
        { text: "select session_user || ' ' || current_user", values: [] },
      ]);
      expect(result?.rows[0]?.[0]?.toString()).toBe('authenticator anon');
    } finally {
      await pool.close();
    }
  }
});

test('injected SQL can switch only to the three API roles', async () => {
  await superuser.query(`
    create function public.injectable(clause text) returns text language plpgsql as
      $$ declare found text; begin execute clause; execute 'select current_user' into found; return found; end $$`);
  const pool = new CallerPool({
    address: parseAddress(authenticatorUrl),
    applicationName: 'test',
    max: 1,
    minIdle: 0,
    idleTimeoutMs: 1000,
  });
  const become = async (clause: string): Promise<string | undefined> => {
    const [result] = await pool.run({ role: 'anon', claims: '{"role":"anon"}' }, [
      { text: 'select public.injectable($1)', values: [clause] },
    ]);
    return result?.rows[0]?.[0]?.toString();
  };
  try {
    expect(await become('reset role')).toBe('authenticator');
    for (const role of ['postgres', 'svc_owner', 'pg_read_all_data', 'pg_execute_server_program']) {
      await expect(become(`set role ${role}`)).rejects.toMatchObject({ code: '42501' });
      await expect(become(`reset role; set role ${role}`)).rejects.toMatchObject({ code: '42501' });
    }
    await expect(become('set session authorization postgres')).rejects.toMatchObject({ code: '42501' });
    // The next request is not affected.
    expect(await become('select')).toBe('anon');
  } finally {
    await pool.close();
  }
});

test('a session with excessive rights is rejected with a remedy', async () => {
  await expect(
    assertRequestSession({ address: parseAddress(cluster.url), applicationName: 'test' }),
  ).rejects.toMatchObject({
    code: 'unsafe_session',
    message: expect.stringMatching(/would run as "\w+"/) as string,
  });
  for (const [more, less, message] of [
    ['alter role anon bypassrls', 'alter role anon nobypassrls', 'The role "anon" has BYPASSRLS'],
    [
      'alter role authenticated createrole',
      'alter role authenticated nocreaterole',
      '"authenticated" has CREATEROLE',
    ],
    ['alter role authenticator superuser', 'alter role authenticator nosuperuser', 'has SUPERUSER'],
    [
      'alter role service_role superuser',
      'alter role service_role nosuperuser',
      '"service_role" has SUPERUSER',
    ],
    [
      'grant pg_read_all_data to anon',
      'revoke pg_read_all_data from anon',
      'switch to the role "pg_read_all_data"',
    ],
    [
      'grant svc_owner to authenticator',
      'revoke svc_owner from authenticator',
      'switch to the role "svc_owner", which was granted to "authenticator"',
    ],
  ] as const) {
    await superuser.query(more);
    await expect(
      assertRequestSession({ address: parseAddress(authenticatorUrl), applicationName: 'test' }),
      more,
    ).rejects.toThrow(message);
    await superuser.query(less);
    await assertRequestSession({ address: parseAddress(authenticatorUrl), applicationName: 'test' });
  }
});
