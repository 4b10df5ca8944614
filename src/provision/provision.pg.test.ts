import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { provision } from './provision.ts';
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

test('an empty database gets every step once', async () => {
  const first = await provision(database.url);
  expect(first.applied).toEqual(PROVISION_STEPS.map((step) => step.id));
  const second = await provision(database.url);
  expect(second.applied).toEqual([]);
});

test('eight instances that boot at once provision once', async () => {
  const outcomes = await Promise.all(Array.from({ length: 8 }, () => provision(database.url)));
  const applied = outcomes.flatMap((outcome) => outcome.applied);
  expect(applied.sort()).toEqual(PROVISION_STEPS.map((step) => step.id).sort());
});

test('requests connect as a role that is no superuser and cannot get past row-level security', async () => {
  const { authenticatorUrl, ownerUrl } = await provision(database.url);
  const attributes = `select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolinherit from pg_roles where rolname = current_user`;
  const authenticator = await asRole(authenticatorUrl, (client) => client.query(attributes));
  expect(authenticator.rows).toEqual([
    { rolsuper: false, rolbypassrls: false, rolcreaterole: false, rolcreatedb: false, rolinherit: false },
  ]);
  const owner = await asRole(ownerUrl, (client) => client.query(attributes));
  expect(owner.rows[0]).toMatchObject({ rolsuper: false, rolcreaterole: false, rolcreatedb: false });
});

test('the API roles cannot read what the product keeps for itself', async () => {
  const { authenticatorUrl } = await provision(database.url);
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

test('a role with the three rights and the database is enough; each missing right is named', async () => {
  const admin = new pg.Client(database.url);
  await admin.connect();
  const name = `limited_${database.url.slice(-8)}`;
  try {
    // The same password as the superuser's: the login roles take theirs from it, cluster-wide.
    const { password } = new URL(database.url);
    await admin.query(`create role ${name} login password '${password}' createrole createdb bypassrls`);
    await admin.query(`alter database "${new URL(database.url).pathname.slice(1)}" owner to ${name}`);
    const url = new URL(database.url);
    url.username = name;
    // The roles exist in this cluster already, made by a superuser: then somebody must have given them.
    await admin.query(`grant svc_owner to ${name} with admin option`);
    await admin.query(`grant anon, authenticated, service_role, authenticator to ${name} with admin option`);
    const { applied } = await provision(url.href);
    expect(applied).toEqual(PROVISION_STEPS.map((step) => step.id));

    await admin.query(`alter role ${name} nocreaterole nobypassrls`);
    await expect(provision(url.href)).rejects.toMatchObject({
      code: 'missing_rights',
      message: `The role "${name}" of SVC_DATABASE_URL lacks CREATEROLE, BYPASSRLS`,
      hint: `Run as a superuser: alter role "${name}" createrole bypassrls;`,
    });
  } finally {
    await admin.query(`reassign owned by ${name} to postgres`);
    await admin.query(`drop owned by ${name}`);
    await admin.query(`drop role ${name}`);
    await admin.end();
  }
});

test.each([
  ['not a url', 'bad_database_url'],
  ['mysql://root@localhost/x', 'bad_database_url'],
  ['postgres://nobody:secret-word@127.0.0.1:1/x', 'database_unreachable'],
])('%s is refused with a reason that shows no password', async (url, code) => {
  const refusal = provision(url);
  await expect(refusal).rejects.toMatchObject({ code });
  await expect(refusal).rejects.not.toThrow(/secret-word/);
});
