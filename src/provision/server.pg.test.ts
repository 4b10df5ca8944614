// What provisioning does to a server, whose roles every database shares: on servers that have none of them yet.
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { collectLog } from '../../test/support/collect-log.ts';
import { startFreshCluster, type FreshCluster } from '../../test/support/peers/fresh-cluster.ts';
import { provisionAt } from '../../test/support/provision.ts';
import { PROVISION_STEPS } from './steps/steps.ts';

const ROLES = 'authenticator, svc_owner, anon, authenticated, service_role';
const STEPS = PROVISION_STEPS.map((step) => step.id);

let cluster: FreshCluster;
beforeAll(async () => {
  cluster = await startFreshCluster();
});
afterAll(() => cluster.stop());

async function on<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

const superuser = (statement: string) => on(cluster.url, (client) => client.query(statement));

function urlFor(database: string, user?: string, password?: string): string {
  const url = new URL(cluster.url);
  url.pathname = `/${database}`;
  if (user !== undefined) url.username = user;
  if (password !== undefined) url.password = password;
  return url.href;
}

let databases: string[] = [];
async function aDatabase(owner = 'postgres'): Promise<string> {
  const name = `project_${randomBytes(4).toString('hex')}`;
  await superuser(`create database ${name} owner ${owner}`);
  databases.push(name);
  return name;
}

async function removeEverything(): Promise<void> {
  for (const name of databases) await superuser(`drop database if exists ${name} with (force)`);
  databases = [];
  await superuser(`revoke all on parameter session_replication_role from public`);
  const { rows } = await superuser(`select from pg_roles where rolname = 'svc_owner'`);
  if (rows.length > 0) await superuser(`drop owned by ${ROLES}`);
  await superuser(`drop role if exists ${ROLES}`);
}

const { escapeLiteral } = pg;
function statementsOfHint(error: unknown): string {
  const hint = error instanceof Error && 'hint' in error ? String(error.hint) : '';
  const [, statements] = /^Run as a superuser, once, then start again: (.*)$/s.exec(hint) ?? [];
  expect(statements, hint).toBeDefined();
  return statements ?? '';
}
const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => expect.unreachable('it should have been refused'),
    (error: unknown) => error,
  );

