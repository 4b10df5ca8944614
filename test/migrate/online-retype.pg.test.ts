// Tests online type changes of a column of a large table: every row keeps its value, objects that use the column are
// created on the new column, and objects for which this is impossible are reported by name.
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { aWorld, type World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await aWorld();
});
afterEach(() => world.close());

/** A write block of 0 ms makes every table large. */
const LARGE = { maxWriteBlockMs: 0 };
const ROWS = 300;

const BEFORE = `
tables:
  people:
    fields:
      - { name: id, type: serial, primary_key: true }
      - { name: code, type: text, required: true, unique: true }
      - { name: amount, type: integer, default: 7, min: -5 }
      - { name: note, type: text }
    indexes:
      - { columns: [amount, note] }
      - { columns: [note], where: amount > 3 }
    rls: [{ operations: [select], using: amount > 0 and id > 0 }]
  orders:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: person, required: true, foreign_key: { references: people.id, on_delete: cascade } }
    rls: [{ operations: [select], using: exists (select from people p where p.id = person) }]
`;
const AFTER = BEFORE.replace('type: serial', 'type: bigserial')
  .replace('name: code, type: text', 'name: code, type: uuid, using: "code::uuid"')
  .replace('name: amount, type: integer', 'name: amount, type: "numeric(12,2)"');

async function fillPeople(where: World = world): Promise<void> {
  await where.settle(BEFORE);
  await where.sql(`
    insert into people (code, amount, note) select gen_random_uuid()::text, nullif(n % 50, 0), 'note ' || n
      from generate_series(1, ${ROWS}) n;
    insert into orders select n, n from generate_series(1, ${ROWS}) n;
    comment on column people.amount is 'in cents';
    grant select (amount) on people to anon;
    alter table people alter column amount set statistics 77;
    create table copy as select * from people;
    analyze people; analyze orders`);
}

const STRUCTURE = `
  select 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' '
    || a.attnotnull || ' '
      || coalesce(pg_get_expr(d.adbin, d.adrelid), '') || ' '
        || coalesce(col_description(c.oid, a.attnum), '') || ' ' || coalesce(a.attacl::text, '')
      || ' ' || coalesce(to_jsonb(a) ->> 'attstattarget', '') as line
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
    where c.relname in ('people', 'orders')
  union all select 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
    || convalidated from pg_constraint where connamespace = 'public'::regnamespace and contype <> 'n'
  union all select 'index ' || indexdef from pg_indexes where schemaname = 'public'
  union all select 'policy ' || tablename || policyname || qual from pg_policies where schemaname = 'public'
  union all select 'sequence ' || sequencename || ' ' || data_type || ' ' || max_value || ' ' || last_value
    from pg_sequences where schemaname = 'public'
  union all select 'sequence grants ' || relname || relacl::text from pg_class
    where relkind = 'S' and relnamespace = 'public'::regnamespace
  union all select 'trigger ' || tgname from pg_trigger
    where not tgisinternal and tgrelid in ('people'::regclass, 'orders'::regclass)
  union all select 'function ' || proname from pg_proc where proname like 'svc\\_%'
  order by 1`;

test('a type change of a large table keeps all objects that use the column', async () => {
  await fillPeople();
  await world.settle(AFTER, LARGE);
  const direct = await aWorld();
  try {
    await fillPeople(direct);
    await direct.settle(AFTER);
    expect(await world.sql(STRUCTURE)).toEqual(await direct.sql(STRUCTURE));
  } finally {
    await direct.close();
  }
  expect(
    await world.sql(`select count(*)::int as rows, bool_and(p.code::text = c.code) as codes,
      bool_and(p.amount is not distinct from c.amount) as amounts from people p join copy c using (id)`),
  ).toEqual([{ rows: ROWS, codes: true, amounts: true }]);
  expect(
    await world.sql(`insert into people (code) values (gen_random_uuid()) returning id::int, amount::text`),
  ).toEqual([{ id: ROWS + 1, amount: '7.00' }]);
});

