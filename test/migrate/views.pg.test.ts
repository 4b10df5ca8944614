// Tests views: compared by their printed query, replaced or created again as it changes, with the rights of the caller
// by default, and not blocking changes of the tables that they read.
import pg from 'pg';
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
});

const ID = '{ name: id, type: integer, primary_key: true }';
const TITLE = '{ name: title, type: text }';
const OWNER = '{ name: owner, type: uuid }';

const todos = (...fields: string[]): string =>
  'tables:\n  todos:\n' +
  '    rls: [{ operations: [select, insert, update, delete], check: owner = auth.uid() }]\n' +
  `    fields:\n${[ID, OWNER, ...fields].map((field) => `      - ${field}\n`).join('')}`;
const view = (name: string, query: string, more = ''): string =>
  `  ${name}: { query: ${JSON.stringify(query)}${more === '' ? '' : `, ${more}`} }\n`;
const file = (tables: string, ...views: string[]): string =>
  `${tables}${views.length === 0 ? '' : `views:\n${views.join('')}`}`;

const columns = async (name: string): Promise<unknown> =>
  (
    await world.sql(
      `select attname as name from pg_attribute where attrelid = '${name}'::regclass and attnum > 0 and not attisdropped
        order by attnum`,
    )
  ).map((row) => row['name']);
const options = async (name: string): Promise<unknown> =>
  (await world.sql(`select reloptions from pg_class where oid = '${name}'::regclass`))[0]?.['reloptions'];
const summaries = async (yaml: string): Promise<string[]> =>
  (await world.plan(yaml)).steps.map(({ sign, summary }) => `${sign} ${summary}`);

const ADA = '00000000-0000-4000-8000-000000000001';
/** Runs the query as the user Ada. */
const asAda = async (query: string): Promise<Record<string, unknown>[]> => {
  const client = new pg.Client(world.url);
  await client.connect();
  try {
    await client.query(
      `set request.jwt.claims = '{"sub":"${ADA}","role":"authenticated"}'; set role authenticated`,
    );
    return (await client.query<Record<string, unknown>>(query)).rows;
  } finally {
    await client.end();
  }
};

