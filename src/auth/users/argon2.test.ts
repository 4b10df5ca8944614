// Tests that both implementations of argon2 read the hashes of the other one.
import * as nodeCrypto from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { argon2, hasArgon2, NODE } from './argon2.ts';

const COST = { memoryCost: 64, timeCost: 2, parallelism: 1 };

describe.skipIf(nodeCrypto.argon2 === undefined)("Node's own", () => {
  test.each([
    ['reads its own', NODE, NODE],
    ["reads the library's", undefined, NODE],
    ['is read by the library', NODE, undefined],
  ])('%s', async (_what, writer, reader) => {
    const library = await argon2();
    const hash = await (writer ?? library).hash('correct horse', COST);
    expect(hash).toMatch(/^\$argon2id\$v=19\$m=64,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    expect(await (reader ?? library).verify(hash, 'correct horse')).toBe(true);
    expect(await (reader ?? library).verify(hash, 'wrong horse')).toBe(false);
  });

  test('reads argon2i, and rejects other kinds', async () => {
    // Output of the reference implementation: echo -n password | argon2 somesalt -i -t 2 -m 16 -p 4 -l 24
    const known = '$argon2i$v=19$m=65536,t=2,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b/daWJJTUPNLvvO';
    const found = await NODE.verify(known, 'password').catch(String);
    const byLibrary = await (await argon2()).verify(known, 'password').catch(String);
    expect(found).toBe(byLibrary);
    await expect(NODE.verify('$argon2d$v=19$m=64,t=2,p=1$c29tZXNhbHQ$AAAA', 'x')).rejects.toThrow(
      'not a hash',
    );
  });
});

test('argon2 is available with either implementation', () => {
  const absent = (name: string): string => {
    throw new Error(`Cannot find module ${name}`);
  };
  expect(hasArgon2(undefined, false)).toBe(true);
  expect(hasArgon2(absent, true)).toBe(true);
  expect(hasArgon2(absent, false)).toBe(false);
});
