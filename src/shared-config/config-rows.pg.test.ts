// The states of a proposed configuration.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startOwnerWorld, type OwnerWorld } from '../../test/support/owner-world.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { markApplied, markRefused, propose, readRow } from './config-rows.ts';

let world: OwnerWorld;
let owner: OwnerDatabase;

beforeAll(async () => {
  world = await startOwnerWorld();
  ({ owner } = world);
});
afterAll(() => world.close());

test('a row that was applied before its deployment failed stays applied', async () => {
  const applied = await propose(owner, { text: 'version: 1', author: 'ada' });
  const second = await propose(owner, { text: 'version: 2', author: 'ada' });
  await owner.transaction(async (transaction) => {
    await markApplied(transaction, applied, undefined);
  });
  for (const { id } of [applied, second]) await markRefused(owner, id, 'a step failed');
  expect(await readRow(owner, applied.id)).toMatchObject({ state: 'applied', reason: null });
  expect(await readRow(owner, second.id)).toMatchObject({ state: 'refused', reason: 'a step failed' });
});
