import { expect, test } from 'vitest';
import { parentLog, readableLine } from './parent-log.ts';

test('a line for a person has the time of its clock, and the fields below', () => {
  const lines: string[] = [];
  parentLog('warn', (line) => void lines.push(line))('warn', { worker: 3 }, 'a worker died');
  expect(readableLine(lines.join(''))).toMatch(
    /^\[\d\d:\d\d:\d\d\] WARN: a worker died\n {4}process: 0\n {4}worker: 3\n$/,
  );
});
