// Tests the roles of policies: in the file, in the database, and in a pulled file.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import pg from 'pg';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

/** A unique role for the tests of this file, because roles belong to the cluster. */
const REPORTING = `svc_test_reporting_${process.pid}`;

let world: World;
beforeAll(async () => {
  world = await aWorld();
  await world.sql(`create role ${REPORTING}`);
});
afterAll(async () => {
  await world.empty();
  await world.sql(`drop owned by ${REPORTING}; drop role ${REPORTING}`);
  await world.close();
});
beforeEach(() => world.empty());

const file = (...policies: string[]): string =>
  'tables:\n  notes:\n    fields:\n      - { name: id, type: integer, primary_key: true }\n' +
  `      - { name: owner, type: uuid }\n    rls: [${policies.join(', ')}]\n`;

const policies = (where = `tablename = 'notes'`): Promise<Record<string, unknown>[]> =>
  world.sql(
    `select policyname as name, array_to_string(roles, ',') as roles from pg_policies where ${where} order by 1`,
  );

async function rowsVisibleTo(role: string): Promise<unknown> {
  const client = new pg.Client(world.url);
  await client.connect();
  try {
    await client.query(`set role ${role}`);
    return (await client.query('select array_agg(id order by id) as ids from notes')).rows[0].ids;
  } finally {
    await client.end();
  }
}

test('a policy applies only to its roles', async () => {
  await world.settle(file('{ operations: [all], to: authenticated, using: "true" }'));
  await world.sql('insert into notes values (1), (2)');
  expect(await policies()).toEqual([{ name: 'notes_p1_all', roles: 'authenticated' }]);
  expect([await rowsVisibleTo('anon'), await rowsVisibleTo('authenticated')]).toEqual([null, [1, 2]]);
});

test('a changed role in the file changes the policy', async () => {
  await world.settle(file('{ operations: [select], to: [authenticated], using: "true" }'));
  const plan = await world.plan(file(`{ operations: [select], to: [${REPORTING}, anon], using: "true" }`));
  expect(plan.steps.map((step) => step.summary)).toEqual([
    'policy notes_p1_select (select)',
    `policy: anon, ${REPORTING} can read every row`,
  ]);
  await world.settle(file(`{ operations: [select], to: [${REPORTING}, anon], using: "true" }`));
  expect(await policies()).toEqual([{ name: 'notes_p1_select', roles: `anon,${REPORTING}` }]);
  await world.settle(file('{ operations: [select], using: "true" }'));
  expect(await policies()).toEqual([{ name: 'notes_p1_select', roles: 'anon,authenticated' }]);
});

test('manually changed roles are reverted', async () => {
  const declared = file('{ operations: [select], to: authenticated, using: "true" }');
  await world.settle(declared);
  await world.sql('alter policy notes_p1_select on notes to anon');
  expect((await world.plan(declared)).steps).toHaveLength(2);
  await world.settle(declared);
  expect(await policies()).toEqual([{ name: 'notes_p1_select', roles: 'authenticated' }]);
});

test('a missing role is refused with its position', async () => {
  expect(await world.refusal(file('{ operations: [select], to: [autenticated], using: "true" }'))).toEqual([
    expect.stringMatching(/^MIG-114 svc\.yaml:\d+:\d+: there is no role autenticated$/),
  ]);
});

test('a policy of a bucket can have roles', async () => {
  const bucket = (to: string): string =>
    `tables: {}\nstorage: { pics: { rls: [{ operations: [select], to: ${to}, using: "true" }] } }\n`;
  const roles = (): Promise<Record<string, unknown>[]> => policies(`policyname like 'svc\\_pics%'`);
  await world.settle(bucket('authenticated'));
  expect(await roles()).toMatchObject([{ roles: 'authenticated' }]);
  await world.settle(bucket('[anon]'));
  expect(await roles()).toMatchObject([{ roles: 'anon' }]);
});

describe('existing policies', () => {
  const made = async (...statements: string[]): Promise<void> => {
    await world.sql(`create table notes (id integer primary key, owner uuid);
      alter table notes owner to svc_owner; alter table notes enable row level security;
      grant select, insert, update, delete on notes to anon, authenticated; grant all on notes to service_role;
      ${statements.join(';\n')}`);
  };
  const oids = (): Promise<Record<string, unknown>[]> =>
    world.sql(`select oid::text, polname from pg_policy where polrelid = 'notes'::regclass order by 2`);

  test('are pulled with their roles and not created again', async () => {
    await made(
      `create policy a on notes for select to authenticated using (auth.uid() = owner)`,
      `create policy b on notes for update to authenticated, service_role using ((select auth.uid()) = owner)`,
      `create policy c on notes for delete to ${REPORTING} using (id > 1)`,
      `create policy d on notes for insert to public with check (auth.uid() = owner)`,
      `create policy e on notes as restrictive to anon using (id > 0)`,
    );
    const before = await oids();
    const declared = await pulled(world);
    expect(declared).not.toContain('service_role');
    await world.settle(declared);
    expect(await oids()).toEqual(before);
    await world.settle(declared);
    expect(await oids()).toEqual(before);
    await world.settle(file());
    expect(await oids()).toEqual([]);
  });

  test('for PUBLIC become policies for the API roles only if no other role has grants on the table', async () => {
    await made(`create policy a on notes for select using (id > 0)`);
    const declared = await pulled(world);
    expect(declared).not.toContain('to:');
    await world.settle(declared);
    await world.sql(`grant select (id) on notes to ${REPORTING}`);
    expect((await world.plan(declared)).steps).toHaveLength(2);
    const now = await pulled(world);
    expect(now).toMatch(/to: \[? ?public/);
    expect((await world.plan(now)).steps).toEqual([]);
  });

  test('with a sub-select are pulled unwrapped and kept when the file adds a policy', async () => {
    await made(
      `create table teams (id integer, member uuid); alter table teams owner to svc_owner`,
      `create policy a on notes for select to authenticated
         using (exists (select from teams t where t.member = auth.uid()) or owner = auth.uid())`,
      `create policy b on notes for delete to authenticated using (owner = auth.uid())`,
    );
    const before = await oids();
    const declared = await pulled(world);
    await world.settle(declared);
    expect(await oids()).toEqual(before);
  });

  test('for service_role alone are not pulled and not changed', async () => {
    await made(`create policy a on notes to service_role using (true)`);
    const declared = await pulled(world);
    expect(declared).toContain('policy a: it is for service_role, which bypasses policies');
    await world.settle(declared);
    expect(await oids()).toHaveLength(1);
  });
});

test('callers see the rows that their policies allow', async () => {
  await world.settle(
    file(
      '{ operations: [select], to: authenticated, using: "id = 1" }',
      '{ operations: [select], to: anon, using: "id = 2" }',
    ),
  );
  await world.sql('insert into notes values (1), (2), (3)');
  expect([
    await rowsVisibleTo('anon'),
    await rowsVisibleTo('authenticated'),
    await rowsVisibleTo('service_role'),
  ]).toEqual([[2], [1], [1, 2, 3]]);
});
