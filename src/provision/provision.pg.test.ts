import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { collectLog } from '../../test/support/collect-log.ts';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { provisionAt } from '../../test/support/provision.ts';
import { revokePublicRights } from './public-rights.ts';
import { PROVISION_STEPS } from './steps/steps.ts';

let database: TestDatabase;
beforeEach(async () => {
  database = await createDatabase();
});
afterEach(async () => {
  await database.drop();
});

async function asRole<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

test('an empty database gets each step once', async () => {
  const first = await provisionAt(database.url);
  expect(first.applied).toEqual(PROVISION_STEPS.map((step) => step.id));
  const second = await provisionAt(database.url);
  expect(second.applied).toEqual([]);
});

test('pending mail of an earlier version expels the creator of an account, except a sign-up confirmation', async () => {
  const { ownerUrl } = await provisionAt(database.url);
  const rows = await asRole(ownerUrl, async (client) => {
    await client.query(`
      alter table auth.one_time_tokens drop column expels;
      alter table auth.flow_state drop column linking_session_id;
      drop index auth.flow_state_linking_target_id_idx;
      delete from svc_meta.provision_step where id = 'auth-2';
      insert into auth.users (id, email, encrypted_password, created_at, password_set_at) values
        ('00000000-0000-4000-8000-000000000001', 'signup@example.com', 'x', '2026-01-01', '2026-01-01'),
        ('00000000-0000-4000-8000-000000000002', 'invited@example.com', 'x', '2026-01-01', '2026-01-01'),
        ('00000000-0000-4000-8000-000000000003', 'later@example.com', 'x', '2026-01-01', '2026-01-02');
      insert into auth.one_time_tokens (user_id, token_type, token_hash, code_hash, created_at, expires_at) values
        ('00000000-0000-4000-8000-000000000001', 'confirmation_token', 'a', 'a', '2026-01-01', 'infinity'),
        ('00000000-0000-4000-8000-000000000002', 'confirmation_token', 'b', 'b', '2026-01-03', 'infinity'),
        ('00000000-0000-4000-8000-000000000003', 'confirmation_token', 'c', 'c', '2026-01-01', 'infinity');`);
    expect((await provisionAt(database.url)).applied).toEqual(['auth-2']);
    const { rows } = await client.query('select token_hash, expels from auth.one_time_tokens order by 1');
    return rows;
  });
  expect(rows).toEqual([
    { token_hash: 'a', expels: false },
    { token_hash: 'b', expels: true },
    { token_hash: 'c', expels: true },
  ]);
});

test('a foreign schema realtime is rejected before any change, also in a database of an earlier version', async () => {
  const refusal = async (): Promise<string> =>
    await provisionAt(database.url).then(
      () => 'taken',
      (error: unknown) => `${(error as { code?: string }).code ?? ''} ${String(error)}`,
    );
  const schemas = 'select nspname from pg_namespace order by 1';
  await asRole(database.url, async (client) => {
    await client.query('create schema realtime; create table realtime.messages (id integer)');
    const before = (await client.query(schemas)).rows;
    expect(await refusal()).toMatch(/ADO-302.*realtime \(of postgres\)/s);
    expect((await client.query(schemas)).rows).toEqual(before);
    await client.query('drop schema realtime cascade');
    await provisionAt(database.url);
    await client.query(`drop publication svc_realtime; drop schema realtime cascade;
      delete from svc_meta.provision_step where id like 'realtime-%';
      create schema realtime; create table realtime.messages (id integer)`);
    expect(await refusal()).toMatch(/ADO-302.*realtime \(of postgres\)/s);
    await client.query('drop schema realtime cascade');
    expect((await provisionAt(database.url)).applied).toEqual(['realtime-1', 'realtime-2']);
  });
});

