// Tests triggers: created, compared by their printed definition, kept through changes of objects that they use, and
// removed.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { toModel } from '../../src/migrate/schema/declared.ts';
import { readUnmanagedObjects } from '../../src/migrate/state/unmanaged.ts';
import { parseConfig } from './parse-config.ts';
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
      for one in select tgname from pg_trigger where tgrelid = 'auth.users'::regclass and not tgisinternal loop
        execute format('drop trigger %I on auth.users', one.tgname);
      end loop;
    end $$`);
});

const FIELDS = `      - { name: id, type: integer, primary_key: true }
      - { name: title, type: text }
      - { name: size, type: integer, default: 0 }
`;
const LOG = `  log:
    rls: []
    fields:
      - { name: n, type: bigserial, primary_key: true }
      - { name: entry, type: text }
`;
const note = (body: string, name = 'note', more = ''): string =>
  `  ${name}:\n    returns: { type: trigger }\n${more}    body: |\n${body
    .split('\n')
    .map((line) => `      ${line}`)
    .join('\n')}\n`;
const NOTE = note(`begin
  insert into log (entry) values (tg_name || ' ' || tg_op || ' ' || coalesce(new.title, 'null'));
  return new;
end`);
const COUNT = note(
  `begin
  insert into log (entry) select tg_op || ' ' || count(*) from changed;
  return null;