describe('a view', () => {
  test('runs with the rights of the caller, so that policies apply', async () => {
    await world.settle(file(todos(TITLE), view('titles', 'select id, title from todos')));
    expect(await options('titles')).toEqual(['security_invoker=true']);
    await world.sql(`insert into todos values (1, '${ADA}', 'hers'), (2, gen_random_uuid(), 'not hers')`);
    expect(await world.sql('select title from titles order by id')).toHaveLength(2);
    expect(await asAda('select title from titles')).toEqual([{ title: 'hers' }]);
  });

  test('is replaced if columns are only appended, and keeps its options', async () => {
    await world.settle(file(todos(TITLE), view('titles', 'select id from todos')));
    const [before] = await world.sql(`select 'titles'::regclass::oid as oid`);
    const next = file(todos(TITLE), view('titles', 'select id, title from todos where id > 0'));
    expect(await summaries(next)).toEqual(['~ view titles']);
    await world.settle(next);
    expect(await world.sql(`select 'titles'::regclass::oid as oid`)).toEqual([before]);
    expect(await options('titles')).toEqual(['security_invoker=true']);
  });

  test('is created again if its columns change, together with its readers', async () => {
    const all = (query: string): string =>
      file(
        todos(TITLE),
        view('c', 'select count(*) as n from b'),
        view('b', 'select id from a'),
        view('a', query, 'comment: all of them'),
      );
    await world.settle(all('select id, title from todos'));
    await world.sql(`create role reporting; grant select on b to reporting`).catch(() => {});
    await world.sql(`grant select on b to reporting; comment on column a.id is 'the key'`);
    await world.settle(all('select title as what, id from todos'));
    expect(await columns('a')).toEqual(['what', 'id']);
    expect(
      await world.sql(
        `select has_table_privilege('reporting', 'b', 'select') as granted,
          has_table_privilege('anon', 'c', 'select') as open,
           obj_description('a'::regclass) as comment, col_description('a'::regclass, 2) as key`,
      ),
    ).toEqual([{ granted: true, open: true, comment: 'all of them', key: 'the key' }]);
  });

  test('is dropped when it is removed', async () => {
    await world.settle(
      file(todos(), view('ids', 'select id from todos'), view('more', 'select id from ids')),
    );
    await world.settle(file(todos()));
    expect(await world.sql(`select to_regclass('ids') as ids, to_regclass('more') as more`)).toEqual([
      { ids: null, more: null },
    ]);
    expect(await world.sql(`select from svc_meta.object where kind = 'view'`)).toEqual([]);
  });

  test('can be renamed', async () => {
    await world.settle(file(todos(), view('ids', 'select id from todos')));
    const [before] = await world.sql(`select 'ids'::regclass::oid as oid`);
    await world.settle(file(todos(), view('keys', 'select id from todos', 'renamed_from: ids')));
    expect(await world.sql(`select 'keys'::regclass::oid as oid`)).toEqual([before]);
    await world.settle(file(todos(), view('keys', 'select id from todos')));
  });

  test.each([
    ['its query', 'create or replace view ids with (security_invoker) as select id from todos where id > 1'],
    ['its rights', 'alter view ids reset (security_invoker)'],
    ['its grants', 'grant insert on ids to anon'],
    ['its comment', `comment on view ids is 'mine'`],
    ['all of it', 'drop view ids'],
  ])('is restored after a manual change of %s', async (_name, statement) => {
    const declared = file(todos(), view('ids', 'select id from todos'));
    await world.settle(declared);
    await world.sql(statement);
    expect((await world.plan(declared)).steps).not.toEqual([]);
    await world.settle(declared);
    expect(await options('ids')).toEqual(['security_invoker=true']);
  });
});

describe('select *', () => {
  const all = view('everything', 'select * from todos');

  test('gets a new column by replacement', async () => {
    await world.settle(file(todos(), all));
    const next = file(todos(TITLE), all);
    expect(await summaries(next)).toEqual(['+ column title text', '~ view everything']);
    await world.settle(next);
    expect(await columns('everything')).toEqual(['id', 'owner', 'title']);
  });

  test('does not show a retired column', async () => {
    await world.settle(file(todos(TITLE), all));
    await world.settle(file(todos(), all));
    expect(await columns('todos')).toEqual(['id', 'owner', 'title']);
    expect(await columns('everything')).toEqual(['id', 'owner']);
  });

  test('has the order of the database, not of the file', async () => {
    await world.settle(file(todos(), all));
    await world.settle(file(todos('{ name: note, type: text, default: a }', TITLE), all));
    await world.settle(file(todos(TITLE, '{ name: note, type: text, default: a }'), all));
    // Parsed by PostgreSQL again, because its record is deleted.
    await world.sql(`update svc_meta.object set declared_hash = ''`);
    expect(await summaries(file(todos(TITLE, '{ name: note, type: text, default: a }'), all))).toEqual([]);
  });
});