test('a database of a newer version is rejected with that version and not changed', async () => {
  const { ownerUrl } = await provisionAt(database.url);
  const refusal = async (): Promise<string> =>
    await provisionAt(database.url).then(
      () => 'taken',
      (error: unknown) => `${(error as { code?: string }).code ?? ''} ${String(error)}`,
    );
  await asRole(ownerUrl, async (client) => {
    // The older program lacks the step.
    await client.query(`delete from svc_meta.provision_step where id = 'auth-2';
      insert into svc_meta.provision_step (id, min_version) values ('auth-900', '0.10.0'), ('auth-901', '99.1.0'),
        ('auth-902', null)`);
    expect(await refusal()).toMatch(/^database_is_newer .*it needs 99\.1\.0 or newer/);
    const { rows } = await client.query(`select id from svc_meta.provision_step where id = 'auth-2'`);
    expect(rows).toEqual([]);
    await client.query(`delete from svc_meta.provision_step where min_version is not null;
      insert into svc_meta.provision_step (id) values ('auth-2')`);
  });
  // Steps that only add objects do not block the previous version.
  expect((await provisionAt(database.url)).applied).toEqual([]);
});

test('the step table of an earlier version gets its new column with the next step', async () => {
  const { ownerUrl } = await provisionAt(database.url);
  await asRole(ownerUrl, async (client) => {
    await client.query(`alter table svc_meta.provision_step drop column min_version`);
    expect((await provisionAt(database.url)).applied).toEqual([]);
    await client.query(`drop table svc_meta.seed; delete from svc_meta.provision_step where id = 'seed-1'`);
    expect((await provisionAt(database.url)).applied).toEqual(['seed-1']);
    const { rows } = await client.query(
      `select min_version from svc_meta.provision_step where id = 'seed-1'`,
    );
    expect(rows).toEqual([{ min_version: null }]);
  });
});

test('eight instances that start concurrently provision once', async () => {
  const outcomes = await Promise.all(Array.from({ length: 8 }, () => provisionAt(database.url)));
  const applied = outcomes.flatMap((outcome) => outcome.applied);
  expect(applied.sort()).toEqual(PROVISION_STEPS.map((step) => step.id).sort());
});

test('requests connect as a role that is not a superuser and cannot bypass row-level security', async () => {
  const { authenticatorUrl, ownerUrl } = await provisionAt(database.url);
  const attributes =
    'select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, ' +
    'rolinherit from pg_roles where rolname = current_user';
  const authenticator = await asRole(authenticatorUrl, (client) => client.query(attributes));
  expect(authenticator.rows).toEqual([
    { rolsuper: false, rolbypassrls: false, rolcreaterole: false, rolcreatedb: false, rolinherit: false },
  ]);
  const owner = await asRole(ownerUrl, (client) => client.query(attributes));
  expect(owner.rows[0]).toMatchObject({ rolsuper: false, rolcreaterole: false, rolcreatedb: false });
});

test('the owner can create a temporary table and the API roles cannot', async () => {
  const statement = 'create temporary table mine (id int)';
  const { ownerUrl, authenticatorUrl } = await provisionAt(database.url);
  for (const role of ['anon', 'authenticated', 'service_role']) {
    const made = asRole(authenticatorUrl, async (client) => {
      await client.query(`set role ${role}`);
      await client.query(statement);
    });
    await expect(made).rejects.toMatchObject({ code: '42501' });
  }
  await asRole(ownerUrl, (client) => client.query(statement));
});

const WRITERS = [
  'lo_create(0)',
  "lo_from_bytea(0, 'mine')",
  'lo_unlink(1)',
  "pg_logical_emit_message(false, 'mine', 'text')",
];

test('only the owner can create large objects and write to the write-ahead log', async () => {
  const { ownerUrl, authenticatorUrl } = await provisionAt(database.url);
  for (const role of ['anon', 'authenticated', 'service_role'])
    for (const call of WRITERS) {
      const made = asRole(authenticatorUrl, async (client) => {
        await client.query(`set role ${role}`);
        await client.query(`select ${call}`);
      });
      await expect(made, call).rejects.toMatchObject({ code: '42501' });
    }
  await asRole(ownerUrl, (client) => client.query('select lo_unlink(lo_create(0))'));
});