end`,
  'count_rows',
);

const file = (triggers: string, rpc = NOTE, fields = FIELDS): string =>
  'tables:\n  notes:\n    rls: []\n    fields:\n' +
  `${fields}${triggers === '' ? '' : `    triggers:\n${triggers}`}${LOG}` +
  (rpc === '' ? '' : `rpc:\n${rpc}`);
const readLog = async (): Promise<unknown[]> =>
  (await world.sql('select entry from log order by n')).map((row) => row['entry']);
const labels = async (table = 'notes'): Promise<unknown[]> =>
  (
    await world.sql(
      `select tgname::text as name from pg_trigger where tgrelid = $1::regclass and not tgisinternal order by 1`,
      [table],
    )
  ).map((row) => row['name']);

const AFTER = '      - { timing: after, events: insert, call: note }\n';

describe('a trigger of a table', () => {
  test('is created with its function, fires, and is removed', async () => {
    await world.settle(file(AFTER));
    await world.sql(`insert into notes values (1, 'a')`);
    expect(await readLog()).toEqual(['notes_after_insert_note INSERT a']);
    await world.settle(file(''));
    await world.sql(`insert into notes values (2, 'b')`);
    expect(await readLog()).toHaveLength(1);
    expect(await labels()).toEqual([]);
  });

  test.each([
    ['before', 'timing: before, events: [update, insert]'],
    ['of columns', 'timing: after, events: [update], of: [title, size]'],
    [
      'with a condition',
      `timing: after, events: [update], when: "new.title <> 'x' and old.size between 1 and 3"`,
    ],
    ['with arguments', `timing: before, events: [delete], args: [one, "it's", "", 1.10]`],
    ['for each statement', 'timing: after, events: [truncate, delete], each: statement'],
    ['deferrable', 'timing: after, events: [insert, update], constraint: { deferrable: deferred }'],
    ['a constraint', 'timing: after, events: [insert], constraint: {}'],
    ['off', 'timing: after, events: [insert], enabled: false'],
    ['for replicated rows', 'timing: after, events: [insert], enabled: replica'],
    ['always', 'timing: after, events: [insert], enabled: always'],
    [
      'with tables',
      'timing: after, events: [update], each: statement, old_table: before, new_table: changed',
    ],
    ['named', 'name: "My Trigger", timing: after, events: [insert]'],
  ])('%s: the second plan is empty, and every change of it is detected', async (_name, keys) => {
    const declared = file(`      - { ${keys}, call: note }\n`);
    await world.settle(declared);
    await world.settle(
      file(`      - { name: "My Trigger", timing: after, events: [insert, delete], call: note }\n`),
    );
    await world.settle(declared);
    expect(await labels()).toHaveLength(1);
  });

  test('can read all rows of a statement', async () => {
    await world.settle(
      file(
        '      - { timing: after, events: [insert], each: statement, new_table: changed, call: count_rows }\n',
        COUNT,
      ),
    );
    await world.sql(`insert into notes values (1, 'a'), (2, 'b')`);
    expect(await readLog()).toEqual(['INSERT 2']);
  });

  test('fires at the end of the transaction if it is deferred', async () => {
    await world.settle(
      file('      - { timing: after, events: [insert], constraint: { deferrable: deferred }, call: note }\n'),
    );
    await world.sql(
      `begin; insert into notes values (1, 'a'); insert into log (entry) values ('first'); commit`,
    );
    expect(await readLog()).toEqual(['first', 'notes_after_insert_note INSERT a']);
  });

  test('that was disabled or changed manually is restored', async () => {
    const declared = file(AFTER);
    await world.settle(declared);
    for (const text of [
      'alter table notes disable trigger notes_after_insert_note',
      'alter table notes enable replica trigger notes_after_insert_note',
      'create or replace trigger notes_after_insert_note before insert on notes for each row execute function note()',
      'drop trigger notes_after_insert_note on notes',
    ]) {
      await world.sql(text);
      expect((await world.plan(declared)).steps).toHaveLength(1);
      await world.settle(declared);
    }
    await world.sql('alter table notes disable trigger notes_after_insert_note');
    expect((await world.plan(declared)).steps.map((step) => step.summary)).toEqual([
      'trigger notes_after_insert_note: on again',
    ]);
  });

  test('that is not declared is kept, and adopted if the file declares its name', async () => {
    await world.settle(file(''));
    await world.sql(`create trigger theirs before insert on notes for each row execute function note();
      create trigger notes_after_insert_note after insert on notes for each row execute function note()`);
    await world.settle(file(AFTER));
    expect(await labels()).toEqual(['notes_after_insert_note', 'theirs']);
    await world.settle(file(''));
    expect(await labels()).toEqual(['theirs']);
  });

  test.each([{}, { maxWriteBlockMs: 0 }])(
    'is created again around a change of a column that it uses: %o',
    async (policy) => {
      const triggers = (type: string): string =>
        file(
          `      - { timing: after, events: [update], of: size, when: "new.size > 1", call: note }\n${AFTER}`,
          NOTE,
          FIELDS.replace('size, type: integer', `size, type: ${type}`),
        );
      await world.settle(triggers('integer'));
      await world.sql(`insert into notes values (1, 'a', 5)`);
      await world.settle(triggers('bigint'), policy);
      await world.sql(`update notes set size = 6; update notes set size = 0`);
      expect(await readLog()).toEqual([
        'notes_after_insert_note INSERT a',
        'notes_after_update_note UPDATE a',
      ]);
    },
  );

  test('is dropped before a column that it uses', async () => {
    await world.settle(
      file(
        `      - { name: watch, timing: after, events: [update], of: [title, size], when: new.size > 1, call: note }\n`,
      ),
    );
    await world.settle(
      file(
        '      - { name: watch, timing: after, events: [update], of: title, call: note }\n',
        NOTE,
        FIELDS.replace(/ {6}- \{ name: size.*\n/, ''),
      ),
      { drop: 'drop' },
    );
    await world.sql(`insert into notes values (1, 'a'); update notes set title = 'b'`);
    expect(await readLog()).toEqual(['watch UPDATE b']);
  });

  test.each([{}, { maxWriteBlockMs: 0 }])(
    'can distinguish updates of svc from others: %o',
    async (policy) => {
      const declared = (more: string): string =>
        file(
          `      - { name: all, timing: after, events: [update], enabled: always, call: note }
      - { name: yours, timing: after, events: [update], enabled: always, call: note,
          when: "current_setting('svc.backfill', true) is distinct from 'on'" }\n`,
          NOTE,
          `${FIELDS}${more}`,
        );
      await world.settle(declared(''));
      await world.sql(`insert into notes values (1, 'a')`);
      await world.settle(
        declared('      - { name: kind, type: text, required: true, backfill: "title" }\n'),
        policy,
      );
      expect(await readLog()).toEqual(['all UPDATE a']);
      await world.sql(`update notes set title = 'b'`);
      expect(await readLog()).toEqual(['all UPDATE a', 'all UPDATE b', 'yours UPDATE b']);
    },
  );

  test('follows renames of its table, of a column and of its function', async () => {
    const was = file(
      `      - { timing: after, events: [update], of: title, when: "new.title <> 'x'", call: note }\n`,
    );
    await world.settle(was);
    await world.sql(`insert into notes values (1, 'a')`);
    const now = was
      .replace('  notes:', '  letters:\n    renamed_from: notes')
      .replace('  note:\n', '  remember:\n    renamed_from: note\n')
      .replace('call: note', 'call: remember');
    const plan = await world.plan(now);
    expect(plan.steps.map((step) => step.summary)).toContain(
      'rename trigger notes_after_update_note → letters_after_update_remember',
    );
    expect(plan.steps.some((step) => step.sql.startsWith('drop trigger'))).toBe(false);
    await world.settle(now);
    await world.sql(`update letters set title = 'b'`);
    expect(await readLog()).toEqual(['letters_after_update_remember UPDATE b']);
    await world.settle(
      now
        .replaceAll('title', 'headline')
        .replace('name: headline, ', 'name: headline, renamed_from: title, '),
    );
    expect(await labels('letters')).toEqual(['letters_after_update_remember']);
  });

  test('is dropped with its function and its table', async () => {
    await world.settle(file(AFTER));
    await world.settle(`tables:\n${LOG}`);
    expect(await labels()).toEqual([]);
    expect(await world.sql(`select from pg_proc where proname = 'note'`)).toEqual([]);
    await world.settle(file('', ''));
    await world.settle(file(AFTER));
    await world.settle(`tables:\n${LOG}`, { drop: 'drop' });
    expect(await world.sql(`select from pg_proc where proname = 'note'`)).toEqual([]);
  });

  test('is dropped with a retired table and returns only if the file declares it', async () => {
    await world.settle(file(AFTER));
    await world.settle(`tables:\n${LOG}rpc:\n${NOTE}`);
    expect(await labels()).toEqual(['notes_after_insert_note']);
    await world.settle(file(''));
    expect(await labels()).toEqual([]);
  });

  test('can call an undeclared function', async () => {
    await world.settle(file(''));
    await world.sql(`create function public.theirs() returns trigger language plpgsql as $$ begin
      insert into public.log (entry) values (tg_argv[0]); return new; end $$`);
    await world.settle(
      file('      - { timing: before, events: [insert], call: public.theirs, args: [hello] }\n'),
    );
    await world.sql(`insert into notes values (1, 'a')`);
    expect(await readLog()).toEqual(['hello']);
  });

  test('with an invalid condition is refused with its position', async () => {
    const refused = (keys: string): Promise<string[]> =>
      world.refusal(file(`      - { ${keys}, call: note }\n`));
    expect(await refused('timing: after, events: [insert], when: new.titel is null')).toEqual([
      expect.stringMatching(
        /^MIG-101 svc\.yaml:\d+:\d+: column new\.titel does not exist\n {4}new\.titel is null\n {4}\^/,
      ),
    ]);
    expect(await refused('timing: before, events: [insert], new_table: n')).toEqual([
      expect.stringMatching(
        /^MIG-101 svc\.yaml:\d+:\d+: transition table name can only be specified for an AFTER trigger/,
      ),
    ]);
    expect(await refused('timing: after, events: [insert], when: "true) execute function x(); --"')).toEqual([
      expect.stringMatching(/^MIG-101 /),
    ]);
  });

  test('is created again if its function changes its result', async () => {
    await world.settle(file(AFTER));
    await world.settle(file('', `  note: { language: sql, returns: { type: integer }, body: select 1 }\n`));
    await world.settle(file(AFTER));
    expect(await labels()).toEqual(['notes_after_insert_note']);
  });
});

describe('a trigger on auth.users', () => {
  const PROFILES = `tables:
  profiles:
    rls: []
    fields:
      - { name: id, primary_key: true, foreign_key: { references: auth.users.id, on_delete: cascade } }
      - { name: name, type: text }