describe('a role that is no superuser', () => {
  const name = 'Ada "admin"';
  const quoted = '"Ada ""admin"""';
  const password = 'p@ss w%rd/';
  const url = (database: string): string =>
    urlFor(database, encodeURIComponent(name), encodeURIComponent(password));

  beforeEach(async () => {
    await superuser(
      `create role ${quoted} login password ${escapeLiteral(password)} createrole createdb bypassrls`,
    );
  });
  afterEach(async () => {
    await superuser(
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname like 'project_%'`,
    );
    await removeEverything();
    await superuser(`drop role ${quoted}`);
  });

  /** Before PostgreSQL 16 only a superuser makes roles that bypass row-level security: the error says what to run. */
  async function firstStart(database: string): Promise<void> {
    if (cluster.major < 16) {
      const error = await failureOf(provisionAt(url(database)));
      expect(error).toMatchObject({
        code: 'missing_rights',
        message: expect.stringContaining('Ada "admin"'),
      });
      const before = await superuser(`select rolname from pg_roles where rolname = 'anon'`);
      expect(before.rows).toEqual([]);
      await superuser(statementsOfHint(error));
    }
    expect((await provisionAt(url(database))).applied).toEqual(STEPS);
  }

  test('who owns the database prepares it and starts again', async () => {
    const database = await aDatabase(quoted);
    await firstStart(database);
    await superuser(`alter database ${database} set default_transaction_read_only = on`);
    const { applied, ownerUrl, authenticatorUrl } = await provisionAt(url(database));
    expect(applied).toEqual([]);
    for (const login of [ownerUrl, authenticatorUrl]) await on(login, (client) => client.query('select 1'));
  });

  test('a changed password is taken over; a project of another database is named', async () => {
    const [database, other] = [await aDatabase(quoted), await aDatabase(quoted)];
    await firstStart(database);
    const elsewhere = await provisionAt(url(other));
    await superuser(`alter role ${quoted} password 'changed'`);
    const changed = urlFor(database, encodeURIComponent(name), 'changed');
    const { log, lines } = collectLog();
    await on(elsewhere.authenticatorUrl, async () => {
      const { ownerUrl, authenticatorUrl } = await provisionAt(changed, log);
      for (const login of [ownerUrl, authenticatorUrl]) await on(login, (client) => client.query('select 1'));
    });
    expect(lines()).toEqual([
      expect.objectContaining({ level: 'warn', databases: [other], roles: ['svc_owner', 'authenticator'] }),
    ]);
  });

  test('on a server whose roles somebody else made, the error is the whole list of what is missing', async () => {
    await provisionAt(urlFor(await aDatabase()));
    const database = await aDatabase();
    const error = await failureOf(provisionAt(url(database)));
    expect(error).toMatchObject({ code: 'missing_rights' });
    await superuser(statementsOfHint(error));
    expect((await provisionAt(url(database))).applied).toEqual(STEPS);
  });

  test('missing rights are named, and what a superuser runs mends everything at once', async () => {
    await superuser(`alter role ${quoted} nocreaterole nobypassrls`);
    const database = await aDatabase();
    const error = await failureOf(provisionAt(url(database)));
    expect(error).toMatchObject({
      code: 'missing_rights',
      message: `The role "${name}" of SVC_DATABASE_URL lacks CREATEROLE, BYPASSRLS`,
    });
    await superuser(statementsOfHint(error));
    expect((await provisionAt(url(database))).applied).toEqual(STEPS);
  });

  test('changes come from the write-ahead log where the role may grant that, and a start is as good without', async () => {
    const mayReplicate = async (): Promise<unknown> =>
      (await superuser(`select rolreplication as may from pg_roles where rolname = 'svc_owner'`)).rows[0];
    const database = await aDatabase(quoted);
    await firstStart(database);
    expect(await mayReplicate()).toEqual({ may: false });
    await superuser(`alter role ${quoted} replication`);
    expect((await provisionAt(url(database))).applied).toEqual([]);
    // Before PostgreSQL 16 that takes a superuser.
    expect(await mayReplicate()).toEqual({ may: cluster.major >= 16 });
    await provisionAt(urlFor(database));
    expect(await mayReplicate()).toEqual({ may: true });
  });

  test('one that inherits nothing is enough', async () => {
    await superuser(`alter role ${quoted} noinherit`);
    const database = await aDatabase(quoted);
    await firstStart(database);
    expect((await provisionAt(url(database))).applied).toEqual([]);
  });
});

test('projects of several databases may start at the same moment on a server without roles', async () => {
  for (let round = 0; round < 3; round++) {
    const names = [await aDatabase(), await aDatabase(), await aDatabase()];
    const starts = await Promise.all(
      names.flatMap((name) => [provisionAt(urlFor(name)), provisionAt(urlFor(name))]),
    );
    expect(starts.flatMap((start) => start.applied).sort()).toEqual([...STEPS, ...STEPS, ...STEPS].sort());
    for (const { ownerUrl, authenticatorUrl } of starts)
      for (const login of [ownerUrl, authenticatorUrl]) await on(login, (client) => client.query('select 1'));
    await removeEverything();
  }
});

test('a role that lost what it needs gets it back', async () => {
  const url = urlFor(await aDatabase());
  await provisionAt(url);
  await superuser(
    'alter role authenticator inherit; alter role service_role nobypassrls; revoke anon from authenticator',
  );
  const { authenticatorUrl } = await provisionAt(url);
  const { rows } = await superuser(
    `select rolname, rolinherit, rolbypassrls from pg_roles where rolname in ('authenticator', 'service_role') order by 1`,
  );
  expect(rows).toEqual([
    { rolname: 'authenticator', rolinherit: false, rolbypassrls: false },
    { rolname: 'service_role', rolinherit: false, rolbypassrls: true },
  ]);
  await on(authenticatorUrl, (client) => client.query('set role anon'));
  await removeEverything();
});

test('no password is sent to the server, not even to be hashed there', async () => {
  const url = urlFor(await aDatabase());
  await superuser(`alter system set log_statement = 'all'`);
  await superuser('select pg_reload_conf()');
  try {
    const { ownerUrl, authenticatorUrl } = await provisionAt(url);
    const said = await cluster.serverLog();
    for (const login of [ownerUrl, authenticatorUrl]) {
      const { username, password } = new URL(login);
      expect(said).toContain(`alter role "${username}" password 'SCRAM-SHA-256$`);
      expect(said).not.toContain(password);
    }
  } finally {
    await superuser('alter system reset log_statement');
    await superuser('select pg_reload_conf()');
    await removeEverything();
  }
});
