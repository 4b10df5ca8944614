// Tests policies of buckets. Like policies of tables they can use tables and functions of the file, and are dropped and
// created again around changes of these.
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

const bucketPolicies = async (): Promise<string[]> =>
  (
    await world.sql(
      `select coalesce(qual, with_check) as text from pg_policies where schemaname = 'storage' order by policyname`,
    )
  ).map((row) => String(row['text']));

const tables = (
  key = '{ name: id, type: integer, primary_key: true }',
  name = 'todos',
  more = '',
): string => `tables:
  ${name}:${more}
    fields:
      - ${key}
      - { name: file, type: text }
    rls: []
  others:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: note, type: text }
    rls: []
`;
const bucket = (check: string): string => `storage:
  files:
    rls:
      - { operations: [select], check: "${check}" }
`;
const reads = bucket('exists (select from public.todos t where t.file = objects.name and t.id > 0)');

describe('a bucket policy that uses a table with its schema', () => {
  const file = tables() + reads;

  test('is planned, has an empty second plan, and reverts a manual change', async () => {
    await world.settle(file);
    expect(await bucketPolicies()).toEqual([expect.stringContaining('t.id > 0')]);
    await world.sql('comment on table todos is null; alter table others alter column note set not null');
    await world.settle(file);
    await world.sql('create index by_hand on others (note)');
    expect((await world.apply(file)).kind).toBe('unchanged');
  });

  test('is compared again only when an object that it uses changes', async () => {
    await world.settle(file);
    await world.settle(file.replace('note, type: text', 'note, type: text, unique: true'));
    await world.settle(file.replace('file, type: text', 'file, type: text, required: true'));
    await world.settle(file.replace('t.id > 0', 't.id > 1'));
    expect(await bucketPolicies()).toEqual([expect.stringContaining('t.id > 1')]);
    await world.settle(tables());
    expect(await bucketPolicies()).toEqual([]);
    await world.settle(file);
    expect(await bucketPolicies()).toHaveLength(1);
  });

  test('is created together with the table that it uses', async () => {
    await world.settle('tables: {}\nstorage:\n  files: {}\n');
    await world.settle(file);
    expect(await bucketPolicies()).toHaveLength(1);
  });

  test('reports the position of a missing object', async () => {
    await world.settle(file);
    expect(await world.refusal(tables() + bucket('exists (select from public.todo)'))).toEqual([
      expect.stringMatching(/^MIG-101 svc\.yaml:\d+:\d+: relation "public\.todo" does not exist/),
    ]);
  });

  test('is created again after it was dropped manually', async () => {
    await world.settle(file);
    await world.settle(file);
    expect(await bucketPolicies()).toHaveLength(1);
  });
});

describe('a bucket policy follows a change of', () => {
  test('the type of a column, in place and back', async () => {
    await world.settle(tables() + reads);
    await world.sql(`insert into todos values (1, 'f')`);
    await world.settle(tables('{ name: id, type: bigint, primary_key: true }') + reads);
    expect(await bucketPolicies()).toEqual([expect.stringContaining('t.id > 0')]);
    await world.settle(tables('{ name: id, type: numeric, primary_key: true }') + reads);
    expect(await bucketPolicies()).toEqual([expect.stringContaining('(0)::numeric')]);
    await world.settle(tables() + reads);
  });

  test('the type of a column of a large table, online', async () => {
    await world.settle(tables() + reads);
    await world.sql(`insert into todos select n, 'f' from generate_series(1, 20) n`);
    await world.sql('analyze todos');
    await world.settle(tables('{ name: id, type: bigint, primary_key: true }') + reads, {
      maxWriteBlockMs: 0,
    });
    expect(
      await world.sql(
        `select format_type(atttypid, -1) as type from pg_attribute where attrelid = 'todos'::regclass
          and attname = 'id'`,
      ),
    ).toEqual([{ type: 'bigint' }]);
    expect(await bucketPolicies()).toHaveLength(1);
  });

  test('the name of the table and of the column', async () => {
    await world.settle(tables() + reads);
    const renamed =
      tables(
        '{ name: key, renamed_from: id, type: integer, primary_key: true }',
        'tasks',
        '\n    renamed_from: todos',
      ) + reads.replace('public.todos', 'public.tasks').replace('t.id', 't.key');
    await world.settle(renamed);
    expect(await bucketPolicies()).toEqual([expect.stringContaining('t.key > 0')]);
  });

  test('the arguments of a function', async () => {
    const rpc = (type: string): string =>
      `rpc:\n  may:\n    language: sql\n    args: [{ name: a, type: ${type}, required: true }]\n` +
      '    returns: { type: boolean }\n    body: select true\n';
    const file = (type: string): string => tables() + bucket(`public.may(1::${type})`) + rpc(type);
    await world.settle(file('integer'));
    await world.settle(file('bigint'));
    expect(await bucketPolicies()).toEqual([expect.stringContaining('may((1)::bigint)')]);
  });

  test('a type that an undeclared policy uses, which blocks the change and is reported by name', async () => {
    await world.settle(tables() + reads);
    await world.sql(
      `create policy by_hand on storage.objects using (exists (select from todos t where t.id = 1))`,
    );
    expect(await world.refusal(tables('{ name: id, type: bigint, primary_key: true }') + reads)).toEqual([
      expect.stringMatching(
        /MIG-304 .*a policy that is not in the file uses what changes: storage\.objects by_hand/,
      ),
    ]);
  });
});
