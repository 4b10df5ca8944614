// Tests exclusion constraints: compared by their printed definition, created again around changes, and refused if the
// build of their index would block writers for long.
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

const bookings = (constraints: string, { room = 'integer', more = '' } = {}): string => `tables:
  bookings:
    rls: []
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: room, type: ${room} }
      - { name: period, type: int4range }
${more}    constraints: [${constraints}]
`;
const OVERLAP = '{ exclude: [{ column: period, with: "&&" }] }';
const SAME_ROOM = '{ exclude: [{ column: room, with: "=" }], using: btree, where: "room > 0" }';
const BY_CALL =
  '{ exclude: [{ expression: "int4range(id, id + 2)", with: "&&" }, ' +
  '{ column: period, with: "&&" }], deferrable: deferred, name: apart }';

const found = async (): Promise<unknown[]> =>
  (
    await world.sql(
      `select conname || ': ' || pg_get_constraintdef(oid) as text from pg_constraint where contype = 'x' order by 1`,
    )
  ).map((row) => row['text']);
const fill = (): Promise<unknown> =>
  world.sql(
    `insert into bookings select n, n, int4range(n * 10, n * 10 + 5) from generate_series(1, 5) n; analyze bookings`,
  );

test('rows that overlap are refused (23P01)', async () => {
  await world.settle(bookings(OVERLAP));
  await fill();
  await expect(world.sql(`insert into bookings values (9, 9, '[12, 13)')`)).rejects.toMatchObject({
    code: '23P01',
  });
  expect(await found()).toEqual(['bookings_period_excl: EXCLUDE USING gist (period WITH &&)']);
});

test('it is added, changed, renamed and removed', async () => {
  await world.settle(bookings(''));
  await fill();
  await world.settle(bookings(`${OVERLAP}, ${SAME_ROOM}, ${BY_CALL}`));
  expect(await found()).toHaveLength(3);
  const next = `${OVERLAP.replace(' }] }', ' }], name: no_overlap }')}, ${SAME_ROOM.replace('> 0', '> 1')}`;
  await world.settle(bookings(next));
  // It is matched by its definition and keeps its name.
  expect(await found()).toEqual([
    'bookings_period_excl: EXCLUDE USING gist (period WITH &&)',
    expect.stringMatching(
      /^bookings_room_\w+_excl: EXCLUDE USING btree \(room WITH =\) WHERE \(\(room > 1\)\)$/,
    ),
  ]);
  await world.settle(bookings(''));
  expect(await found()).toEqual([]);
});

test('the same name with another definition is another constraint', async () => {
  await world.settle(bookings(OVERLAP.replace(' }] }', ' }], name: apart }')));
  await world.settle(
    bookings(
      OVERLAP.replace(' }] }', ' }, { column: id, with: "=" }], using: gist, name: apart }').replace(
        '{ column: id, with: "=" }',
        '{ expression: "int4range(id, id)", with: "=" }',
      ),
    ),
  );
  expect(await found()).toEqual([expect.stringMatching(/^apart: .*int4range\(id, id\) WITH =\)$/)]);
});

