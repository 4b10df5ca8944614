// Tests domains and composite types: created, changed in place, refused because of rows or columns, pulled, and
// dropped.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(() => world.empty());

const LARGE = { maxWriteBlockMs: 0 };

const file = (types: string, ...fields: string[]): string =>
  `types:\n${types.replaceAll(/^/gm, '  ')}\n` +
  'tables:\n  people:\n    rls: []\n    fields:\n      - { name: id, type: integer, primary_key: true }\n' +
  fields.map((field) => `      - ${field}\n`).join('');

const email = (more = ''): string => `email: { domain: text${more} }`;
const EMAIL = `, check: "value ~ '@'"`;
const FIELD = '{ name: email, type: email }';

describe('a domain', () => {
  test('is created with all attributes, based on other declared types and functions', async () => {
    await world.settle(`${file(
      `strict: { domain: mood, check: "value <> 'sad'", default: ok }
mood: { enum: [sad, ok] }
email: { domain: varchar(80), collate: C, check: ["value ~ '@'", is_short(value)], not_null: true,
  default: a@b, comment: Where to write to }`,
      FIELD,
      '{ name: mood, type: strict }',
      '{ name: others, type: "strict[]" }',
    )}rpc:
  is_short: { language: sql, volatility: immutable, args: [{ name: text, type: varchar, required: true }],
    returns: { type: boolean }, body: "select length(text) < 60" }
`);
    await world.sql('insert into people (id) values (1)');
    expect(await world.sql('select email::text, mood::text from people')).toEqual([
      { email: 'a@b', mood: 'ok' },
    ]);
    for (const wrong of [`'x'`, 'null', `'${'x'.repeat(70)}@'`])
      await expect(world.sql(`insert into people (id, email) values (2, ${wrong})`)).rejects.toThrow(/email/);
  });

  test.each([{}, LARGE])('changes its checks, default and NOT NULL in place: %o', async (policy) => {
    await world.settle(file(email(), FIELD));
    await world.sql(`insert into people (id, email) values (1, 'a@b'), (2, 'c@d')`);
    const outcome = await world.settle(file(email(`${EMAIL}, not_null: true, default: x@y`), FIELD), policy);
    expect(outcome.kind === 'applied' && outcome.plan.steps.some((step) => step.rewrites)).toBe(false);
    await expect(world.sql(`insert into people (id, email) values (3, 'x')`)).rejects.toThrow('email');
    await expect(world.sql(`insert into people (id, email) values (3, null)`)).rejects.toThrow('null');
    await world.settle(file(email(), FIELD), policy);
    await world.sql(`insert into people (id, email) values (3, 'x'), (4, null)`);
  });

  test('is refused with the number of rows that violate it', async () => {
    await world.settle(file(email(), FIELD, '{ name: second, type: email }'));
    await world.sql(
      `insert into people (id, email, second) values (1, 'a@b', 'no'), (2, 'x', 'a@b'), (3, 'y', 'a@b'), (4, null,
        'a@b')`,
    );
    const next = file(email(`${EMAIL}, not_null: true`), FIELD, '{ name: second, type: email }');
    expect(await world.refusal(next)).toEqual([
      `MIG-204 svc.yaml:3:3: 2 rows of people.email violate the check value ~ '@' (key column id)`,
      `MIG-204 svc.yaml:3:3: 1 rows of people.second violate the check value ~ '@' (key column id)`,
      'MIG-201 svc.yaml:3:3: 1 rows of people.email are NULL (key column id)',
    ]);
    await world.settle(file(email(), FIELD, '{ name: second, type: email }'));
  });

  test('that an array column uses cannot get another check', async () => {
    await world.settle(file(email(EMAIL), '{ name: others, type: "email[]" }'));
    expect(
      await world.refusal(file(email(`, check: "value ~ '@.'"`), '{ name: others, type: "email[]" }')),
    ).toEqual([
      expect.stringMatching(/^MIG-304 .*column others of table people holds values of email in an array/),
    ]);
  });

  test('with another base type is refused while columns use it, and created again otherwise', async () => {
    await world.settle(file(email(), FIELD));
    const next = 'email: { domain: varchar }';
    expect(await world.refusal(file(next, FIELD))).toEqual([
      'MIG-207 svc.yaml:3:3: email is in use, and its base type is text',
    ]);
    await world.settle(file(email()), { drop: 'drop' });
    await world.settle(file(next));
    await world.settle(file(next, FIELD));
  });

  test('with an error is reported with its position', async () => {
    const [told] = await world.refusal(file(email(`, check: "valu ~ '@'"`), FIELD));
    expect(told).toMatch(/^MIG-101 svc\.yaml:\d+:\d+: column "valu" does not exist\n {4}valu ~ '@'\n {4}\^/);
  });

  test('reverts manual changes', async () => {
    const declared = file(email(EMAIL), FIELD);
    await world.settle(declared);
    await world.sql(
      `alter domain email add check (value <> ''); alter domain email set default 'a'; alter domain email set not null`,
    );
    expect((await world.plan(declared)).steps).toHaveLength(3);
    await world.settle(declared);
  });

  test('with a manual check is detected by the next start', async () => {
    const declared = file(email(EMAIL), FIELD);
    await world.settle(declared);
    await world.sql(`alter domain email add check (value <> '')`);
    expect((await world.apply(declared)).kind).toBe('applied');
    expect((await world.apply(declared)).kind).toBe('unchanged');
  });

  test('is renamed, keeps its columns, and is dropped with its last column', async () => {
    await world.settle(file(email(EMAIL), FIELD));
    await world.settle(
      file(
        `mail: { domain: text${EMAIL}, renamed_from: email, not_null: true }`,
        FIELD.replace('type: email', 'type: mail'),
      ),
    );
    await world.settle('tables: {}\n', { drop: 'drop' });
    expect(await world.sql(`select to_regtype('mail') as mail, to_regtype('email') as email`)).toEqual([
      { mail: null, email: null },
    ]);
  });
});

