// Tests the changes of provisioning to a server, whose roles all databases share. Uses a server without these roles.
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
  const [, statements] = /^Run once as a superuser, then start again: (.*)$/s.exec(hint) ?? [];
  expect(statements, hint).toBeDefined();
  return statements ?? '';
}
const catchFailure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => expect.unreachable('the start should have been refused'),
    (error: unknown) => error,
  );

describe('a role that is not a superuser', () => {
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

  /**
   * Before PostgreSQL 16 only a superuser can create roles that bypass row-level security. The error lists the
   * statements.
   */
  async function firstStart(database: string): Promise<void> {
    if (cluster.major < 16) {
      const error = await catchFailure(provisionAt(url(database)));
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

  test('the owner of the database prepares it and starts again', async () => {
    const database = await aDatabase(quoted);
    await firstStart(database);
    await superuser(`alter database ${database} set default_transaction_read_only = on`);
    const { applied, ownerUrl, authenticatorUrl } = await provisionAt(url(database));
    expect(applied).toEqual([]);
    for (const login of [ownerUrl, authenticatorUrl]) await on(login, (client) => client.query('select 1'));
  });

  test('a changed password updates the roles and warns about the project in another database', async () => {
    const [database, other] = [await aDatabase(quoted), await aDatabase(quoted)];
    await firstStart(database);
    const otherProject = await provisionAt(url(other));
    await superuser(`alter role ${quoted} password 'changed'`);
    const changed = urlFor(database, encodeURIComponent(name), 'changed');
    const { log, lines } = collectLog();
    await on(otherProject.authenticatorUrl, async () => {
      const { ownerUrl, authenticatorUrl } = await provisionAt(changed, log);
      for (const login of [ownerUrl, authenticatorUrl]) await on(login, (client) => client.query('select 1'));
    });
    expect(lines()).toEqual([
      expect.objectContaining({ level: 'warn', databases: [other], roles: ['svc_owner', 'authenticator'] }),
    ]);
  });

  test('if another role created the roles, the error lists all missing rights', async () => {
    await provisionAt(urlFor(await aDatabase()));
    const database = await aDatabase();
    const error = await catchFailure(provisionAt(url(database)));
    expect(error).toMatchObject({ code: 'missing_rights' });
    await superuser(statementsOfHint(error));
    expect((await provisionAt(url(database))).applied).toEqual(STEPS);
  });

  test('missing rights are listed, and the statements of the hint grant all of them', async () => {
    await superuser(`alter role ${quoted} nocreaterole nobypassrls`);
    const database = await aDatabase();
    const error = await catchFailure(provisionAt(url(database)));
    expect(error).toMatchObject({
      code: 'missing_rights',
      message: `The role "${name}" of SVC_DATABASE_URL lacks CREATEROLE, BYPASSRLS`,
    });
    await superuser(statementsOfHint(error));
    expect((await provisionAt(url(database))).applied).toEqual(STEPS);
  });

  test('a start grants svc_owner the right to read the write-ahead log if possible', async () => {
    const readCanReplicate = async (): Promise<unknown> =>
      (await superuser(`select rolreplication as may from pg_roles where rolname = 'svc_owner'`)).rows[0];
    const database = await aDatabase(quoted);
    await firstStart(database);
    expect(await readCanReplicate()).toEqual({ may: false });
    await superuser(`alter role ${quoted} replication`);
    expect((await provisionAt(url(database))).applied).toEqual([]);
    // Before PostgreSQL 16 only a superuser can grant it.
    expect(await readCanReplicate()).toEqual({ may: cluster.major >= 16 });
    await provisionAt(urlFor(database));
    expect(await readCanReplicate()).toEqual({ may: true });
  });

  test('a role with NOINHERIT is sufficient', async () => {
    await superuser(`alter role ${quoted} noinherit`);
    const database = await aDatabase(quoted);
    await firstStart(database);
    expect((await provisionAt(url(database))).applied).toEqual([]);
  });
});

test('projects in several databases can start concurrently on a server without roles', async () => {
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

test('a start restores missing attributes and grants of roles', async () => {
  const url = urlFor(await aDatabase());
  await provisionAt(url);
  await superuser(
    'alter role authenticator inherit; alter role service_role nobypassrls; revoke anon from authenticator',
  );
  const { authenticatorUrl } = await provisionAt(url);
  const { rows } = await superuser(
    `select rolname, rolinherit, rolbypassrls from pg_roles where rolname in ('authenticator', ` +
      `'service_role') order by 1`,
  );
  expect(rows).toEqual([
    { rolname: 'authenticator', rolinherit: false, rolbypassrls: false },
    { rolname: 'service_role', rolinherit: false, rolbypassrls: true },
  ]);
  await on(authenticatorUrl, (client) => client.query('set role anon'));
  await removeEverything();
});

test('no plain-text password is sent to the server', async () => {
  const url = urlFor(await aDatabase());
  await superuser(`alter system set log_statement = 'all'`);
  await superuser('select pg_reload_conf()');
  try {
    const { ownerUrl, authenticatorUrl } = await provisionAt(url);
    const serverLog = await cluster.serverLog();
    for (const login of [ownerUrl, authenticatorUrl]) {
      const { username, password } = new URL(login);
      expect(serverLog).toContain(`alter role "${username}" password 'SCRAM-SHA-256$`);
      expect(serverLog).not.toContain(password);
    }
  } finally {
    await superuser('alter system reset log_statement');
    await superuser('select pg_reload_conf()');
    await removeEverything();
  }
});
