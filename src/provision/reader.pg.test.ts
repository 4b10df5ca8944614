// Sends hostile statements to a read-only tool, as the reader and as a caller with write access. None of them may
// change a row, an object, a role, a setting, a file or another connection. They are combined from parts to cover many
// variants.
import { createHash } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { oneAddress } from '../postgres/address/database-addresses.ts';
import { OwnerDatabase } from '../postgres/owner-database.ts';
import { runStatement } from '../postgres/one-statement.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { createDatabase, type TestDatabase } from '../../test/support/database.ts';
import { type FreshCluster, startFreshCluster } from '../../test/support/peers/fresh-cluster.ts';
import { provision } from './provision.ts';
import { provideAsker, provideReader } from './reader.ts';

const SERVICE = { role: 'service_role', claims: '{"role":"service_role"}' } as const;

const CHANGES = [
  'insert into kept values (2)',
  'update kept set id = 3',
  'delete from kept',
  "insert into auth.users (id) values ('6f1c1f0e-7a52-4b7e-9d1a-000000000001')",
  'update storage.buckets set public = true',
];
const CALLS = [
  'sneak()',
  "nextval('counted')",
  "setval('counted', 99)",
  "set_config('transaction_read_only', 'off', false), sneak()",
  "set_config('role', 'svc_owner', false), sneak()",
  "set_config('role', 'authenticator', true), " +
    'pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()',
  "set_config('session_authorization', 'postgres', false), sneak()",
  "set_config('session_replication_role', 'replica', false), sneak()",
  "set_config('role', 'authenticator', true), " +
    'pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() ' +
    "and usename = 'authenticator' and pid <> pg_backend_pid()",
  'pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()',
  'pg_cancel_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  'pg_reload_conf()',
  'pg_rotate_logfile()',
  'pg_switch_wal()',
  "pg_create_restore_point('mine')",
  "pg_create_physical_replication_slot('mine')",
  "pg_create_logical_replication_slot('mine', 'pgoutput')",
  "pg_drop_replication_slot('kept_slot')",
  "pg_replication_origin_create('mine')",
  'pg_stat_reset()',
  "pg_notify('kept', 'hostile')",
  'pg_export_snapshot()',
  'pg_advisory_lock(4711)',
  "pg_read_file('/etc/passwd')",
  "pg_read_binary_file('postgresql.auto.conf')",
  "pg_ls_dir('.')",
  "lo_from_bytea(0, 'mine')",
  'lo_create(4711)',
  "lo_import('/etc/passwd')",
  "lo_export(1, '/tmp/svc-reader-wrote')",
  'pg_promote(false)',
  "query_to_xml('delete from kept returning *', true, true, '')",
  "database_to_xml(true, true, '')",
  "pg_import_system_collations('public')",
  "ts_stat('delete from kept returning null::tsvector')",
  "pg_logical_emit_message(true, 'mine', 'text')",
];
const COMMANDS = [
  'truncate kept',
  'merge into kept using (select 9 as id) n on kept.id = n.id when not matched then insert values (n.id)',
  'create table mine (id int)',
  'create temporary table mine (id int)',
  'create view mine as select 1',
  "create function mine() returns int language sql as 'select 1'",
  'create schema mine',
  'create role mine superuser',
  'create extension pg_trgm',
  'create publication mine for all tables',
  'create database mine',
  "create tablespace mine location '/tmp'",
  'create trigger mine before insert on kept execute function mine()',
  'create rule mine as on insert to kept do instead nothing',
  'select * into mine from kept',
  'alter table kept add column more text',
  'alter table kept disable row level security',
  'alter role svc_reader superuser',
  'grant svc_owner to svc_asker',
  'alter role svc_reader set transaction_read_only = off',
  'alter role authenticator password null',
  "alter system set log_statement = 'all'",
  'alter database postgres set transaction_read_only = off',
  'alter default privileges grant all on tables to public',
  'drop table kept',
  'drop role authenticator',
  'grant all on kept to svc_reader',
  'grant svc_owner to svc_reader',
  'revoke select on kept from svc_owner',
  "comment on table kept is 'mine'",
  "copy kept from program 'echo 9'",
  "copy kept to program 'true'",
  "copy (select 1) to '/tmp/svc-reader-wrote'",
  'copy kept from stdin',
  'do $$ begin delete from kept; end $$',
  "do $$ begin execute 'set transaction read write'; delete from kept; end $$",
  'do $$ begin commit; delete from kept; end $$',
  'do $$ begin loop end loop; end $$',
  'call mine()',
  'vacuum kept',
  'vacuum full',
  'analyze kept',
  'reindex table kept',
  'cluster kept',
  'checkpoint',
  'refresh materialized view kept',
  'lock table kept in access exclusive mode',
  'listen kept',
  "notify kept, 'hostile'",
  'set transaction read write',
  'set session characteristics as transaction read write',
  'set session authorization svc_owner',
  'set role svc_owner',
  'set role none',
  'reset role',
  'reset all',
  'discard all',
  "load 'auto_explain'",
  'prepare mine as delete from kept',
  'declare mine cursor with hold for select * from kept',
  'begin',
  'commit',
  'rollback',
  'end',
  'savepoint mine',
  "prepare transaction 'mine'",
  "security label on table kept is 'mine'",
  'import foreign schema public from server mine into public',
];

