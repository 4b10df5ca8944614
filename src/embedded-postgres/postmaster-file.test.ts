import { expect, test } from 'vitest';
import { parsePostmasterFile } from './postmaster-file.ts';

const whole =
  '4711\n/home/ada/todo/.svc/postgres\n1795254442\n40123\n\n127.0.0.1\n 16039945         4\nready   \n';

test.each([
  ['a running server', whole, { pid: 4711, port: 40123, status: 'ready' }],
  [
    'one that has just begun',
    whole.split('\n').slice(0, 5).join('\n'),
    { pid: 4711, port: 40123, status: undefined },
  ],
  ['a single-user one (negative id)', `-${whole}`, { pid: 4711 }],
])('reads %s', (_, text, expected) => {
  expect(parsePostmasterFile(text)).toMatchObject(expected);
});

test.each(['', '\n', 'half', '12', 'x\n/data\n1\n'])('reads nothing from %j', (text) => {
  expect(parsePostmasterFile(text)).toBeUndefined();
});
