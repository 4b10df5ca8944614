// Procedures: made, compared, pulled, dropped, and run by nobody that the file does not name.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(() => world.empty());

const WORK =
  '{ kind: procedure, args: [{ name: n, type: integer, required: true }, { name: done, type: integer, mode: inout, default: 0 }], body: begin done := n; commit; end }';
const QUIET = '{ kind: procedure, language: sql, execute: [authenticated], body: select 1 }';
const PLAIN = '{ language: sql, returns: { type: integer }, body: select 1 }';

const file = (forms: Readonly<Record<string, string>>): string =>
  `rpc:\n${Object.entries(forms)
    .map(([name, form]) => `  ${name}: ${form}\n`)
    .join('')}`;
const ALL = file({ work: WORK, quiet_work: QUIET, plain: PLAIN });
const settled = async (text: string): Promise<void> => {
  await world.settle(text);
  await world.sql('truncate svc_meta.stamp');
  expect((await world.plan(text)).steps).toEqual([]);
};

test('one is made and can be called, and a second plan is empty', async () => {
  await settled(ALL);
  expect(await world.sql('call work(4, 0)')).toEqual([{ done: 4 }]);
});

test('one is pulled as it is', async () => {
  await world.settle(ALL);
  const text = await pulled(world);
  expect(text).toContain('kind: procedure');
  await world.sql('truncate svc_meta.run, svc_meta.step, svc_meta.object, svc_meta.stamp');
  expect((await world.plan(text)).steps).toEqual([]);
});

test('a change of the body, of an argument, and of the kind either way', async () => {
  await settled(ALL);
  await settled(file({ work: WORK.replace(':= n;', ':= n + 1;'), quiet_work: QUIET, plain: PLAIN }));
  expect(await world.sql('call work(4, 0)')).toEqual([{ done: 5 }]);
  await settled(file({ work: WORK.replaceAll('integer', 'bigint'), quiet_work: PLAIN, plain: QUIET }));
  expect(
    await world.sql(
      "select proname as name, prokind as kind from pg_proc where pronamespace = 'public'::regnamespace order by 1",
    ),
  ).toEqual([
    { name: 'plain', kind: 'p' },
    { name: 'quiet_work', kind: 'f' },
    { name: 'work', kind: 'p' },
  ]);
});

test('what left the file is gone', async () => {
  await world.settle(ALL);
  await settled(file({ plain: PLAIN }));
  expect(
    await world.sql("select proname as name from pg_proc where pronamespace = 'public'::regnamespace"),
  ).toEqual([{ name: 'plain' }]);
});

test('nobody of the API may run one unless the file says so', async () => {
  await world.settle(ALL);
  expect(
    await world.sql(`select has_function_privilege('authenticated', 'quiet_work()', 'execute') as may,
      has_function_privilege('anon', 'quiet_work()', 'execute') as anybody,
      has_function_privilege('authenticated', 'work(int, int)', 'execute') as other`),
  ).toEqual([{ may: true, anybody: false, other: false }]);
});