/** Variants that a filter by keywords would not recognise. */
const GENERATED = [
  ...COMMANDS,
  ...CALLS.map((call) => `select ${call}`),
  ...CALLS.slice(0, 8).map((call) => `explain analyze select ${call}`),
  ...CALLS.slice(0, 8).map((call) => `select x from (select ${call.split(' from ')[0]}) x(x)`),
  ...CHANGES,
  ...CHANGES.map((change) => `${change} returning *`),
  ...CHANGES.map((change) => `with gone as (${change} returning *) select count(*) from gone`),
  ...CHANGES.map((change) => `explain analyze ${change}`),
  ...CHANGES.map((change) => `/* select */ ${change} -- select`),
  ...CHANGES.map((change) => change.toUpperCase().replaceAll(' ', '\n\t')),
  ...CHANGES.map((change) => `commit; ${change}`),
  ...CHANGES.map((change) => `commit/**/;${change};begin read only`),
  ...CHANGES.map((change) => `set transaction read write; ${change}`),
  ...CHANGES.map((change) => `select 1; ${change}`),
  ...CHANGES.map((change) => `${change};`),
  ...CHANGES.map((change) => `begin read write; ${change}; commit`),
  ...CHANGES.map((change) => `explain (analyze, format json) ${change}`),
  ...CHANGES.map((change) => `do language plpgsql $x$ begin perform 1; ${change}; end $x$`),
  ...CHANGES.map((change) => `do $x$ begin set local transaction_read_only = off; ${change}; end $x$`),
  ...CHANGES.map(
    (change) =>
      `select query_to_xml($x$ with g as (${change} returning 1) select * from g $x$, true, true, '')`,
  ),
];

const ROLES =
  "('svc_owner', 'svc_reader', 'svc_asker', 'authenticator', 'anon', 'authenticated', 'service_role', 'mine')";

