import { createHmac } from 'node:crypto';
import { testFunction } from 'svcyaml';
import { expect, test } from 'vitest';
import payment from '../functions/payment.ts';

const env = { PAYMENT_SECRET: 'of the tests' };
const body = JSON.stringify({ order: 1 });
const sign = (secret: string): string => createHmac('sha256', secret).update(body).digest('hex');

test.each([
  ['takes what the service signed', sign('of the tests'), 204],
  ['refuses what somebody else signed', sign('guessed'), 401],
  ['refuses what nobody signed', '', 401],
])('%s', async (_what, signature, status) => {
  const answer = await testFunction(payment, { env, body, headers: { 'x-signature': signature } });
  expect(answer.status).toBe(status);
});
