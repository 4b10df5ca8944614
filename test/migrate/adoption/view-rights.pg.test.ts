// Tests that access to a view without policies needs an explicit permission.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { aWorld, type World } from '../world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(() => world.empty());

const file = (more: string): string => `
tables:
  notes: { rls: [], fields: [{ name: id, type: integer, primary_key: true }] }
views:
  totals: { query: "select count(*) as n from notes", ${more} }
`;

test('an existing materialized view needs a permission for each role that gains access', async () => {
  await world.settle(file('materialized: true'));
  expect(await world.refusal(file('materialized: true, grants: { authenticated: [select] }'))).toEqual([
    expect.stringMatching(/^MIG-303 .*view totals: grants: select for authenticated: more than/),
  ]);
  await world.settle(file('materialized: true, grants: { authenticated: [select] }'), {
    allow: ['authz_open=views.totals'],
  });
});

test('a view with the rights of its owner needs a permission for a second role', async () => {
  const readers = (list: string): string => file(`security: definer, grants: { ${list} }`);
  await world.settle(readers('anon: [], authenticated: [select]'), { allow: ['authz_open=views.totals'] });
  expect(await world.refusal(readers('anon: [select], authenticated: [select]'))).toEqual([
    expect.stringMatching(/^MIG-303 .*view totals: grants: select for anon: more than/),
  ]);
});