test('rows that are written during the backfill have the right values', async () => {
  await fillPeople();
  // A reader that blocks the concurrent index builds keeps the change open while rows are written.
  const reader = new pg.Client(world.url);
  await reader.connect();
  await reader.query('begin isolation level repeatable read');
  await reader.query('select from copy');
  const done = world.apply(AFTER, LARGE);
  await expect
    .poll(
      async () =>
        (
          await world.sql(
            `select from pg_stat_activity where query like 'create%index concurrently%'
              and datname = current_database()`,
          )
        ).length,
    )
    .toBe(1);
  await world.sql(`
    update people set amount = 40 where id = 3;
    update people set amount = null where id = 4;
    delete from people where id = 5;
    insert into people (code, amount) values ('11111111-1111-4111-8111-111111111111', 12);
    insert into people (code, amount) values ('22222222-2222-4222-8222-222222222222', null)`);
  await reader.query('commit');
  await reader.end();
  expect((await done).kind).toBe('applied');
  expect(
    await world.sql(
      `select id::int, amount::text, code::text like '%-%' as code from people where id in (3, 4, 5) or id > ${ROWS}
        order by id`,
    ),
  ).toEqual([
    { id: 3, amount: '40.00', code: true },
    { id: 4, amount: null, code: true },
    { id: ROWS + 1, amount: '12.00', code: true },
    { id: ROWS + 2, amount: null, code: true },
  ]);
  expect((await world.plan(AFTER, LARGE)).steps).toEqual([]);
});

test('an identity column continues its sequence', async () => {
  const yaml = (type: string): string => `
tables:
  tickets:
    fields:
      - { name: id, type: ${type}, primary_key: true }
      - { name: title, type: text }
    rls: []
`;
  await world.sql(`set role svc_owner;
    create table tickets (id int generated always as identity (start 10 increment 5) primary key,
    title text); reset role;
    insert into tickets (title) select 'ticket' from generate_series(1, 20); analyze tickets`);
  await world.settle(yaml('serial'), LARGE);
  await world.settle(yaml('bigserial'), LARGE);
  expect(
    await world.sql(
      `insert into tickets (title) values ('next') returning id::int, pg_typeof(id)::text as type`,
    ),
  ).toEqual([{ id: 110, type: 'bigint' }]);
  expect(
    await world.sql(`select sequencename as name, data_type::text as type, increment_by::int as step,
      a.attidentity as kind
      from pg_sequences, pg_attribute a where a.attrelid = 'tickets'::regclass and a.attname = 'id'
        and schemaname = 'public'`),
  ).toEqual([{ name: 'tickets_id_seq', type: 'bigint', step: 5, kind: 'a' }]);
});

test('nulls of a column that becomes required get its backfill, also if written during the change', async () => {
  await fillPeople();
  const yaml = AFTER.replace('default: 7', 'default: 7, required: true, backfill: "id * 1000"');
  await world.settle(yaml, LARGE);
  expect(
    await world.sql(
      `select count(*)::int as rows, bool_and(p.amount = coalesce(c.amount, p.id * 1000)) as right from people p
        join copy c using (id)`,
    ),
  ).toEqual([{ rows: ROWS, right: true }]);
});