`;
  const HANDLER = note(
    `begin
  insert into public.profiles (id, name) values (new.id, new.raw_user_meta_data ->> 'name');
  return new;
end`,
    'handle_new_user',
    '    security: definer\n    settings: { search_path: "" }\n',
  );
  const users = (auth: string, rest = `${PROFILES}rpc:\n${HANDLER}`): string =>
    `${auth === '' ? '' : `auth:\n  triggers:\n${auth}`}${rest}`;
  const INSERT =
    '    - { name: on_auth_user_created, timing: after, events: [insert], call: handle_new_user }\n';
  const signUp = (name: string): Promise<unknown> =>
    world.sql(
      `insert into auth.users (email, raw_user_meta_data) values ($1, jsonb_build_object('name', $2::text))`,
      [`${name}@x.org`, name],
    );
  const names = async (): Promise<unknown[]> =>
    (await world.sql('select name from profiles order by name')).map((row) => row['name']);

  test('is created with its table and function, changed and removed', async () => {
    await world.settle(users(INSERT));
    await signUp('Ann');
    expect(await names()).toEqual(['Ann']);
    await world.settle(users(INSERT.replace('call:', `when: "new.email <> 'bob@x.org'", call:`)));
    await signUp('bob');
    expect(await names()).toEqual(['Ann']);
    await world.settle(users(''));
    await signUp('Cat');
    expect(await names()).toEqual(['Ann']);
    expect(await labels('auth.users')).toEqual([]);
  });

  test('does not affect on_new_user and undeclared triggers', async () => {
    const both = users(INSERT).replace(
      '    rls: []\n',
      '    rls: []\n    on_new_user: { id: id, name: "\'late\'" }\n',
    );
    await world.settle(both);
    await world.sql(`create trigger theirs after insert on auth.users for each row execute function handle_new_user();
      drop trigger theirs on auth.users`);
    await signUp('Ann');
    expect(await names()).toEqual(['Ann']);
    await world.settle(users(''));
    expect(await labels('auth.users')).toEqual([]);
    await world.sql(
      `create trigger theirs after insert on auth.users for each row execute function handle_new_user()`,
    );
    await world.settle(users(''));
    expect(await labels('auth.users')).toEqual(['theirs']);
    await world.sql('drop trigger theirs on auth.users');
  });

  test('is enabled again after it was disabled manually', async () => {
    await world.settle(users(INSERT));
    await world.sql('alter table auth.users disable trigger on_auth_user_created');
    expect((await world.plan(users(INSERT))).steps.map((step) => step.summary)).toEqual([
      'trigger on_auth_user_created: on again',
    ]);
    await world.settle(users(INSERT));
    await signUp('Ann');
    expect(await names()).toEqual(['Ann']);
  });

  test('follows a renamed function, and is created again with the function', async () => {
    const unnamed = INSERT.replace('name: on_auth_user_created, ', '');
    await world.settle(users(unnamed));
    expect(await labels('auth.users')).toEqual(['users_after_insert_handle_new_user']);
    const renamed = users(unnamed)
      .replace('call: handle_new_user', 'call: welcome')
      .replace('  handle_new_user:\n', '  welcome:\n    renamed_from: handle_new_user\n');
    await world.settle(renamed);
    expect(await labels('auth.users')).toEqual(['users_after_insert_welcome']);
    await signUp('Ann');
    expect(await names()).toEqual(['Ann']);
    await world.settle('tables: {}\n');
    expect(await labels('auth.users')).toEqual([]);
  });
});

describe('a function', () => {
  const helper = (more: string): string =>
    `rpc:\n  helper: { language: sql, ${more}returns: { type: integer }, body: select 1 }\n`;
  const callers = async (): Promise<unknown> =>
    (
      await world.sql(`select array_agg(distinct coalesce(r.rolname, 'public')::text
        order by coalesce(r.rolname, 'public')::text) as roles
        from pg_proc p cross join aclexplode(p.proacl) x left join pg_roles r on r.oid = x.grantee
        where p.proname in ('helper', 'note') and x.grantee <> p.proowner`)
    )[0]?.['roles'];

  test('that is not exposed can be executed only by the declared roles', async () => {
    await world.settle(helper(''));
    expect(await callers()).toEqual(['anon', 'authenticated', 'service_role']);
    await world.settle(helper('expose: false, '));
    expect(await callers()).toBeNull();
    await world.settle(helper('expose: false, execute: authenticated, '), {
      allow: ['authz_open=rpc.helper'],
    });
    expect(await callers()).toEqual(['authenticated']);
    await world.sql('grant execute on function helper() to anon, public');
    await world.settle(helper('expose: false, execute: authenticated, '));
    expect(await callers()).toEqual(['authenticated']);
    await world.settle(helper(''), { allow: ['authz_open=rpc.helper'] });
    expect(await callers()).toEqual(['anon', 'authenticated', 'service_role']);
    await world.settle(file(AFTER));
    expect(await callers()).toBeNull();
  });

  test('keeps its settings, and differences are detected', async () => {
    const settings = (more: string): string => helper(`settings: { ${more} }, `);
    for (const more of [
      'search_path: ""',
      'search_path: "public, pg_temp"',
      'search_path: "Odd One, public", work_mem: 8MB',
    ])
      await world.settle(settings(more).replace('returns', 'security: definer, returns'));
    await world.settle(settings('statement_timeout: 5s'));
    await world.sql(`alter function helper() set statement_timeout to '6s'`);
    expect((await world.plan(settings('statement_timeout: 5s'))).steps).not.toEqual([]);
    await world.settle(settings('statement_timeout: 5s'));
    await world.settle(helper(''));
  });

  test('with security definer needs a fixed search path', async () => {
    expect(
      await world.refusal(helper(`security: definer, settings: { search_path: '"$user", public' }, `)),
    ).toEqual([
      expect.stringMatching(
        new RegExp(
          '^MIG-115 svc\\.yaml:\\d+:\\d+: the function runs with the privileges of its owner, ' +
            'but its search path depends on the caller',
        ),
      ),
    ]);
  });

  test('can be granted only to existing roles', async () => {
    expect(await world.refusal(helper('execute: [authentcated], '))).toEqual([
      expect.stringMatching(/^MIG-114 .*there is no role authentcated/),
    ]);
  });
});

describe('pulled', () => {
  /** Plans a pulled file as if it were the first file. */
  const planSteps = async (declared: string): Promise<string[]> => {
    await world.sql('truncate svc_meta.stamp, svc_meta.object');
    return (await world.plan(declared)).steps.map((step) => step.sql);
  };

  test('triggers are pulled with all attributes, and the plan of the file is empty', async () => {
    await world.settle(
      file(
        `      - { timing: before, events: [update, insert], of: [title, size],
          when: "new.title <> ') EXECUTE FUNCTION x('", call: note }
      - { name: "My Trigger", timing: after, events: [delete, truncate], each: statement, call: note,
          args: [one, "it's", "a, b", ""] }
      - { timing: after, events: [update], constraint: { deferrable: deferred }, call: note, enabled: always }
      - { timing: after, events: [delete], constraint: {}, call: note, enabled: false }
      - { timing: after, events: [insert], each: statement, new_table: changed, call: count_rows }
      - { timing: before, events: [update], call: pg_catalog.suppress_redundant_updates_trigger }
