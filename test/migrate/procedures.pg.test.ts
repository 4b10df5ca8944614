// Tests procedures: created, compared, pulled, dropped, and executable only by the declared roles.
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
  '{ kind: procedure, ' +
  'args: [{ name: n, type: integer, required: true }, ' +
  '{ name: done, type: integer, mode: inout, default: 0 }], body: begin done := n; commit; end }';
const QUIET = '{ kind: procedure, language: sql, execute: [authenticated], body: select 1 }';
const PLAIN = '{ language: sql, returns: { type: integer }, body: select 1 }';

const file = (forms: Readonly<Record<string, string>>): string =>
  `rpc:\n${Object.entries(forms)
    .map(([name, form]) => `  ${name}: ${form}\n`)
    .join('')}`;
const ALL = file({ work: WORK, quiet_work: QUIET, plain: PLAIN });
const settled = async (text: string): Promise<void> => {
  // Changing between a procedure and a function changes its callers.
  await world.settle(text, { allow: ['authz_open'] });
  await world.sql('truncate svc_meta.stamp');
  expect((await world.plan(text)).steps).toEqual([]);
};

test('a procedure is created and can be called, and the second plan is empty', async () => {
  await settled(ALL);
  expect(await world.sql('call work(4, 0)')).toEqual([{ done: 4 }]);
});

test('a procedure is pulled unchanged', async () => {
  await world.settle(ALL);
  const text = await pulled(world);
  expect(text).toContain('kind: procedure');
  await world.sql('truncate svc_meta.run, svc_meta.step, svc_meta.object, svc_meta.stamp');
  expect((await world.plan(text)).steps).toEqual([]);
});

test('the body, an argument and the kind of a procedure can change', async () => {
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

test('a removed procedure is dropped', async () => {
  await world.settle(ALL);
  await settled(file({ plain: PLAIN }));
  expect(
    await world.sql("select proname as name from pg_proc where pronamespace = 'public'::regnamespace"),
  ).toEqual([{ name: 'plain' }]);
});

test('API roles can execute a procedure only if the file allows it', async () => {
  await world.settle(ALL);
  expect(
    await world.sql(`select has_function_privilege('authenticated', 'quiet_work()', 'execute') as may,
      has_function_privilege('anon', 'quiet_work()', 'execute') as anybody,
      has_function_privilege('authenticated', 'work(int, int)', 'execute') as other`),
  ).toEqual([{ may: true, anybody: false, other: false }]);
});
