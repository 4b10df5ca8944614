// Tests `on_update` and `on_new_user`: their effects, the reversal of manual changes, and pulled files.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
  await world.sql(`delete from auth.users;
    do $$ declare one record; begin
      for one in select tgname from pg_trigger
        where tgrelid = 'auth.users'::regclass and tgname like 'svc\\_new\\_user%' loop
        execute format('drop trigger %I on auth.users', one.tgname);
      end loop;
      for one in select oid::regprocedure as fn from pg_proc where proname ~ '^(on_update|new_user)_' loop
        execute format('drop function %s', one.fn);
      end loop;
    end $$`);
});

const LARGE = { maxWriteBlockMs: 0 };

const functions = async (): Promise<number> => {
  const [row] = await world.sql(
    `select count(*)::int as n from pg_proc where pronamespace = 'svc_meta'::regnamespace
      and proname ~ '^(on_update|new_user)_'`,
  );
  return Number(row?.['n']);
};

describe('on_update', () => {
  const file = (...fields: string[]): string =>
    'tables:\n  notes:\n    rls: []\n    fields:\n' +
    '      - { name: id, type: integer, primary_key: true }\n      - { name: title, type: text }\n' +
    `      - { name: details, type: json }\n${fields.map((field) => `      - ${field}\n`).join('')}`;
  const stamped = '{ name: updated_at, type: timestamptz, on_update: now() }';
  const counted = '{ name: version, type: integer, default: 1, on_update: { sql: old.version + 1 } }';
  const rows = (): Promise<Record<string, unknown>[]> =>
    world.sql('select id, version, updated_at is not null as stamped from notes order by id');

  test('changes with the row, does not change without a change, and cannot be set', async () => {
    await world.settle(file(stamped, counted));
    await world.sql(`insert into notes (id, title, details) values (1, 'a', '{"a":1}')`);
    await world.sql(`update notes set title = 'a', details = '{"a":1}'`);
    expect(await rows()).toEqual([{ id: 1, version: 1, stamped: false }]);
    await world.sql(`update notes set title = 'b', version = 99`);
    expect(await rows()).toEqual([{ id: 1, version: 2, stamped: true }]);
    await world.sql(`update notes set details = '{"a":2}'`);
    expect(await rows()).toEqual([{ id: 1, version: 3, stamped: true }]);
  });

  test('works with generated columns, which are not computed in a BEFORE trigger', async () => {
    const [server] = await world.sql(
      `select current_setting('server_version_num')::int >= 180000 as virtual`,
    );
    const generated = [
      '{ name: shout, type: text, generated: "upper(title)" }',
      ...(server?.['virtual'] === true
        ? ['{ name: whisper, type: text, generated: { sql: "lower(title)", virtual: true } }']
        : []),
    ];
    await world.settle(file(counted));
    for (const fields of [[counted], [counted, ...generated]]) {
      await world.settle(file(...fields));
      expect((await world.plan(file(...fields))).steps).toEqual([]);
      await world.sql(`delete from notes; insert into notes (id, title) values (1, 'a')`);
      await world.sql(`update notes set title = 'a'`);
      expect(await world.sql('select version from notes')).toEqual([{ version: 1 }]);
      await world.sql(`update notes set title = 'b'`);
      expect(await world.sql('select version from notes')).toEqual([{ version: 2 }]);
    }
    expect(await world.sql('select shout from notes')).toEqual([{ shout: 'B' }]);
  });

  test.each([{}, LARGE])('does not fire while migrations change rows: %o', async (policy) => {
    await world.settle(file(stamped, counted));
    await world.sql(`insert into notes (id, title) values (1, 'a')`);
    await world.settle(
      file(stamped, counted, `{ name: size, type: integer, required: true, backfill: "1" }`),
      policy,
    );
    await world.settle(
      file(stamped, counted, `{ name: size, type: text, required: true, backfill: "1" }`),
      policy,
    );
    expect(await rows()).toEqual([{ id: 1, version: 1, stamped: false }]);
    expect(await world.sql('select size from notes')).toEqual([{ size: '1' }]);
  });

  test.each([{}, LARGE])('follows the type, the name and the removal of its column: %o', async (policy) => {
    await world.settle(file(stamped, counted));
    await world.sql(`insert into notes (id) values (1)`);
    await world.settle(file(stamped, counted.replace('integer', 'bigint')), policy);
    await world.sql(`update notes set title = 'b'`);
    expect(await world.sql('select version::int from notes')).toEqual([{ version: 2 }]);
    const renamed =
      '{ name: edits, renamed_from: version, type: bigint, default: 1, on_update: { sql: old.edits + 1 } }';
    await world.settle(file(stamped, renamed), policy);
    await world.sql(`update notes set title = 'c'`);
    expect(await world.sql('select edits::int from notes')).toEqual([{ edits: 3 }]);
    await world.settle(
      file(stamped, renamed).replace('  notes:', '  letters:\n    renamed_from: notes'),
      policy,
    );
    await world.sql(`update letters set title = 'd'`);
    expect(await world.sql('select edits::int from letters')).toEqual([{ edits: 4 }]);
    expect(await functions()).toBe(1);
    await world.settle(file().replace('  notes:', '  letters:'), policy);
    await world.sql(`update letters set title = 'e'`);
    expect(await functions()).toBe(0);
  });

  test.each([
    ['disabled', 'alter table notes disable trigger svc_on_update'],
    ['dropped', 'drop trigger svc_on_update on notes'],
    [
      'changed',
      `do $$ declare f text; begin
         select tgfoid::regproc into f from pg_trigger where tgname = 'svc_on_update';
         execute 'create or replace function ' || f
           || '() returns trigger language plpgsql as ''begin return new; end''';
       end $$`,
    ],
  ])('%s manually is detected and reverted', async (_how, text) => {
    const declared = file(stamped);
    await world.settle(declared);
    await world.sql(text);
    expect((await world.plan(declared)).steps.map((step) => step.summary)).toEqual([
      'on each update: updated_at = now()',
    ]);
    await world.settle(declared);
    await world.sql(`insert into notes (id) values (1); update notes set title = 'a'`);
    expect(await world.sql('select updated_at is not null as stamped from notes')).toEqual([
      { stamped: true },
    ]);
  });

  test('with an invalid expression is refused with its position', async () => {
    const wrong = (sql: string): Promise<string[]> =>
      world.refusal(file(`{ name: version, type: integer, on_update: { sql: ${sql} } }`));
    expect(await wrong('old.versoin + 1')).toEqual([
      expect.stringMatching(
        /^MIG-101 svc\.yaml:\d+:\d+: column old\.versoin does not exist\n {4}old\.versoin \+ 1\n {4}\^/,
      ),
    ]);
    expect(await wrong('clock_timestamp()')).toEqual([expect.stringContaining('cannot cast type')]);
    expect(await wrong('"1); drop table notes; select (1"')).toEqual([expect.stringMatching(/^MIG-101 /)]);
  });

  test('is dropped with its table', async () => {
    await world.settle(file(stamped));
    await world.settle('tables: {}\n', { drop: 'drop' });
    expect(await functions()).toBe(0);
  });
});