`,
        `${NOTE}${COUNT}`,
      ),
    );
    const declared = await pulled(world);
    expect(declared).toContain('{ timing: before, events: [ insert, update ], of: [ title, size ]');
    expect(declared).toContain('call: pg_catalog.suppress_redundant_updates_trigger');
    expect(declared).not.toContain('Left alone');
    expect(await planSteps(declared)).toEqual([]);
  });

  test('triggers on auth.users are pulled with their functions, including rights and settings', async () => {
    await world.settle('tables: {}\n');
    await world.sql(`set role svc_owner;
      create table public.profiles (id uuid primary key);
      create function public.handle_new_user() returns trigger language plpgsql security definer set search_path = '' as
        $$ begin insert into public.profiles (id) values (new.id); return new; end $$;
      create function public.unsafe() returns trigger language plpgsql security definer as $$ begin return new; end $$;
      create function public.helper() returns integer language sql set work_mem = '8MB' as 'select 1';
      revoke all on function public.helper() from public;
      grant execute on function public.helper() to authenticated;
      create trigger on_auth_user_created after insert on auth.users for each row
        execute function public.handle_new_user();
      create trigger z_unsafe before update of email on auth.users for each row execute function public.unsafe();
      grant all on public.profiles to service_role; grant select, insert, update, delete
        on public.profiles to anon, authenticated;
      reset role`);
    const declared = await pulled(world);
    expect(declared).toContain('name: on_auth_user_created');
    expect(declared).toContain('call: handle_new_user');
    expect(declared).toContain('call: unsafe');
    expect(declared).toContain('settings: { search_path: "public, extensions, pg_temp" }');
    // The pull adds the missing search path to the function.
    const steps = await planSteps(declared);
    expect(steps.filter((sql) => !sql.includes('unsafe'))).toEqual([]);
    // The unsafe function would not exist in another database.
    const elsewhere = declared.replace(/ *- (?:\{ )?name: z_unsafe[^]*?call: unsafe(?: \})?\n/, '');
    await world.sql('drop trigger on_auth_user_created on auth.users; drop trigger z_unsafe on auth.users');
    await world.empty();
    await world.settle(elsewhere);
    await world.sql(`insert into auth.users (email) values ('ann@x.org')`);
    expect(await world.sql('select count(*)::int as n from profiles')).toEqual([{ n: 1 }]);
  });
});

test('undeclared triggers are listed, and declared and formerly declared triggers are not', async () => {
  const unmanaged = async (yaml: string): Promise<string[]> => {
    const model = toModel(parseConfig(yaml));
    const found = await world.owner.session((session) => readUnmanagedObjects(session, model, ['public']));
    return found.filter(({ what }) => what === 'trigger').map(({ name }) => name);
  };
  const users = `auth:\n  triggers: [{ timing: after, events: insert, call: note }]\n`;
  const declared = `${users}${file(AFTER)}`;
  await world.settle(declared);
  await world.sql(`create trigger theirs before insert on notes for each row execute function note();
    create trigger theirs before insert on auth.users for each row execute function note();
    alter table auth.users disable trigger theirs`);
  expect(await unmanaged(declared)).toEqual(['theirs of auth.users (disabled)', 'theirs of public.notes']);
});