/** Queries for all effects that another connection could observe, including changes to the server. */
const OBSERVABLE_STATE = [
  `select table_schema, table_name, query_to_xml(format('select * from %I.%I order by 1', table_schema, table_name), true, true, '')::text
    from information_schema.tables where table_schema in ('public', 'auth', 'storage', 'svc_meta') and table_type = 'BASE TABLE' order by 1, 2`,
  'select oid, relname, relacl::text, relrowsecurity, relkind, reloptions, ' +
    'relfilenode from pg_class where oid > 16384 order by 1',
  'select oid, proname, proacl::text from pg_proc where oid > 16384 order by 1',
  'select rolname, rolsuper, rolbypassrls, rolcreaterole, rolcanlogin, ' +
    `rolpassword is null from pg_authid where rolname in ${ROLES} order by 1`,
  `select roleid::regrole, member::regrole from pg_auth_members where member::regrole::text in ${ROLES} order by 1, 2`,
  `select setrole::regrole, setconfig from pg_db_role_setting where setrole::regrole::text in ${ROLES} order by 1`,
  'select datacl::text from pg_database where datname = current_database()',
  "select count(*)::int from pg_database where datname = 'mine'",
  'select oid, nspname, nspacl::text from pg_namespace where oid > 16384 order by 1',
  'select defaclacl::text from pg_default_acl order by 1',
  "select slot_name from pg_replication_slots where database = current_database() or slot_name = 'mine' order by 1",
  "select roname from pg_replication_origin where roname = 'mine'",
  'select gid from pg_prepared_xacts where database = current_database()',
  'select oid from pg_largeobject_metadata',
  'select extname from pg_extension order by 1',
  'select pubname from pg_publication order by 1',
  'select tgname from pg_trigger where oid > 16384 order by 1',
  'select polname from pg_policy order by 1',
  'select description from pg_description where objoid > 16384 order by 1',
  'select count(*)::int from pg_collation where oid > 16384',
  'select last_value, is_called from counted',
  "select name, setting from pg_settings where name in ('log_statement', 'default_transaction_read_only', " +
    "'session_replication_role', 'shared_preload_libraries') order by 1",
  "select count(*)::int from pg_locks where locktype = 'advisory' and objid = 4711 " +
    'and database = (select oid from pg_database where datname = current_database())',
  "select count(*)::int from pg_ls_dir('/tmp') name where name = 'svc-reader-wrote'",
  "select pid from pg_stat_activity where application_name = 'kept' and datname = current_database() order by 1",
];

/** A separate server, because concurrent tests also change roles. */
let server: FreshCluster;
let database: TestDatabase;
let admin: pg.Client;
let owner: OwnerDatabase;
let reader: DatabaseAddress;
let asker: DatabaseAddress;
/** Connections of roles that an attacker could try to terminate. */
const clients: pg.Client[] = [];
const notifications: unknown[] = [];
const lost: unknown[] = [];

beforeAll(async () => {
  server = await startFreshCluster();
  database = await createDatabase({ server: server.url });
  const addresses = oneAddress(database.url);
  const provisioned = await provision(addresses);
  owner = new OwnerDatabase({
    address: provisioned.owner.direct,
    applicationName: 'svc',
    max: 2,
    idleTimeoutMs: 1_000,
  });
  admin = new pg.Client({ connectionString: database.url, application_name: 'kept' });
  await admin.connect();
  admin.on('notification', (notification) => notifications.push(notification));
  await admin.query(`
    create table of_another_role (id int);
    set role svc_owner;
    create table kept (id int); insert into kept values (1); create sequence counted;
    grant all on kept, counted to service_role;
    create function sneak() returns int language plpgsql security definer as 'begin delete from public.kept; return 1; end';
    reset role;
    listen kept`);
  reader = await provideReader(addresses, owner, ['public']);
  asker = await provideAsker(addresses);
  clients.push(await openAs(provisioned.authenticator.direct));
});
afterAll(async () => {
  for (const client of clients) await client.end().catch(() => {});
  await owner?.close();
  await admin?.end();
  await database?.drop();
  await server?.stop();
});

async function openAs(address: DatabaseAddress): Promise<pg.Client> {
  const [{ host, port }] = address.targets;
  const { user, password, database: name } = address;
  const client = new pg.Client({ host, port, user, password, database: name, application_name: 'kept' });
  client.on('error', (error) => lost.push(error));
  await client.connect();
  return client;
}

/** Returns a hash of each query in OBSERVABLE_STATE, so that a difference shows its query. */
async function fingerprint(): Promise<Record<string, string>> {
  const hashes: Record<string, string> = {};
  for (const query of OBSERVABLE_STATE) {
    const { rows } = await admin.query(query);
    hashes[query] = createHash('sha256').update(JSON.stringify(rows)).digest('hex');
  }
  return hashes;
}

