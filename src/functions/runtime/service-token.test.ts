import { decodeProtectedHeader, generateKeyPair } from 'jose';
import { beforeEach, expect, test } from 'vitest';
import type { SigningKey } from '../../identity/token.ts';
import { serviceTokens } from './service-token.ts';

let signing: SigningKey;
let seconds: number;
let next: () => Promise<string>;

async function makeKey(kid: string): Promise<SigningKey> {
  const { privateKey } = await generateKeyPair('ES256');
  return { kid, alg: 'ES256', privateKey };
}

beforeEach(async () => {
  signing = await makeKey('first');
  seconds = 1_000_000;
  const keys = {
    get signing() {
      return signing;
    },
  };
  next = serviceTokens(keys, () => new Date(seconds * 1000));
});

test('requests share a token for a minute', async () => {
  const token = await next();
  seconds += 59;
  expect(await next()).toBe(token);
  seconds += 1;
  expect(await next()).not.toBe(token);
});

test('a new signing key signs the next token', async () => {
  await next();
  signing = await makeKey('second');
  expect(decodeProtectedHeader(await next())).toMatchObject({ kid: 'second' });
});