describe('an object that a view reads', () => {
  const chain = (type: string): string =>
    file(
      todos(`{ name: size, type: ${type} }`),
      view('sizes', 'select id, size from todos where size is not null', 'comment: all sizes'),
      view('largest', 'select max(size) as size from sizes', 'grants: { anon: [] }'),
    );

  test.each([{}, { maxWriteBlockMs: 0 }])('changes its type: %o', async (policy) => {
    await world.settle(chain('integer'));
    await world.sql(`insert into todos (id, size) select n, n from generate_series(1, 20) n; analyze todos`);
    await world.settle(chain('bigint'), policy);
    expect(
      await world.sql(
        `select pg_typeof(size)::text as type, size::int, obj_description('sizes'::regclass) as comment,
           has_table_privilege('anon', 'sizes', 'select') as sizes,
           has_table_privilege('anon', 'largest', 'select') as largest
         from largest`,
      ),
    ).toEqual([{ type: 'bigint', size: 20, comment: 'all sizes', sizes: true, largest: false }]);
    expect(await options('sizes')).toEqual(['security_invoker=true']);
  });

  test.each([{}, { maxWriteBlockMs: 0 }])('cannot change below an undeclared view: %o', async (policy) => {
    await world.settle(chain('integer'));
    await world.sql(`insert into todos (id, size) select n, n from generate_series(1, 20) n; analyze todos;
      create view by_hand as select size from todos`);
    const refused = await world.refusal(chain('bigint'), policy);
    expect(refused).toEqual([expect.stringMatching(/^MIG-304 .*: view by_hand uses size$/)]);
    await world.sql('drop view by_hand; create view on_top as select size from largest');
    expect(await world.refusal(chain('bigint'), policy)).toEqual([
      expect.stringMatching(/^MIG-304 .*: view on_top, which is not in the file, uses what changes$/),
    ]);
  });

  test('can be a function with changed arguments', async () => {
    const calls = (type: string): string =>
      `${file(todos(), view('oks', 'select id, ok(id) as ok from todos'))}rpc:\n  ok:\n` +
      '    language: sql\n    volatility: immutable\n' +
      `    args: [{ name: a, type: ${type}, required: true }]\n    returns: { type: boolean }\n` +
      '    body: select a is not null\n';
    await world.settle(calls('integer'));
    await world.settle(calls('bigint'));
  });

  test('can change below a view, a policy that reads the view and a function that returns its rows', async () => {
    const all = (type: string): string =>
      `${file(
        `${todos(`{ name: size, type: ${type} }`)}  notes:\n` +
          '    rls: [{ operations: [select], ' +
          'check: id in (select id from sizes) and exists (select from top(1)) }]\n' +
          `    fields: [${ID}]\n`,
        view('sizes', 'select id, size from todos'),
      )}rpc:
  top:
    language: sql
    volatility: stable
    args: [{ name: n, type: integer, required: true }]
    returns: { type: setof sizes }
    body: select * from sizes order by size limit n
`;
    await world.settle(all('integer'));
    await world.settle(all('bigint'));
    await world.settle(all('bigint').replace('select id, size', 'select size, id'));
    expect(await columns('sizes')).toEqual(['size', 'id']);
    await world.settle(todos('{ name: size, type: bigint }'));
  });

  test('can be an enum type that gets a value and loses a value', async () => {
    const plans = (values: string, condition: string): string =>
      `types:\n  plan: { enum: [${values}] }\n${file(
        todos('{ name: plan, type: plan }'),
        view('plans', `select id, plan from todos where ${condition}`),
      )}`;
    await world.settle(plans('free, pro', 'id > 0'));
    await world.settle(plans('free, pro, team', `plan <> 'team'`));
    await world.settle(plans('free, team', `plan <> 'team'`));
    expect(await columns('plans')).toEqual(['id', 'plan']);
  });

  test('can be a renamed column and table', async () => {
    await world.settle(file(todos(TITLE), view('titles', 'select id, title from todos')));
    await world.settle(
      file(
        todos('{ name: what, type: text, renamed_from: title }'),
        view('titles', 'select id, what as title from todos'),
      ),
    );
    await world.settle(
      file(
        todos('{ name: what, type: text }').replace('  todos:', '  tasks:\n    renamed_from: todos'),
        view('titles', 'select id, what as title from tasks'),
      ),
    );
    expect(await columns('titles')).toEqual(['id', 'title']);
  });

  test('must be declared', async () => {
    const both = `${todos(TITLE)}  notes:\n    rls: []\n    fields: [${ID}]\n`;
    const reads = view('ids', 'select id from notes');
    await world.settle(file(both, reads));
    expect(await world.refusal(file(todos(TITLE), reads))).toEqual([
      expect.stringMatching(/^MIG-304 svc\.yaml:\d+:\d+: it reads notes, which was removed from the file$/),
    ]);
    await world.settle(file(todos(TITLE)));
    expect(await world.refusal(file(todos(TITLE), reads))).toEqual([expect.stringContaining('MIG-304')]);
  });

  test('is reported with its position if it is missing', async () => {
    expect(await world.refusal(file(todos(), view('titles', 'select id, title from todos')))).toEqual([
      expect.stringMatching(/^MIG-101 svc\.yaml:\d+:\d+: column "title" does not exist\n/),
    ]);
  });
});