test('the reader can read tables of the owner, but not tables of other roles', async () => {
  const read = (statement: string) =>
    runStatement(statement, {
      address: reader,
      applicationName: 'svc-test',
      write: false,
      timeoutMs: 5_000,
      limit: 10,
    });
  expect((await read('select id from kept')).rows).toEqual([['1']]);
  await expect(read('select id from of_another_role')).rejects.toThrow('permission denied');
});

/** Functions of PostgreSQL that write. Some do not exist in the oldest supported version. */
const WRITERS = [
  'lo_creat(-1)',
  'lo_create(4711)',
  "lo_from_bytea(0, 'mine')",
  "lo_put(1, 0, 'mine')",
  'lo_unlink(1)',
  "lowrite(lo_open(1, 131072), 'mine')",
  "pg_logical_emit_message(false, 'mine', 'text')",
  "pg_logical_emit_message(true, 'mine', 'text')",
  "pg_logical_emit_message(false, 'mine', 'text'::bytea)",
  "pg_logical_emit_message(false, 'mine', 'text', true)",
  "pg_clear_relation_stats('public', 'kept')",
  "pg_clear_attribute_stats('public', 'kept', 'id', false)",
  "pg_restore_relation_stats('schemaname', 'public', 'relname', 'kept', 'relpages', 9)",
  "pg_restore_attribute_stats('schemaname', 'public', 'relname', 'kept', 'attname', 'id', 'inherited', " +
    "false, 'null_frac', 0.5::real)",
];

test.each([
  ['the reader', undefined],
  ['a caller with write access', SERVICE],
])('%s cannot call functions of PostgreSQL that write', async (_name, caller) => {
  const allowed: string[] = [];
  for (const call of WRITERS) {
    const run = runStatement(`select ${call}`, {
      address: caller ? asker : reader,
      applicationName: 'svc-hostile',
      caller,
      // Some versions reject some of them in a read-only transaction, for another reason.
      write: true,
      timeoutMs: 5_000,
      limit: 10,
    });
    const code: unknown = await run.then(
      () => 'allowed',
      (error: unknown) => (isDatabaseError(error) ? error.code : error),
    );
    if (code !== '42501' && code !== '42883') allowed.push(`${call}: ${String(code)}`);
  }
  expect(allowed).toEqual([]);
});

test.each([
  ['the reader', undefined],
  ['a caller with write access', SERVICE],
])(`${GENERATED.length} hostile statements of %s have no effect`, async (_name, caller) => {
  const before = await fingerprint();
  const allowed: string[] = [];
  for (const statement of GENERATED) {
    const run = runStatement(statement, {
      address: caller ? asker : reader,
      applicationName: 'svc-hostile',
      caller,
      write: false,
      timeoutMs: 300,
      lockTimeoutMs: 100,
      limit: 10,
    });
    await run.then(
      () => allowed.push(statement),
      () => {},
    );
    expect(await fingerprint(), statement).toEqual(before);
    expect([notifications, lost], statement).toEqual([[], []]);
  }
  // Statements that change nothing must pass. Statements that write must be rejected, not merely rolled back.
  const writes = /^(?!prepare).*(?:kept (?:values|set)|delete from kept|sneak)/is;
  expect(allowed.filter((privilege) => writes.test(privilege))).toEqual([]);
});

test.each([
  ['an attribute', 'alter role svc_reader createrole', 'alter role svc_reader nocreaterole'],
  ['a membership', 'grant pg_read_all_data to svc_reader', 'revoke pg_read_all_data from svc_reader'],
])('a reader with %s is rejected', async (_name, grant, revoke) => {
  await admin.query(grant);
  try {
    await expect(provideReader(oneAddress(database.url), owner, ['public'])).rejects.toMatchObject({
      code: 'unsafe_session',
      message: 'svc_reader has more rights than svc gave it',
    });
  } finally {
    await admin.query(revoke);
  }
});
