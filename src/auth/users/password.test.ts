import { expect, test } from 'vitest';
import { verifyHash } from './imported-hash.ts';
import { checkPasswordHashing, PasswordHasher } from './password.ts';

test('an installation that can hash passwords starts', () => {
  expect(() => checkPasswordHashing()).not.toThrow();
});

test('an installation that cannot hash passwords does not start', () => {
  expect(() => checkPasswordHashing(false)).toThrow(
    expect.objectContaining({
      code: 'native_module_missing',
      hint: expect.stringContaining('--omit=optional'),
    }),
  );
});

test('a bcrypt hash without its native module is a fault, not a wrong password', async () => {
  const hash = '$2b$10$0123456789012345678901uKh5v8nJ0m0a1l1QnJ8sJYzL1n1nq9K';
  expect(await verifyHash('correct horse', hash)).toBe(false);
  await expect(verifyHash('correct horse', hash, () => false)).rejects.toMatchObject({
    code: 'native_module_missing',
  });
});

test('a password is hashed with argon2id at 19 MiB and two passes', async () => {
  const hasher = new PasswordHasher();
  const hash = await hasher.hash('correct horse');
  expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  expect(hasher.isCurrent(hash)).toBe(true);
  expect(await hasher.verify('correct horse', hash)).toBe(true);
  expect(await hasher.verify('wrong horse', hash)).toBe(false);
});