describe('rights', () => {
  const secret = view('everyone', 'select id, title from todos', 'security: definer');

  test('of the owner that bypass row-level security are refused unless allowed', async () => {
    expect(await world.refusal(file(todos(TITLE), secret))).toEqual([
      expect.stringMatching(
        /^MIG-303 svc\.yaml:\d+:\d+: .*row-level security of public\.todos for anon \(select\) and auth/,
      ),
    ]);
    await world.settle(file(todos(TITLE), secret), { allow: ['authz_open=views.everyone'] });
    expect(await options('everyone')).toEqual(['security_invoker=false']);
    // A permission is needed only once.
    const { problems, hints } = await world.plan(file(todos(TITLE), secret));
    expect(problems).toEqual([]);
    expect(hints.map((hint) => hint.code)).toEqual(['MIG-303']);
  });

  test('of the owner to write are named in the refusal and in the plan, and refused separately', async () => {
    const writable = secret.replace(
      'definer',
      'definer, grants: { anon: [], authenticated: [select, update] }',
    );
    expect(await world.refusal(file(todos(TITLE), writable))).toEqual([
      expect.stringMatching(/public\.todos for authenticated \(select, update\)$/m),
    ]);
    await world.settle(file(todos(TITLE), secret), { allow: ['authz_open=views.everyone'] });
    expect(await world.refusal(file(todos(TITLE), writable))).toEqual([
      expect.stringMatching(/^MIG-303 .*update for authenticated/),
    ]);
    await world.settle(file(todos(TITLE), writable), { allow: ['authz_open=views.everyone'] });
    const { hints } = await world.plan(file(todos(TITLE), writable));
    expect(hints.map(({ message }) => message)).toEqual([
      'the view bypasses the row-level security of public.todos for authenticated (select, update)',
    ]);
  });

  test('of the owner are accepted if no caller has access', async () => {
    await world.settle(file(todos(TITLE), secret.replace('definer', 'definer, expose: false')));
    expect(await world.sql(`select has_table_privilege('anon', 'everyone', 'select') as open`)).toEqual([
      { open: false },
    ]);
    expect(await world.refusal(file(todos(TITLE), secret))).toEqual([expect.stringContaining('MIG-303')]);
  });

  test('of the owner are also checked below a view with the rights of the caller', async () => {
    const hidden = secret.replace('definer', 'definer, expose: false, grants: { anon: [select] }');
    const { problems } = await world.plan(file(todos(TITLE), hidden, view('ids', 'select id from everyone')));
    expect(problems.map((problem) => `${problem.code} ${problem.at}`)).toEqual([
      'MIG-303 views.everyone.security',
      'MIG-303 views.ids.security',
    ]);
  });

  test('to write are granted explicitly', async () => {
    await world.settle(
      file(
        todos(TITLE),
        view(
          'ids',
          'select id, owner from todos',
          'check_option: local, grants: { authenticated: [select, insert] }',
        ),
      ),
    );
    expect(await asAda(`insert into ids values (7, '${ADA}') returning id`)).toEqual([{ id: 7 }]);
    await expect(asAda('delete from ids')).rejects.toThrow('permission denied');
  });
});

