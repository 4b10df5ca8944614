import { testFunction } from 'svcyaml';
import { expect, test } from 'vitest';
import total from '../functions/total.ts';

/** As much of the client library as the function uses. */
const clientWith = (answer: object) => ({
  from: () => ({ select: () => ({ eq: () => Promise.resolve(answer) }) }),
});

test('adds up what is not paid', async () => {
  const client = clientWith({ data: [{ price: 5 }, { price: 7 }], error: null });
  const answer = await testFunction(total, { claims: { sub: 'ada' }, client });
  expect(await answer.json()).toEqual({ orders: 2, total: 12 });
});

test('does not answer 0 when the database does not', async () => {
  const client = clientWith({ data: null, error: new Error('away') });
  await expect(testFunction(total, { client })).rejects.toThrow('away');
});