test('a database with large objects keeps their functions, and only a superuser changes functions', async () => {
  const open = `select count(*)::int as open from pg_proc where proname ~ '^(lo_|pg_logical_emit)'
    and has_function_privilege('public', oid, 'execute')`;
  await asRole(database.url, async (client) => {
    await client.query('select lo_create(0)');
    await provisionAt(database.url);
    const { rows } = await client.query(open);
    expect(rows[0]).toEqual({ open: expect.any(Number) });
    expect(rows[0].open).toBeGreaterThan(10);
    await client.query('create role plain_admin');
    await client.query('set role plain_admin');
    await revokePublicRights({ query: async (statement) => (await client.query(statement.compile())).rows });
    expect((await client.query(open)).rows).toEqual(rows);
    await client.query('reset role');
    await client.query('drop role plain_admin');
  });
});

test('the API roles cannot read internal tables', async () => {
  const { authenticatorUrl } = await provisionAt(database.url);
  for (const role of ['anon', 'authenticated']) {
    for (const table of [
      'auth.users',
      'auth.signing_keys',
      'auth.sessions',
      'svc_meta.provision_step',
      'svc_meta.dashboard_sessions',
    ]) {
      const read = asRole(authenticatorUrl, async (client) => {
        await client.query(`set role ${role}`);
        await client.query(`select from ${table}`);
      });
      await expect(read, `${role} reads ${table}`).rejects.toMatchObject({ code: '42501' });
    }
  }
});

test('a second start succeeds on a read-only database', async () => {
  await provisionAt(database.url);
  const { pathname } = new URL(database.url);
  await asRole(database.url, (client) =>
    client.query(`alter database "${pathname.slice(1)}" set default_transaction_read_only = on`),
  );
  expect((await provisionAt(database.url)).applied).toEqual([]);
});

test('a second start does not wait for readers of internal tables', async () => {
  await provisionAt(database.url);
  await asRole(database.url, async (dump) => {
    await dump.query('begin');
    await dump.query('lock table svc_meta.provision_step, auth.users, storage.objects in access share mode');
    expect((await provisionAt(database.url)).applied).toEqual([]);
    await dump.query('rollback');
  });
});

test('a start with pending steps logs the sessions it waits for, and continues after they end', async () => {
  await provisionAt(database.url);
  const { log, lines } = collectLog();
  await asRole(database.url, async (dump) => {
    await dump.query(`delete from svc_meta.provision_step where id = 'auth-1'`);
    await dump.query('drop schema auth cascade; create schema auth authorization svc_owner');
    await dump.query('begin');
    await dump.query('lock table svc_meta.provision_step in exclusive mode');
    const {
      rows: [self],
    } = await dump.query<{ pid: number }>('select pg_backend_pid() as pid');
    const start = provisionAt(database.url, log);
    await expect
      .poll(() => lines().map((line) => line['blockedBy']))
      .toContainEqual([expect.objectContaining({ pid: self?.pid, state: 'idle in transaction' })]);
    await dump.query('commit');
    expect((await start).applied).toEqual(['auth-1']);
  });
});

describe('passwords of the login roles', () => {
  const verifiers = async (): Promise<Record<string, string>> => {
    const { rows } = await asRole(database.url, (client) =>
      client.query<{ rolname: string; rolpassword: string }>(
        `select rolname, rolpassword from pg_authid where rolname in ('svc_owner', 'authenticator')`,
      ),
    );
    return Object.fromEntries(rows.map((row) => [row.rolname, row.rolpassword]));
  };

  test('each role has its own password, which is stored as SCRAM and kept while it matches', async () => {
    const { ownerUrl, authenticatorUrl } = await provisionAt(database.url);
    const secrets = [database.url, ownerUrl, authenticatorUrl].map((url) => new URL(url).password);
    expect(new Set(secrets).size).toBe(3);
    const before = await verifiers();
    for (const verifier of Object.values(before)) expect(verifier).toMatch(/^SCRAM-SHA-256\$4096:/);
    await provisionAt(database.url);
    expect(await verifiers()).toEqual(before);
  });
});

test.each([
  ['not a url', 'bad_database_url'],
  ['mysql://root@localhost/x', 'bad_database_url'],
  ['postgres://nobody:secret-word@127.0.0.1:1/x', 'database_unreachable'],
])('%s is rejected with a reason that contains no password', async (url, code) => {
  const refusal = provisionAt(url);
  await expect(refusal).rejects.toMatchObject({ code });
  await expect(refusal).rejects.not.toThrow(/secret-word/);
});
