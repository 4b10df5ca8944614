import { testFunction } from 'svcyaml';
import { expect, test } from 'vitest';
import total from '../functions/total.ts';

/** Mocks the parts of the client library that the function uses. */
const clientWith = (answer: object) => ({
  from: () => ({ select: () => ({ eq: () => Promise.resolve(answer) }) }),
});

test('adds up unpaid orders', async () => {
  const client = clientWith({ data: [{ price: 5 }, { price: 7 }], error: null });
  const answer = await testFunction(total, { claims: { sub: 'ada' }, client });
  expect(await answer.json()).toEqual({ orders: 2, total: 12 });
});

test('does not return 0 when the database fails', async () => {
  const client = clientWith({ data: null, error: new Error('away') });
  await expect(testFunction(total, { client })).rejects.toThrow('away');
});
