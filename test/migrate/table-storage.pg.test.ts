// Tests storage parameters and unlogged tables.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
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

const file = (keys: string): string => `tables:
  hits:
    rls: []
    fields: [{ name: id, type: integer, primary_key: true }]
    ${keys}
`;
const stored = async (): Promise<unknown> =>
  (
    await world.sql(
      `select relpersistence as kept, array(select unnest(reloptions) order by 1) as with from pg_class
        where oid = 'hits'::regclass`,
    )
  )[0];

test('parameters are set, changed and reset, and undeclared parameters are kept', async () => {
  await world.settle(file('unlogged: true\n    with: { fillfactor: 70, autovacuum_enabled: false }'));
  expect(await stored()).toEqual({ kept: 'u', with: ['autovacuum_enabled=false', 'fillfactor=70'] });
  await world.sql(
    `insert into hits select generate_series(1, 9); alter table hits set (toast_tuple_target = 4000)`,
  );
  await world.settle(file('with: { fillfactor: 80 }'));
  expect(await stored()).toEqual({ kept: 'p', with: ['fillfactor=80', 'toast_tuple_target=4000'] });
  await world.settle(file(''));
  expect(await stored()).toEqual({ kept: 'p', with: ['toast_tuple_target=4000'] });
  expect(await world.sql('select count(*)::int as n from hits')).toEqual([{ n: 9 }]);
});

test('existing parameters are kept and pulled', async () => {
  await world.settle(file(''));
  await world.sql('alter table hits set unlogged, set (fillfactor = 50)');
  await world.settle(file(''));
  expect(await stored()).toEqual({ kept: 'u', with: ['fillfactor=50'] });
  expect(await pulled(world)).toMatch(/unlogged: true\n {4}with:\n {6}fillfactor: "50"/);
});

test('an unknown parameter is refused with its position', async () => {
  expect(await world.refusal(file('with: { fill_factor: 70 }'))).toEqual([
    expect.stringMatching(/^MIG-101 svc.yaml:\d+:3: unrecognized parameter "fill_factor"/),
  ]);
  expect(await world.refusal(file('with: { fillfactor: 700 }'))).toEqual([
    expect.stringMatching(/value 700 out of bounds for option "fillfactor"/),
  ]);
});

test('a change that rewrites a large table is refused unless allowed', async () => {
  await world.settle(file(''));
  await world.sql('insert into hits select generate_series(1, 99); analyze hits');
  const unlogged = file('unlogged: true');
  expect(await world.refusal(unlogged, { maxWriteBlockMs: 0 })).toEqual([
    expect.stringMatching(
      /^MIG-301 .*hits is no longer logged: a crash empties it would hold ACCESS EXCLUSIVE/,
    ),
  ]);
  await world.settle(unlogged, { maxWriteBlockMs: 0, allow: ['rewrite=tables.hits.unlogged'] });
});