describe('undeclared triggers', () => {
  const touched = `
    create function touch() returns trigger language plpgsql as $$ begin new.note := 'touched'; return new; end $$;
    create trigger touch before update on people for each row execute function touch()`;

  test('do not fire during a backfill', async () => {
    await fillPeople();
    await world.sql(touched);
    await world.settle(
      AFTER.replace(
        'name: note, type: text }',
        'name: note, type: text }\n      - { name: score, type: integer, required: true, backfill: id * 2 }',
      ),
      LARGE,
    );
    expect(await world.sql(`select count(*)::int as touched from people where note = 'touched'`)).toEqual([
      { touched: 0 },
    ]);
    expect(await world.sql(`select bool_and(score = id * 2) as filled from people`)).toEqual([
      { filled: true },
    ]);
    await world.sql(`update people set amount = 1 where id = 9`);
    expect(await world.sql(`select note from people where id = 9`)).toEqual([{ note: 'touched' }]);
  });

  test('do not fire in the transaction for a small table', async () => {
    await fillPeople();
    await world.sql(touched);
    await world.settle(
      BEFORE.replace(
        'name: note, type: text }',
        'name: note, type: text }\n      - { name: score, type: integer, required: true, backfill: id * 2 }',
      ),
    );
    expect(
      await world.sql(
        `select count(*)::int as touched, bool_and(score = id * 2) as filled from people where note = 'touched'
          or score is null`,
      ),
    ).toEqual([{ touched: 0, filled: null }]);
  });

  test('a foreign key is checked during a backfill', async () => {
    await fillPeople();
    await world.sql(
      `alter table orders alter column person drop not null; update orders set person = null where id = 3`,
    );
    const yaml = BEFORE.replace(
      '{ name: person, required: true,',
      // The check of the rows does not find this, because it has its own deadline.
      '{ name: person, required: true, ' +
        `backfill: "case when current_setting('statement_timeout') = '30s' then 1 else 99999 end",`,
    );
    expect(await world.refusal(yaml, LARGE)).toEqual([
      expect.stringMatching(/^MIG-203 .*orders_person_fkey/),
    ]);
  });

  test('a backfill with triggers that cannot be suppressed is refused with their names', async () => {
    await fillPeople();
    await world.sql(`${touched}; alter table people enable always trigger touch`);
    const problems = await world.refusal(AFTER, LARGE);
    expect(problems).toHaveLength(3);
    expect(problems[0]).toMatch(
      /^MIG-301 .*cannot be done online, because the trigger touch would fire for each row of the fill$/,
    );
    await world.settle(AFTER, { ...LARGE, allow: ['rewrite'] });
  });
});

describe('an undeclared object that uses the column blocks the change', () => {
  test.each([
    ['create index people_lower on people (lower(code))', 'index people_lower uses it'],
    [
      'alter table people add constraint odd check (amount <> 1300)',
      'constraint odd on table people uses it',
    ],
    ['create statistics pair on amount, note from people', 'statistics object pair uses it'],
    [
      'alter table people add column twice int generated always as (amount * 2) stored',
      'column twice of table people uses it',
    ],
    [
      'create table other (person int references people (id))',
      'constraint other_person_fkey on table other uses it',
    ],
    [
      `create function f() returns trigger language plpgsql as 'begin return new; end';
        create trigger t after update of amount on people for each row execute function f()`,
      'trigger t on table people uses it',
    ],
    [
      'create policy mine on people for select to anon using (amount = 1)',
      'a policy that is not in the file uses what changes: public.people mine',
    ],
    ['alter table people replica identity using index people_code_key', 'an index is its replica identity'],
  ])('%s', async (statement, reason) => {
    await fillPeople();
    await world.sql(`set role svc_owner; ${statement}; reset role`);
    const problems = await world.refusal(AFTER, LARGE);
    expect(problems.join('\n')).toMatch(new RegExp(`^MIG-30[14] .*${reason}`, 'm'));
  });
});

test('a new value that cannot be cast stops the change and keeps the old column', async () => {
  const yaml = BEFORE.replace(
    'name: note, type: text',
    'name: note, type: integer, using: "note::integer"',
  ).replace(
    '      - { columns: [amount, note] }\n      - { columns: [note], where: amount > 3 }',
    '      - { columns: [amount] }',
  );
  await world.settle(
    BEFORE.replace(
      '      - { columns: [amount, note] }\n      - { columns: [note], where: amount > 3 }',
      '      - { columns: [amount] }',
    ),
  );
  await world.sql(
    `insert into people (code, note) select n, n from generate_series(1, 50) n; analyze people;
      create table copy as select * from people`,
  );
  const reader = new pg.Client(world.url);
  await reader.connect();
  await reader.query('begin');
  await reader.query('lock table people in share update exclusive mode');
  const refused = expect(world.apply(yaml, { ...LARGE, lockBudgetMs: 60_000 })).rejects.toThrow(
    /not a value of the type \(SQLSTATE 22P02\)/,
  );
  // The shadow column waits for its lock. This row was written after the rows were checked.
  await expect
    .poll(
      async () =>
        (await world.sql(`select from pg_locks where not granted and relation = 'people'::regclass`)).length,
    )
    .toBeGreaterThan(0);
  await reader.query(`update people set note = 'n/a' where id = 7`);
  await reader.query('commit');
  await reader.end();
  await refused;
  expect(
    await world.sql(`select pg_typeof(note)::text as type, note from people where id in (6, 7) order by id`),
  ).toEqual([
    { type: 'text', note: '6' },
    { type: 'text', note: 'n/a' },
  ]);
  await world.sql(`update people set note = '70' where id = 7`);
  await world.settle(yaml, LARGE);
  expect(await world.sql(`select note from people where id = 7`)).toEqual([{ note: 70 }]);
});