describe('a composite type', () => {
  const span = 'span: { composite: { low: integer, high: "numeric(10,2)" } }';
  const field = '{ name: span, type: span }';

  test('is created and gets more attributes', async () => {
    await world.settle(file(span, field));
    await world.sql(`insert into people (id, span) values (1, (1, 2.5))`);
    await world.settle(file(span.replace(' }', ', note: text }').replace('} }', '} }'), field));
    expect(await world.sql('select (span).low, (span).high, (span).note from people')).toEqual([
      { low: 1, high: '2.50', note: null },
    ]);
  });

  test('with a manual attribute is refused by the next start', async () => {
    await world.settle(file(span, field));
    await world.sql('alter type span add attribute odd text');
    expect(await world.refusal(file(span, field))).toEqual([expect.stringContaining('MIG-207')]);
  });

  test('with different attributes is refused while columns use it', async () => {
    await world.settle(file(span, field));
    const next = 'span: { composite: { high: integer } }';
    expect(await world.refusal(file(next, field))).toEqual([
      'MIG-207 svc.yaml:3:3: span is in use, and its attributes are low integer, high numeric(10,2)',
    ]);
    await world.settle(file(span), { drop: 'drop' });
    await world.settle(file(next));
  });
});

test('a pulled file contains the types and has an empty plan', async () => {
  await world.sql(`set role svc_owner;
    create domain positive as numeric(10,2) default 1 not null check (value > 0) check (value < 100);
    create domain email as text collate "C" constraint has_at check (value ~ '@');
      comment on domain email is 'Where to write to';
    create type span as (low positive, high integer); comment on type span is 'From and to';
    create table people (id integer primary key, email email, span span, price positive default 2);
    reset role`);
  const text = await pulled(world);
  expect((await world.plan(text)).steps).toEqual([]);
  await world.settle(text);
});
