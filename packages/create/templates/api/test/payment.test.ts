import { createHmac } from 'node:crypto';
import { testFunction } from 'svcyaml';
import { expect, test } from 'vitest';
import payment from '../functions/payment.ts';

const env = { PAYMENT_SECRET: 'of the tests' };
const body = JSON.stringify({ order: 1 });
const sign = (secret: string): string => createHmac('sha256', secret).update(body).digest('hex');

test.each([
  ['accepts the signature of the service', sign('of the tests'), 204],
  ['rejects another signature', sign('guessed'), 401],
  ['rejects a missing signature', '', 401],
])('%s', async (_what, signature, status) => {
  const answer = await testFunction(payment, { env, body, headers: { 'x-signature': signature } });
  expect(answer.status).toBe(status);
});