describe('on_new_user', () => {
  const file = (said: string): string => `tables:
  profiles:
    on_new_user: ${said}
    rls: []
    fields:
      - { name: id, primary_key: true, foreign_key: { references: auth.users.id, on_delete: cascade } }
      - { name: name, type: text }
`;
  const named = `{ id: id, name: "coalesce(raw_user_meta_data ->> 'name', split_part(email, '@', 1))" }`;
  const signUp = (email: string, meta = '{}', anonymous = false): Promise<unknown> =>
    world.sql(`insert into auth.users (email, raw_user_meta_data, is_anonymous) values ($1, $2, $3)`, [
      email,
      meta,
      anonymous,
    ]);
  const names = async (): Promise<unknown[]> =>
    (await world.sql('select name from profiles order by name')).map((row) => row['name']);

  test('creates a row for each new user and reports the number of users without a row', async () => {
    await world.settle('tables: {}\n');
    await signUp('before@x.org');
    const plan = await world.plan(file(named));
    expect(plan.notes).toEqual(['profiles gets no rows for 1 existing user']);
    await world.settle(file(named));
    await signUp('ann@x.org', '{"name":"Ann"}');
    await signUp('bob@x.org');
    expect(await names()).toEqual(['Ann', 'bob']);
  });

  test('skips users that do not match the condition, and existing rows', async () => {
    await world.settle(file(`{ when: not is_anonymous, set: ${named} }`));
    await signUp('ann@x.org', '{}', true);
    expect(await names()).toEqual([]);
    await world.sql(`create function public.early() returns trigger language plpgsql security definer as
        'begin insert into public.profiles values (new.id, ''early''); return null; end';
      create trigger a_early after insert on auth.users for each row execute function public.early()`);
    await signUp('bob@x.org');
    await world.sql('drop trigger a_early on auth.users; drop function public.early()');
    expect(await names()).toEqual(['early']);
  });

  test('can be changed, renamed and removed with its table', async () => {
    await world.settle(file(named));
    await world.settle(file(`{ id: id, name: "'Welcome'" }`));
    await signUp('ann@x.org');
    const renamed = file(`{ id: id, name: "'Hello'" }`).replace(
      '  profiles:',
      '  people:\n    renamed_from: profiles',
    );
    await world.settle(renamed);
    await signUp('bob@x.org');
    expect(await world.sql('select name from people order by 1')).toEqual([
      { name: 'Hello' },
      { name: 'Welcome' },
    ]);
    expect(await functions()).toBe(1);
    await world.settle('tables: {}\n');
    expect(await functions()).toBe(0);
    await signUp('cat@x.org');
  });

  test('is enabled again after it was disabled manually', async () => {
    await world.settle(file(named));
    await world.sql('alter table auth.users disable trigger svc_new_user_profiles');
    expect((await world.plan(file(named))).steps).toHaveLength(1);
    await world.settle(file(named));
    await signUp('ann@x.org');
    expect(await names()).toEqual(['ann']);
  });

  test('does not use the search path of the caller and can read only the user', async () => {
    expect(await world.refusal(file('{ id: id, name: encrypted_password }'))).toEqual([
      expect.stringContaining('column "encrypted_password" does not exist'),
    ]);
    expect(await world.refusal(file('{ id: id, name: greet(email) }'))).toEqual([
      expect.stringContaining('function greet(character varying) does not exist'),
    ]);
    const greet =
      'rpc:\n  greet: { language: sql, args: [{ name: a, type: text }], returns: { type: text }, ' +
      `body: "select 'Hi ' || a" }\n`;
    await world.settle(`${file('{ id: id, name: public.greet(email) }')}${greet}`);
    await signUp('ann@x.org');
    expect(await names()).toEqual(['Hi ann@x.org']);
  });

  test('of a table out of scope is kept when another table changes', async () => {
    const other = (type: string): string =>
      `${file(named)}  notes:\n    rls: []\n` +
      `    fields: [{ name: id, type: integer, primary_key: true }, { name: a, type: ${type} }]\n`;
    await world.settle(other('integer'));
    await world.settle(other('bigint'));
    await signUp('ann@x.org');
    expect(await names()).toEqual(['ann']);
  });
});

test('both are pulled, and the plan of the file is empty', async () => {
  await world.settle(`tables:
  profiles:
    on_new_user: { when: not is_anonymous, set: { id: id, name: email } }
    rls: []
    fields:
      - { name: id, primary_key: true, foreign_key: { references: auth.users.id, on_delete: cascade } }
      - { name: name, type: text }
      - { name: updated_at, type: timestamptz, on_update: now() }
      - { name: edits, type: integer, default: 0, on_update: { sql: old.edits + 1 } }
`);
  const declared = await pulled(world);
  expect(declared).toContain('on_update: now()');
  expect(declared).toContain('when: not is_anonymous');
  await world.sql('truncate svc_meta.stamp, svc_meta.object');
  expect((await world.plan(declared)).steps.map((step) => step.sql)).toEqual([]);
});
