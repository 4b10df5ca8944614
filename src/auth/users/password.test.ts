import { expect, test } from 'vitest';
import { checkPasswordHashing, PasswordHasher } from './password.ts';

test('an installation that can hash passwords is no reason to refuse a start', () => {
  expect(() => checkPasswordHashing()).not.toThrow();
});

test.each(['@node-rs/argon2', '@node-rs/bcrypt'])(
  'a start without the native half of %s is refused',
  (library) => {
    const resolve = (name: string): string => {
      if (name.startsWith(`${library}-`)) throw new Error(`Cannot find module ${name}`);
      return name;
    };
    expect(() => checkPasswordHashing(resolve)).toThrow(
      expect.objectContaining({
        code: 'native_module_missing',
        hint: expect.stringContaining('--omit=optional'),
      }),
    );
  },
);

test('a password is hashed with argon2id at 19 MiB and two passes', async () => {
  const hasher = new PasswordHasher();
  const hash = await hasher.hash('correct horse');
  expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  expect(hasher.isCurrent(hash)).toBe(true);
  expect(await hasher.verify('correct horse', hash)).toBe(true);
  expect(await hasher.verify('wrong horse', hash)).toBe(false);
});
