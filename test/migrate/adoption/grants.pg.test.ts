// Tests declared grants. They are never extended without a permission.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import pg from 'pg';
import { pulled } from '../pulled.ts';
import { aWorld, type World } from '../world.ts';

/** Roles belong to the cluster. */
const REPORTING = `svc_test_grantee_${process.pid}`;

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

const file = (grants: string | null, more = 'rls: [{ operations: [all], using: "true" }]'): string => `
tables:
  notes:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: title, type: text }
      - { name: points, type: integer, default: 0 }
    ${more}
    ${grants === null ? '' : `grants: ${grants}`}
`;

/** Returns the privileges by role, without the owner. */
const grants = (): Promise<Record<string, unknown>[]> =>
  world.sql(`select grantee as role, string_agg(what, ', ' order by what) as may from (
      select grantee, lower(privilege_type) as what from information_schema.table_privileges where table_name = 'notes'
      union all
      select p.grantee, lower(p.privilege_type) || ' ' || p.column_name from information_schema.column_privileges p
      where p.table_name = 'notes' and not exists (select from information_schema.table_privileges t
        where t.table_name = 'notes' and t.grantee = p.grantee and t.privilege_type = p.privilege_type)) g
    where grantee <> 'svc_owner' group by 1 order by 1`);

const FOUR = 'delete, insert, select, update';
const ALL = 'delete, insert, references, select, trigger, truncate, update';
const SERVICE = { role: 'service_role', may: ALL };

async function as(role: string, statement: string): Promise<string> {
  const client = new pg.Client(world.url);
  await client.connect();
  try {
    await client.query(`set role ${role}`);
    await client.query(statement);
    return 'done';
  } catch (error) {
    return error instanceof pg.DatabaseError ? (error.code ?? '') : String(error);
  } finally {
    await client.end();
  }
}

test('a new table has the declared grants, and other API roles their default grants', async () => {
  await world.settle(file(`{ authenticated: [select, { update: [title] }], ${REPORTING}: [select] }`));
  expect(await grants()).toEqual([
    { role: 'anon', may: FOUR },
    { role: 'authenticated', may: 'select, update title' },
    SERVICE,
    { role: REPORTING, may: 'select' },
  ]);
  await world.sql('insert into notes values (1)');
  expect(await as('authenticated', `update notes set title = 'x'`)).toBe('done');
  expect(await as('authenticated', 'update notes set points = 1')).toBe('42501');
});

test('grants can be changed and removed', async () => {
  await world.settle(file('{ anon: [], authenticated: [select, { update: [title] }] }'));
  await world.settle(file('{ anon: [], authenticated: [select] }'));
  expect(await grants()).toEqual([{ role: 'authenticated', may: 'select' }, SERVICE]);
  const open = file('{ anon: [], authenticated: [select, update] }', 'rls: false');
  expect(await world.refusal(open)).toHaveLength(2);
  const silent = file('{ anon: [], authenticated: [select, update] }', '');
  expect(await world.refusal(silent)).toContainEqual(
    expect.stringMatching(/^MIG-303 svc\.yaml:\d+:\d+: grants: update for authenticated: more than/),
  );
  await world.settle(file(null), { allow: ['authz_open=tables.notes'] });
  expect(await grants()).toEqual([
    { role: 'anon', may: FOUR },
    { role: 'authenticated', may: FOUR },
    SERVICE,
  ]);
});

test('a renamed column keeps its grant, and a new column can have a grant', async () => {
  await world.settle(file('{ authenticated: [select, { update: [title] }] }'));
  const renamed = file('{ authenticated: [select, { update: [headline, body] }] }').replace(
    '{ name: title, type: text }',
    '{ name: headline, type: text, renamed_from: title }\n      - { name: body, type: text }',
  );
  await world.settle(renamed);
  expect(await grants()).toContainEqual({
    role: 'authenticated',
    may: 'select, update body, update headline',
  });
});

