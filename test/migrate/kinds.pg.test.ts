// Tests kinds of changes that random files do not cover, on tables with rows.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
});

const fields = (...lines: string[]): string =>
  'tables:\n  todos:\n    fields:\n      - { name: id, type: integer, primary_key: true }\n' +
  `${lines.map((line) => `      - ${line}\n`).join('')}    rls: []\n`;

describe('storage references', () => {
  const withRef = (more: string): string =>
    `${fields(`{ name: image, type: text${more} }`)}storage:\n  images: {}\n  others: {}\n`;

  test('a reference tracks existing rows, and forgets them when it is removed', async () => {
    await world.settle(withRef(''));
    await world.sql(`insert into todos values (1, 'a.png'), (2, null)`);
    await world.settle(withRef(', ref: storage.images, on_delete: cascade'));
    const refs = `select bucket_id, object_key, on_delete from storage.object_refs where rel = 'todos'::regclass`;
    expect(await world.sql(refs)).toEqual([
      { bucket_id: 'images', object_key: 'a.png', on_delete: 'cascade' },
    ]);
    await world.settle(withRef(', ref: storage.images'));
    expect(await world.sql(refs)).toEqual([{ bucket_id: 'images', object_key: 'a.png', on_delete: 'keep' }]);
    await world.settle(withRef(', ref: storage.others'));
    expect(await world.sql(refs)).toEqual([{ bucket_id: 'others', object_key: 'a.png', on_delete: 'keep' }]);
    await world.settle(withRef(''));
    expect(await world.sql(refs)).toEqual([]);
    expect(
      await world.sql(`select tgname from pg_trigger where tgrelid = 'todos'::regclass and not tgisinternal`),
    ).toEqual([]);
  });
});

describe('removal is retirement', () => {
  const both = fields('{ name: notes, type: text, required: true, enum: [a, b] }');
  const without = fields();

  test('a retired column keeps its values, does not prevent inserts, and can be restored', async () => {
    await world.settle(both);
    await world.sql(`insert into todos values (1, 'a')`);
    await world.settle(without);
    await world.sql(`insert into todos values (2)`);
    expect(await world.refusal(both)).toEqual([
      expect.stringMatching(/^MIG-201 .*1 of 2 rows are NULL \(key column id\)/),
    ]);
    await world.sql(`delete from todos where id = 2`);
    await world.settle(both);
    expect(await world.sql('select * from todos')).toEqual([{ id: 1, notes: 'a' }]);
  });

  test('a retired table is closed to callers and can be restored', async () => {
    await world.settle(both);
    await world.sql(`insert into todos values (1, 'a')`);
    await world.settle('tables: {}\n');
    const may = `select has_table_privilege('authenticated', 'todos', 'select') as may`;
    expect(await world.sql(may)).toEqual([{ may: false }]);
    await world.settle(both);
    expect(await world.sql(may)).toEqual([{ may: true }]);
    expect(await world.sql('select * from todos')).toEqual([{ id: 1, notes: 'a' }]);
  });

  test('a possible undeclared rename is reported', async () => {
    await world.settle(fields('{ name: title, type: text }'));
    const plan = await world.plan(fields('{ name: headline, type: text }'));
    expect(plan.hints).toEqual([
      expect.objectContaining({ code: 'MIG-206', hint: expect.stringContaining('renamed_from: title') }),
    ]);
  });

  test('an unknown type of an extension is reported with the extension, in a new and an existing table', async () => {
    const vector = fields('{ name: place, type: vector(3) }');
    const hints = async (): Promise<unknown> => {
      const outcome = await world.apply(vector);
      return outcome.kind === 'refused' && outcome.problems.map(({ hint }) => hint);
    };
    const hint = 'It is a type of an extension: write extensions: [vector].';
    expect(await hints()).toEqual([hint]);
    await world.settle(fields());
    expect(await hints()).toEqual([hint]);
  });

  test.each([
    ['{ name: title, type: text }, { name: open, type: boolean }', 'the columns of'],
    ['{ name: title, type: text }, { name: closed, type: boolean }', 'nearly the columns of'],
    ['{ name: headline, type: text }, { name: closed, type: boolean }', null],
  ])('a table that resembles a removed table is reported: %s', async (columns, words) => {
    const table = (name: string, more: string): string =>
      `tables:\n  ${name}:\n    rls: []\n` +
      '    fields: [{ name: id, type: integer, primary_key: true }, ' +
      `{ name: made, type: timestamptz }, ${more}]\n`;
    await world.settle(table('notes', '{ name: title, type: text }, { name: open, type: boolean }'));
    const plan = await world.plan(table('memos', columns));
    expect(plan.hints.map(({ code, message, hint }) => `${code} ${message}: ${hint}`)).toEqual(
      words === null
        ? []
        : [
            `MIG-206 new table memos has ${words} removed table notes: If this is a rename, ` +
              'add renamed_from: notes. (notes is kept, and nothing is deleted.)',
          ],
    );
  });
});

