import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { checkPasswordHashing } from '../auth/users/password.ts';
import { SECRET_VARIABLES, readSecretFiles } from '../config/read/secret-files.ts';
import { Abort, Problem } from '../problem/problem.ts';
import { EXIT, explain, failure } from './exit.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-exit-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const exitCode = (work: () => unknown): number => {
  try {
    work();
    return 0;
  } catch (error) {
    return explain(error).exitCode;
  }
};

test.each(SECRET_VARIABLES)('a start fails if %s is set in the environment and in a file', (name) => {
  const secret = join(folder, 'secret');
  writeFileSync(secret, 'hunter2');
  const both = { [name]: 'hunter3', [`${name}_FILE`]: secret };
  expect(exitCode(() => readSecretFiles(both, folder))).toBe(EXIT.badConfiguration);
  expect(exitCode(() => readSecretFiles({ [`${name}_FILE`]: join(folder, 'nothing') }, folder))).toBe(78);
  expect(exitCode(() => readSecretFiles({ [`${name}_FILE`]: secret }, folder))).toBe(0);
});

test('a start fails if passwords cannot be hashed', () => {
  expect(exitCode(() => checkPasswordHashing(false))).toBe(78);
});

describe('the error decides the exit code', () => {
  test.each([
    ['no_backup', 1],
    ['restore_not_empty', 1],
    ['restore_wrong_key', 78],
    ['clone_not_empty', 1],
    ['migration_under_way', 1],
    ['bad_keep', 2],
    ['bad_recipient', 2],
    ['database_unreachable', 69],
    ['database_read_only', 69],
    ['bad_secret_file', 78],
  ])('the problem %s: %i', (code, exitCode) => {
    expect(explain(new Problem(code, 500, 'said')).exitCode).toBe(exitCode);
  });

  test('a failure keeps its code, a requested stop is 0, and a fault of svc is 70', () => {
    expect(explain(failure(EXIT.misuse, 'wrong')).exitCode).toBe(2);
    expect(explain(new Abort('shutdown'))).toMatchObject({ exitCode: 0, report: '' });
    expect(explain(new TypeError('x is undefined'))).toMatchObject({
      exitCode: 70,
      report: expect.stringContaining('fault of svc itself'),
    });
  });
});
