import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { checkPasswordHashing } from '../auth/users/password.ts';
import { SECRET_VARIABLES, takeSecretFiles } from '../config/read/secret-files.ts';
import { Abort, Problem } from '../problem/problem.ts';
import { EXIT, explain, failure } from './exit.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-exit-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const codeOf = (work: () => unknown): number => {
  try {
    work();
    return 0;
  } catch (error) {
    return explain(error).exitCode;
  }
};

test.each(SECRET_VARIABLES)('%s in the environment and in a file: no start', (name) => {
  const secret = join(folder, 'secret');
  writeFileSync(secret, 'hunter2');
  const both = { [name]: 'hunter3', [`${name}_FILE`]: secret };
  expect(codeOf(() => takeSecretFiles(both, folder))).toBe(EXIT.badConfiguration);
  expect(codeOf(() => takeSecretFiles({ [`${name}_FILE`]: join(folder, 'nothing') }, folder))).toBe(78);
  expect(codeOf(() => takeSecretFiles({ [`${name}_FILE`]: secret }, folder))).toBe(0);
});

test('nothing hashes passwords: no start', () => {
  expect(codeOf(() => checkPasswordHashing(false))).toBe(78);
});

describe('what was thrown decides the code', () => {
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

  test('a failure that has its code, a stop that was asked for, a fault of ours', () => {
    expect(explain(failure(EXIT.misuse, 'wrong')).exitCode).toBe(2);
    expect(explain(new Abort('shutdown'))).toMatchObject({ exitCode: 0, report: '' });
    expect(explain(new TypeError('x is undefined'))).toMatchObject({
      exitCode: 70,
      report: expect.stringContaining('fault of svc itself'),
    });
  });
});