describe('functions', () => {
  const fn = (text: string, policy = 'todo_open(id)'): string =>
    `${fields().replace('rls: []', `rls: [{ operations: [select], using: '${policy}' }]`)}rpc:\n  todo_open: ${text}\n`;

  test('a new signature updates the policies that call the function', async () => {
    await world.settle(
      fn(
        '{ language: sql, args: [{ name: n, type: integer, required: true }], ' +
          'returns: { type: boolean }, body: select n > 0 }',
      ),
    );
    await world.settle(
      fn(
        '{ language: sql, args: [{ name: n, type: bigint, required: true }], ' +
          'returns: { type: boolean }, body: select n > 1 }',
      ),
    );
    await world.settle(
      fn(
        '{ language: plpgsql, security: definer, ' +
          'args: [{ name: n, type: bigint, required: true }, ' +
          '{ name: strict, type: boolean, default: true }], returns: { type: boolean }, ' +
          'body: begin return n > 1; end }',
      ),
    );
    expect(
      await world.sql(
        `select prosecdef, proconfig, has_function_privilege('public', oid, 'execute') as everybody from pg_proc
          where proname = 'todo_open'`,
      ),
    ).toEqual([{ prosecdef: true, proconfig: ['search_path=public, pg_temp'], everybody: false }]);
  });

  test('a body that groups by the primary key is accepted at every change', async () => {
    const grouped = (body: string): string =>
      `${fields('{ name: title, type: text }')}rpc:\n` +
      `  grouped: { language: sql, returns: { type: setof todos }, body: "${body}" }\n`;
    await world.settle(grouped('select * from todos group by id'));
    await world.settle(grouped('select * from todos group by id having count(*) = 1'));
  });

  test('a removed function that an undeclared object uses is kept, but callers cannot execute it', async () => {
    await world.settle(
      fn(
        '{ language: sql, args: [{ name: n, type: integer, required: true }], ' +
          'returns: { type: boolean }, body: select n > 0 }',
        'true',
      ),
    );
    await world.sql(
      `create view positive as select todo_open(1) as it; alter view positive owner to svc_owner`,
    );
    await world.settle(fields().replace('rls: []', `rls: [{ operations: [select], using: 'true' }]`));
    expect(
      await world.sql(
        `select has_function_privilege('anon', oid, 'execute') as may from pg_proc where proname = 'todo_open'`,
      ),
    ).toEqual([{ may: false }]);
  });
});

