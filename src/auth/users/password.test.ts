import { expect, test } from 'vitest';
import { checkPasswordHashing } from './password.ts';

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