test('a type change of a column keeps its grant', async () => {
  await world.settle(file('{ authenticated: [select, { update: [points] }] }'));
  await world.settle(
    file('{ authenticated: [select, { update: [points] }] }').replace(
      'points, type: integer',
      'points, type: bigint',
    ),
  );
  expect(await grants()).toContainEqual({ role: 'authenticated', may: 'select, update points' });
});

test('manually changed grants are restored', async () => {
  const declared = file('{ anon: [select], authenticated: [select, { update: [title] }] }');
  await world.settle(declared);
  await world.sql('grant delete on notes to anon; grant select on notes to public');
  expect((await world.plan(declared)).steps).toHaveLength(1);
  await world.settle(declared);
  expect(await grants()).toEqual([
    { role: 'anon', may: 'select' },
    { role: 'authenticated', may: 'select, update title' },
    SERVICE,
  ]);
});

test('a missing role is refused with its position', async () => {
  expect(await world.refusal(file('{ autenticated: [select] }'))).toEqual([
    expect.stringMatching(/^MIG-114 svc\.yaml:\d+:\d+: there is no role autenticated$/),
  ]);
});

describe('existing grants', () => {
  const made = async (...statements: string[]): Promise<void> => {
    await world.sql(`create table notes (id integer primary key, title text, points integer default 0);
      alter table notes owner to svc_owner; alter table notes enable row level security;
      create policy own on notes to anon, authenticated using (true);
      ${statements.join(';\n')}`);
  };

  test('are pulled, and apply changes none of them', async () => {
    await made(
      `grant select, delete on notes to anon, authenticated;
        grant update (title), insert (id, title) on notes to authenticated`,
      `grant all on notes to service_role; grant select (id), truncate on notes to ${REPORTING}`,
    );
    const before = await grants();
    const declared = await pulled(world);
    expect(declared).toContain('grants:');
    expect((await world.plan(declared)).steps).toEqual([]);
    await world.settle(declared);
    expect(await grants()).toEqual(before);
    await world.empty();
    await world.settle(declared);
    expect(await grants()).toEqual(before);
  });

  test('to PUBLIC are pulled as grants of each role, and no API role gains or loses a privilege', async () => {
    await made(
      'grant select, insert on notes to public; grant update (title) on notes to public',
      'grant delete on notes to authenticated; grant all on notes to service_role',
    );
    const effective = (): Promise<Record<string, unknown>[]> =>
      world.sql(`select role, string_agg(what, ', ' order by what) as may
        from unnest('{anon,authenticated,service_role}'::text[]) role,
          unnest('{select,insert,update,delete}'::text[]) what
        where has_table_privilege(role, 'notes', what) or what = 'update'
          and has_column_privilege(role, 'notes', 'title', what) group by 1 order by 1`);
    const before = await effective();
    expect(before).toEqual([
      { role: 'anon', may: 'insert, select, update' },
      { role: 'authenticated', may: FOUR },
      { role: 'service_role', may: FOUR },
    ]);
    const declared = await pulled(world);
    expect(declared).toMatch(/update: \[ title \]/);
    expect(await world.apply(declared)).toMatchObject({ kind: 'applied' });
    expect(await effective()).toEqual(before);
    const given = [
      { role: 'anon', may: 'insert, select, update title' },
      { role: 'authenticated', may: 'delete, insert, select, update title' },
      SERVICE,
    ];
    expect(await grants()).toEqual(given);
    expect((await world.plan(declared)).steps).toEqual([]);
    await world.empty();
    await world.settle(declared);
    expect(await grants()).toEqual(given);
  });

  test('that protect a column are extended only with a permission', async () => {
    await made(
      'grant select, insert, delete on notes to authenticated; grant update (title) on notes to authenticated',
    );
    const before = await grants();
    expect(await world.refusal(file(null))).toEqual([
      expect.stringMatching(
        new RegExp(
          '^MIG-303 .* grants: delete, insert, select, update for anon; ' +
            'update for authenticated: more than the database grants',
        ),
      ),
    ]);
    expect(await grants()).toEqual(before);
    const plan = await world.plan(file(null), { allow: ['authz_open=tables.notes'] });
    expect(plan.steps.flatMap((step) => step.hazards)).toContain('AUTHZ_OPEN');
  });

  test('of an undeclared role are kept through other changes', async () => {
    await made(
      `grant select, update (title) on notes to ${REPORTING}`,
      'grant select, insert, update, delete on notes to anon, authenticated; grant all on notes to service_role',
    );
    await world.settle(file('{ anon: [select] }', 'rls: [{ operations: [select], using: "true" }]'));
    expect(await grants()).toEqual([
      { role: 'anon', may: 'select' },
      { role: 'authenticated', may: FOUR },
      SERVICE,
      { role: REPORTING, may: 'select, update title' },
    ]);
  });

  test('if empty, make a table without row-level security inaccessible, also in a new database', async () => {
    await world.sql(`create table notes (id serial primary key, title text); alter table notes owner to svc_owner;
      insert into notes (title) values ('kept')`);
    const attempts = (): Promise<string[]> =>
      Promise.all(
        ['anon', 'authenticated', 'service_role'].flatMap((role) =>
          [
            'select from notes',
            `insert into notes (title) values ('x')`,
            `update notes set title = 'x'`,
            'delete from notes',
            'truncate notes',
          ].map((statement) => as(role, statement)),
        ),
      );
    const denied = Array.from({ length: 15 }, () => '42501');
    expect(await attempts()).toEqual(denied);
    const declared = await pulled(world);
    expect((await world.plan(declared)).steps).toEqual([]);
    await world.settle(declared);
    expect(await attempts()).toEqual(denied);
    expect(await world.sql('select title from notes')).toEqual([{ title: 'kept' }]);
    await world.empty();
    await world.settle(declared);
    expect(await attempts()).toEqual(denied);
    await world.settle(declared.replace(/ {4}grants: .*\n/, '    rls: []\n'));
    expect(await as('anon', 'select from notes')).toBe('done');
  });

  test('if complete, as in Supabase, are pulled as one word', async () => {
    await made('grant all on notes to anon, authenticated, service_role');
    const declared = await pulled(world);
    expect(declared).toMatch(/anon: \[ all \]/);
    expect((await world.plan(declared)).steps).toEqual([]);
  });
});