describe('undeclared objects and equivalent declarations', () => {
  test('undeclared columns, indexes, policies and constraints survive every apply', async () => {
    await world.settle(fields('{ name: title, type: text }'));
    await world.sql(`alter table todos add column mine int check (mine > 0);
      create index mine_idx on todos (lower(title));
      create policy mine on todos for select to service_role using (true)`);
    await world.settle(fields('{ name: title, type: text, unique: true }'));
    await world.settle(fields());
    const plan = await world.plan(fields());
    expect(plan.unmanaged.map((object) => `${object.what} ${object.name}`).sort()).toEqual([
      'column mine',
      'constraint todos_mine_check',
      'index mine_idx',
      'policy mine',
    ]);
  });

  test('equivalent declarations have an empty plan', async () => {
    await world.settle(
      fields(
        `{ name: state, type: varchar(20), enum: [a, b], default: a }`,
        `{ name: n, type: int4, check: n > 1 and n<5 }`,
      ).replace(
        'rls: []',
        `rls: [{ operations: [select, insert, update, delete], using: auth.uid() is not null }]`,
      ),
    );
    const plan = await world.plan(
      fields(
        `{ name: n, type: INTEGER, check: "((n > 1)) AND (n < 5)" }`,
        `{ name: state, type: character varying(20), default: a, enum: [a, b] }`,
      ).replace(
        'rls: []',
        `rls: [{ operations: [delete, select, update, insert], using: "( (select auth.uid()) IS NOT NULL )" }]`,
      ),
    );
    expect(plan.steps.map((step) => step.sql)).toEqual([]);
  });

  test('a check that prints differently after a dump and restore has an empty plan', async () => {
    const file = fields(`{ name: state, type: varchar(20), enum: [a, b] }`);
    await world.settle(file);
    const [check] = await world.sql(
      `select pg_get_constraintdef(oid) as text from pg_constraint where conname = 'todos_state_enum'`,
    );
    await world.sql(
      `alter table todos drop constraint todos_state_enum, add constraint todos_state_enum ${String(check?.['text'])}`,
    );
    const [again] = await world.sql(
      `select pg_get_constraintdef(oid) as text from pg_constraint where conname = 'todos_state_enum'`,
    );
    expect(again).not.toEqual(check);
    expect((await world.plan(file)).steps.map((step) => step.sql)).toEqual([]);
  });

  test('serial equals identity, a unique index a unique constraint, and NO ACTION equals restrict', async () => {
    await world.sql(`set role svc_owner; create table todos (id bigint generated by default as identity primary key,
      code text, parent bigint references todos (id));
      create unique index code_once on todos (code); alter table todos enable row level security;
      grant select, insert, update, delete on todos to anon, authenticated; grant all on todos to service_role;
        reset role`);
    const plan = await world.plan(
      'tables: { todos: ' +
        '{ fields: [{ name: id, type: bigserial, primary_key: true }, ' +
        '{ name: code, type: text, unique: true }, ' +
        '{ name: parent, foreign_key: { references: todos.id } }], rls: [] } }\n',
    );
    expect(plan.steps.map((step) => step.sql)).toEqual([]);
  });
});

test('a caller never sees a new table before its policies', async () => {
  await world.settle(fields());
  const caller = new pg.Client(world.url);
  await caller.connect();
  await caller.query('set role anon');
  let seen = 0;
  const looking = { until: 'the end' };
  const reading = (async () => {
    while (looking.until !== 'now') {
      const result = await caller
        .query(`select count(*)::int as rows from secrets`)
        .catch((error: Error) => error.message);
      if (typeof result !== 'string') seen += result.rows[0].rows;
    }
  })();
  const secret =
    '  secrets:\n    fields: [{ name: id, type: integer, primary_key: true, default: 7 }]\n' +
    "    rls: [{ operations: [select], using: 'false' }]\n";
  for (let round = 0; round < 5; round += 1) {
    await world.settle(fields() + secret);
    await world.sql(
      `insert into secrets default values; drop table secrets;
        delete from svc_meta.object where identity = 'table public.secrets'`,
    );
    await world.settle(fields());
  }
  looking.until = 'now';
  await reading;
  await caller.end();
  expect(seen).toBe(0);
});