test('rows that violate it are reported without their values, and nothing changes', async () => {
  await world.settle(bookings(''));
  await world.sql(`insert into bookings values (1, 1, '[1, 5)'), (2, 2, '[3, 8)')`);
  expect(await world.refusal(bookings(OVERLAP))).toEqual([
    expect.stringMatching(/^MIG-202 svc\.yaml:\d+:\d+: [^=[]*bookings_period_excl[^=[]*$/),
  ]);
  expect(await found()).toEqual([]);
});

test('on a large table it is refused unless allowed, because it blocks writers', async () => {
  await world.settle(bookings(''));
  await fill();
  expect(await world.refusal(bookings(OVERLAP), { maxWriteBlockMs: 0 })).toEqual([
    expect.stringMatching(/^MIG-301 svc\.yaml:\d+:\d+: exclude \(period &&\) would hold ACCESS EXCLUSIVE/),
  ]);
  await world.settle(bookings(OVERLAP), {
    maxWriteBlockMs: 0,
    allow: ['rewrite=tables.bookings.constraints[0]'],
  });
  expect(await found()).toHaveLength(1);
});

describe('it is created again', () => {
  test('when a column changes its type', async () => {
    await world.settle(bookings(SAME_ROOM));
    await fill();
    await world.settle(bookings(SAME_ROOM, { room: 'bigint' }));
    await world.settle(bookings(SAME_ROOM.replace('> 0', "<> '0'"), { room: 'text' }));
    expect(await found()).toHaveLength(1);
  });

  test('when the arguments of a function change', async () => {
    const calls = (type: string): string =>
      `${bookings('{ exclude: [{ expression: span(id), with: "&&" }] }')}rpc:\n  span:\n` +
      '    language: sql\n    volatility: immutable\n' +
      `    args: [{ name: a, type: ${type}, required: true }]\n    returns: { type: int4range }\n` +
      '    body: select int4range(a::integer, a::integer + 1)\n';
    await world.settle(calls('integer'));
    await fill();
    await world.settle(calls('bigint'));
    expect(await found()).toHaveLength(1);
  });

  test('never on a large table: a change of a column type is refused with its name', async () => {
    await world.settle(bookings(SAME_ROOM));
    await fill();
    const refused = await world.refusal(bookings(SAME_ROOM, { room: 'bigint' }), { maxWriteBlockMs: 0 });
    expect(refused.map((problem) => problem.slice(0, 7))).toContain('MIG-301');
    expect(await found()).toHaveLength(1);
  });
});

test('it is kept when its column and table are renamed', async () => {
  await world.settle(bookings(OVERLAP));
  const [before] = await world.sql(`select oid from pg_constraint where contype = 'x'`);
  await world.settle(
    bookings(OVERLAP)
      .replace('bookings:', 'stays:\n    renamed_from: bookings')
      .replace('name: period,', 'name: during, renamed_from: period,')
      .replace('column: period', 'column: during'),
  );
  expect(await world.sql(`select oid from pg_constraint where contype = 'x'`)).toEqual([before]);
});

test('of a removed table, it returns only if the file declares it', async () => {
  const unrelated =
    'tables: { others: { rls: [], fields: [{ name: id, type: integer, primary_key: true }] } }\n';
  await world.settle(bookings(OVERLAP));
  await world.settle(unrelated);
  await world.settle(bookings(OVERLAP));
  expect(await found()).toHaveLength(1);
  await world.settle(unrelated);
  await world.settle(bookings(''));
  expect(await found()).toEqual([]);
});

test('an undeclared constraint is reported and kept, and a declared one is restored after a manual drop', async () => {
  await world.settle(bookings(OVERLAP));
  await world.sql('alter table bookings add constraint mine exclude using btree (room with =)');
  await world.settle(bookings(OVERLAP));
  expect(await found()).toHaveLength(2);
  await world.sql('alter table bookings drop constraint bookings_period_excl');
  expect((await world.plan(bookings(OVERLAP))).steps).toHaveLength(1);
  await world.settle(bookings(OVERLAP));
});

test('it is pulled, and the plan of the pulled file is empty', async () => {
  await world.settle(bookings(''));
  await world.sql(`alter table bookings add constraint a exclude using gist (period with &&, int4range(id,
    id + 1) with =) where (room > 1) deferrable initially deferred;
    alter table bookings add constraint b exclude using spgist (period range_ops with -|-);
    alter table bookings add constraint c exclude using btree ((room::text) collate "C" text_pattern_ops with =)`);
  const yaml = await pulled(world);
  expect(yaml.match(/exclude:/g)).toHaveLength(3);
  const { steps, problems } = await world.plan(yaml);
  expect(steps.map((step) => step.sql)).toEqual([]);
  expect(problems).toEqual([]);
});

test('a mistake in it is reported at its position', async () => {
  expect(await world.refusal(bookings('{ exclude: [{ column: room, with: "=" }] }'))).toEqual([
    expect.stringMatching(
      /^MIG-101 svc\.yaml:\d+:\d+: data type integer has no default operator class for access method "gist"/,
    ),
  ]);
});