describe('an extension that policies allow', () => {
  const WHOLE = 'rls: [{ operations: [all], to: [authenticated], using: "true" }]';
  const adopted = async (policy: string): Promise<void> =>
    void (await world.sql(`create table notes (id integer primary key, title text, points integer default 0);
      alter table notes owner to svc_owner; alter table notes enable row level security; ${policy};
      grant select on notes to authenticated; grant all on notes to service_role`));

  test('is refused for each privilege unless permitted', async () => {
    await adopted('create policy whole on notes to authenticated using (true)');
    expect(await world.refusal(file(null, WHOLE))).toEqual([
      expect.stringMatching(/^MIG-303 .* grants: delete, insert, update for authenticated: more/),
    ]);
    await world.settle(file(null, WHOLE), { allow: ['authz_open=tables.notes'] });
  });

  test('needs no permission if no policy lets the role use the privilege', async () => {
    await adopted('create policy whole on notes for select to authenticated using (true)');
    await world.settle(file(null, 'rls: [{ operations: [select], to: [authenticated], using: "true" }]'));
    expect(await grants()).toContainEqual({ role: 'authenticated', may: FOUR });
  });

  test('counts TRUNCATE, to which no policy applies', async () => {
    await adopted('create policy whole on notes for select to authenticated using (true)');
    const all = file(
      '{ anon: [], authenticated: [all] }',
      'rls: [{ operations: [select], to: [authenticated], using: "true" }]',
    );
    expect(await world.refusal(all)).toEqual([
      expect.stringMatching(/^MIG-303 .* grants: truncate for authenticated: more/),
    ]);
  });

  test('is refused if only the grants protect the rows', async () => {
    await world.settle(file('{ anon: [], authenticated: [select] }', 'rls: false'));
    expect(await world.refusal(file(null, 'rls: false'))).toEqual([
      expect.stringMatching(
        /^MIG-303 .* grants: delete, insert, select, update for anon; delete, insert, update for authenticated/,
      ),
    ]);
  });
});
