import { expect, test } from 'vitest';
import { notOurs, problemFromOutput } from './problem.ts';

test.each([
  [
    'postgres_library_missing',
    'postgres: error while loading shared libraries: libicui18n.so.60: cannot open shared object file: No such file',
    'libicui18n.so.60',
  ],
  [
    'postgres_disk_full',
    'creating configuration files ... initdb: error: could not write file "x": No space left on device',
    'No space left',
  ],
  [
    'postgres_disk_full',
    'LOG:  starting\nFATAL:  could not extend file "base/5/1259": No space left on device\nHINT:  Check free disk space.',
    'base/5/1259',
  ],
  [
    'postgres_start_failed',
    'LOG:  starting\nFATAL:  invalid value for parameter\nLOG:  shut down',
    'invalid value',
  ],
  [
    'postgres_nameless_user',
    'initdb: could not look up effective user ID 54321: user does not exist',
    '54321',
  ],
  ['postgres_start_failed', '', 'no output'],
])('%s is recognised in the output of the program', (code, output, details) => {
  const problem = problemFromOutput(output, 'postgres.log');
  expect(problem.code).toBe(code);
  expect(problem.details).toContain(details);
  expect(problem.hint).not.toBe('');
});

test('a command in a hint quotes a path with spaces and quotes', () => {
  expect(notOurs("/home/ada/it's mine", 0, 1000).hint).toContain(
    String.raw`sudo chown -R 1000 '/home/ada/it'\''s mine'`,
  );
});