describe('triggers', () => {
  const write = (body: string): string =>
    `rpc:\n  write_title:\n    language: plpgsql\n    returns: { type: trigger }\n    body: ${JSON.stringify(body)}\n`;
  const INSERT =
    'begin insert into todos (id, owner, title) values (new.id, auth.uid(), new.title); return new; end';
  const upper = (triggers: string, query = 'select id, upper(title) as title from todos'): string =>
    file(
      todos(TITLE),
      view('uppers', query, `grants: { authenticated: [select, insert] }, triggers: ${triggers}`),
    ) + write(INSERT);
  const INSTEAD = '[{ timing: instead_of, events: insert, call: write_title }]';

  test('can write rows of a view that is not updatable', async () => {
    await world.settle(upper(INSTEAD));
    await asAda(`insert into uppers values (1, 'a')`);
    expect(await asAda('select id, title from uppers')).toEqual([{ id: 1, title: 'A' }]);
  });

  test('are changed, created again with the view, and removed', async () => {
    await world.settle(upper(INSTEAD));
    await world.settle(
      upper(
        '[{ timing: instead_of, events: [insert, update], call: write_title, args: [a] }, ' +
          '{ timing: after, events: insert, each: statement, call: write_title, name: later }]',
      ),
    );
    const labels = async (): Promise<unknown[]> =>
      (
        await world.sql(`select tgname as name from pg_trigger where tgrelid = 'uppers'::regclass order by 1`)
      ).map((row) => row['name']);
    expect(await labels()).toEqual(['later', 'uppers_instead_of_insert_update_write_title']);
    await world.settle(upper(INSTEAD, 'select upper(title) as title, id, owner from todos'));
    await world.settle(
      upper(INSTEAD).replaceAll('uppers', 'titles').replace('grants:', 'renamed_from: uppers, grants:'),
    );
    await world.settle(upper('[]').replaceAll('uppers', 'titles'));
    expect(await world.sql(`select from pg_trigger where tgrelid = 'titles'::regclass`)).toEqual([]);
  });

  test('are kept through a type change below the view and a change of their function', async () => {
    await world.settle(upper(INSTEAD));
    await world.settle(upper(INSTEAD).replace('name: id, type: integer', 'name: id, type: bigint'));
    await world.settle(
      upper(INSTEAD.replace('write_title', 'put_title')).replaceAll('write_title', 'put_title'),
    );
  });

  test('that are not declared are kept, and block changes that create the view again', async () => {
    const yaml = upper('[]');
    await world.settle(yaml);
    await world.sql(
      'create trigger mine instead of insert on uppers for each row execute function write_title()',
    );
    await world.settle(upper('[]', 'select id, lower(title) as title from todos'));
    expect(await world.refusal(upper('[]', 'select title, id from todos'))).toEqual([
      expect.stringMatching(/^MIG-304 .*: the view must be recreated, which would drop trigger mine/),
    ]);
  });

  test('that were changed manually are restored', async () => {
    await world.settle(upper(INSTEAD));
    await world.sql('drop trigger uppers_instead_of_insert_write_title on uppers');
    expect(await summaries(upper(INSTEAD))).toEqual([expect.stringContaining('+ trigger uppers_instead_of')]);
    await world.settle(upper(INSTEAD));
  });

  test('are pulled', async () => {
    await world.settle(upper(INSTEAD));
    const yaml = await pulled(world);
    expect(yaml).toContain('timing: instead_of');
    expect((await world.plan(yaml)).steps.map((step) => step.sql)).toEqual([]);
  });
});

describe('pull', () => {
  test('writes existing views, and the plan of the file is empty', async () => {
    await world.settle(todos(TITLE));
    await world.sql(`set role svc_owner; create view as_owner as select id, title from todos;
      create view as_caller with (security_invoker = true, security_barrier = true) as select * from as_owner
        where id > 0 with local check option;
      comment on view as_caller is 'Theirs';
      grant select on as_owner to anon, authenticated; grant all on as_owner, as_caller to service_role;
      reset role`);
    const yaml = await pulled(world);
    expect(yaml).toContain('security: definer');
    const { steps, problems } = await world.plan(yaml);
    expect(steps.map((step) => step.sql)).toEqual([]);
    expect(problems).toEqual([]);
  });
});
