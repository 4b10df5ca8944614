// Tests expressions for which PostgreSQL stores nothing or a constant: the second plan of such a file is empty.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(() => world.empty());

const table = (field: string, more = ''): string => `tables:
  notes:
    rls: []
${more}    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: ready, type: boolean }
${field === '' ? '' : `      - ${field}\n`}`;

const FIELDS = [
  '{ name: note, type: text, default: { sql: "null" } }',
  '{ name: note, type: jsonb, default: { sql: "null::jsonb" } }',
  '{ name: note, type: varchar(20), default: { sql: "null" } }',
  '{ name: note, type: integer, default: { sql: "null::integer" } }',
  '{ name: note, type: "text[]", default: { sql: "null" } }',
  '{ name: note, type: email, default: { sql: "null" } }',
  '{ name: note, type: text, default: { sql: "null" }, check: "true" }',
  '{ name: note, type: text, check: "1 = 1" }',
  '{ name: note, type: text, check: "null" }',
];
const DOMAIN = 'types: { email: { domain: text, default: { sql: "null" }, check: "true" } }\n';

describe('a field', () => {
  test.each(FIELDS)('%s', async (field) => {
    const types = field.includes('email') ? DOMAIN : '';
    await world.settle(types + table(field));
  });

  test.each(FIELDS.slice(0, 5))('%s replaces a default', async (field) => {
    await world.settle(table(field.replace(/, default: .*/, ' }')));
    await world.sql('insert into notes (id) values (1)');
    await world.settle(table(field));
    expect(await world.sql('select note from notes')).toEqual([{ note: null }]);
  });

  test('a null constant removes a former default', async () => {
    await world.settle(table('{ name: note, type: text, default: open }'));
    await world.settle(table('{ name: note, type: text, default: { sql: "null" } }'));
    await world.sql('insert into notes (id) values (1)');
    expect(await world.sql('select note from notes')).toEqual([{ note: null }]);
  });
});

describe('a table', () => {
  test.each([
    ['an index whose condition is always true', '    indexes: [{ columns: [ready], where: "true" }]\n'],
    [
      'a unique index whose condition is always true',
      '    indexes: [{ columns: [ready], unique: true, where: "true" }]\n',
    ],
    [
      'an expression index whose condition is always true',
      '    indexes: [{ columns: [{ expression: not ready }], where: "true" }]\n',
    ],
    ['a check that is always true', '    constraints: [{ check: "true" }]\n'],
    [
      'an exclusion whose condition is always true',
      '    constraints: [{ exclude: [{ column: ready, with: "=" }], using: btree, where: "true" }]\n',
    ],
  ])('%s', async (_name, more) => {
    await world.settle(table('', more));
  });

  test.each(['true', '1 = 1', 'null', 'false'])('a policy whose condition is %s', async (using) => {
    const policies = `    rls:
      - { operations: [select], using: "${using}" }
      - { operations: [insert], with_check: "${using}" }
      - { operations: [update], using: "${using}", with_check: "${using}" }
`;
    await world.settle(table('').replace('    rls: []\n', policies));
  });
});