test('only changes that use the column are deferred', async () => {
  await fillPeople();
  const yaml = `${AFTER.replace('using: amount > 0 and id > 0 }]', 'using: code = auth.uid() and amount > 0 }]')}
  badges:
    fields:
      - { name: id, type: uuid, primary_key: true, default: uuid_v4() }
      - { name: person, foreign_key: { references: people.code } }
    rls: [{ operations: [select], using: mine(person) }]
  unrelated:
    fields: [{ name: id, type: integer, primary_key: true }, { name: word, type: text, default: none }]
    rls: []
rpc:
  mine:
    language: sql
    volatility: stable
    args: [{ name: one, type: uuid, required: true }]
    returns: { type: boolean }
    body: select exists (select from people where code = one)
`;
  const reader = new pg.Client(world.url);
  await reader.connect();
  await reader.query('begin isolation level repeatable read');
  await reader.query('select from copy');
  const done = world.apply(yaml, LARGE);
  await expect
    .poll(
      async () =>
        (
          await world.sql(
            `select from pg_stat_activity where query like 'create%index concurrently%'
              and datname = current_database()`,
          )
        ).length,
    )
    .toBe(1);
  const there = `select to_regclass('unrelated') is not null as unrelated, to_regproc('mine') is not null as mine,
    (select count(*)::int from pg_policy where polrelid = 'badges'::regclass) as policies,
    has_table_privilege('anon', 'badges', 'select') as granted,
    (select qual from pg_policies where tablename = 'people') as policy`;
  // The table is not accessible without its policy.
  expect(await world.sql(there)).toEqual([
    { unrelated: true, mine: false, policies: 0, granted: false, policy: '((amount > 0) AND (id > 0))' },
  ]);
  await reader.query('commit');
  await reader.end();
  expect((await done).kind).toBe('applied');
  expect(await world.sql(there)).toEqual([
    {
      unrelated: true,
      mine: true,
      policies: 1,
      granted: true,
      policy: expect.stringMatching(
        /^\(\(code = \(.*auth\.uid\(\).*\)\) AND \(amount > \(0\)::numeric\)\)$/s,
      ),
    },
  ]);
  expect((await world.plan(yaml, LARGE)).steps).toEqual([]);
});

test('an online type change and one without a rewrite keep the policies of both columns', async () => {
  const file = (id: string, name: string): string => `
tables:
  things:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: size, type: ${id} }
      - { name: name, type: ${name} }
    rls:
      - { operations: [select], using: name <> '' }
      - { operations: [update], using: size > 0 }
`;
  await world.settle(file('integer', 'varchar(10)'));
  await world.sql(
    `insert into things select n, n, 'name ' || n from generate_series(1, 20) n; analyze things`,
  );
  await world.settle(file('bigint', 'varchar(20)'), LARGE);
});

test('a type change without a lock reports only the lock', async () => {
  const file = (type: string): string => `
tables:
  things:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: size, type: ${type} }
    rls: []
`;
  await world.settle(file('integer'));
  await world.sql(`insert into things select n, n from generate_series(1, 20) n; analyze things`);
  const reader = new pg.Client(world.url);
  await reader.connect();
  await reader.query('begin; lock table things in access share mode');
  // One line, because later steps do not report a missing column.
  await expect(world.apply(file('bigint'), { ...LARGE, lockBudgetMs: 500 })).rejects.toThrow(
    /^could not lock public\.things within 0\.5 s[^\n]*$/,
  );
  await reader.end();
  await world.settle(file('bigint'), LARGE);
});
