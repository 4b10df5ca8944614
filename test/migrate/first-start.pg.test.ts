import { afterAll, beforeAll, expect, test } from 'vitest';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());

const FILE = `
tables:
  profiles:
    fields:
      - { name: id, primary_key: true, foreign_key: { references: auth.users.id, on_delete: cascade } }
      - { name: handle, type: text, required: true, unique: true, pattern: '^[a-z]+$' }
      - { name: karma, type: integer, default: -1, min: -10, max: 100 }
    rls:
      - { operations: [select], using: 'true' }
      - { operations: [insert, update, delete], using: auth.uid() = id, with_check: auth.uid() = id }
  todos:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: owner, required: true, foreign_key: { references: profiles.id, on_delete: cascade } }
      - { name: title, type: varchar(200), required: true, default: untitled }
      - { name: status, type: text, default: open, enum: [open, done] }
      - { name: tags, type: 'text[]', default: [] }
      - { name: labels, type: 'text[]', default: [a, b], enum: [a, b, c] }
      - { name: due, type: timestamptz, default: now() }
      - { name: token, type: uuid, default: uuid_v7() }
      - { name: meta, type: jsonb, default: { a: 1 } }
      - { name: price, type: 'numeric(12,2)', default: 1.10, check: price >= 0 }
      - { name: parent, foreign_key: { references: todos.id, on_delete: set_null } }
    indexes:
      - { columns: [owner, status] }
      - { columns: [title], unique: true, where: "status <> 'done'" }
    rls:
      - { operations: [select, insert, update, delete], using: owner = auth.uid() }
      - { operations: [update], type: restrictive, using: "status <> 'done'" }
      - operations: [select]
        using: |
          exists (select 1 from profiles p where p.id = todos.owner and p.karma > 10) -- friends
  members:
    schema: crm
    fields:
      - { name: team, type: integer, primary_key: true }
      - { name: person, type: uuid, primary_key: true }
rpc:
  open_todos:
    language: sql
    volatility: stable
    args:
      - { name: who, type: uuid, required: true }
      - { name: max, type: integer, default: 10 }
    returns: { type: setof todos }
    body: select * from todos where owner = who and status = 'open' limit max
  shout:
    security: definer
    args: [{ name: words, type: text }]
    returns: { type: text }
    body: |
      begin
        return upper(words);
      end
`;

test('an empty database gets the declared schema, and the next plan is empty', async () => {
  const outcome = await world.settle(FILE);
  expect(outcome.kind).toBe('applied');
  expect((await world.apply(FILE)).kind).toBe('unchanged');
  const [column] = await world.sql(
    `select pg_get_expr(adbin, adrelid) as text from pg_attrdef where adrelid = 'todos'::regclass and adnum = 10`,
  );
  expect(column).toEqual({ text: '1.10' });
  const policies = await world.sql(
    `select policyname, roles::text, qual from pg_policies where tablename = 'todos' order by 1`,
  );
  expect(policies).toMatchInlineSnapshot(`
    [
      {
        "policyname": "todos_p1_all",
        "qual": "(owner = ( SELECT auth.uid() AS uid))",
        "roles": "{anon,authenticated}",
      },
      {
        "policyname": "todos_p1_select",
        "qual": "(EXISTS ( SELECT 1
       FROM profiles p
      WHERE ((p.id = todos.owner) AND (p.karma > 10))))",
        "roles": "{anon,authenticated}",
      },
      {
        "policyname": "todos_p1_update",
        "qual": "(status <> 'done'::text)",
        "roles": "{anon,authenticated}",
      },
    ]
  `);
});

test('grants and policies apply to callers', async () => {
  const grants = await world.sql(
    `select grantee, string_agg(privilege_type, ',' order by privilege_type) as may
      from information_schema.role_table_grants
     where table_name = 'todos' and grantee in ('anon', 'authenticated', 'PUBLIC') group by 1 order by 1`,
  );
  expect(grants).toEqual([
    { grantee: 'anon', may: 'DELETE,INSERT,SELECT,UPDATE' },
    { grantee: 'authenticated', may: 'DELETE,INSERT,SELECT,UPDATE' },
  ]);
});
