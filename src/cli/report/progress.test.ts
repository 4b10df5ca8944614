import { expect, test, vi } from 'vitest';
import { reportProgress } from '../../lib/progress.ts';
import type { Terminal } from '../terminal.ts';
import { printProgress, progressLine } from './progress.ts';

function recordingTerminal(): Terminal & { readonly printed: string[] } {
  const printed: string[] = [];
  const print = (): void => {};
  return {
    color: false,
    print,
    printError: (text) => void printed.push(text),
    style: (_, text) => text,
    printed,
  };
}

test.each([
  [{ step: 'comparing users' }, 400, 'comparing users (00:00)'],
  [{ step: 'rows of public.orders', done: 3, total: 24 }, 67_000, 'rows of public.orders: 3 of 24 (01:07)'],
  [{ step: 'files', done: 1200 }, 3_600_000, 'files: 1200 (60:00)'],
])('%o is one line', (progress, elapsedMs, line) => {
  expect(progressLine(progress, elapsedMs)).toBe(line);
});

test('prints the latest step at each interval, to standard error', async () => {
  const terminal = recordingTerminal();
  const result = await printProgress(
    terminal,
    async () => {
      reportProgress('first');
      reportProgress('second', 1, 2);
      await vi.waitUntil(() => terminal.printed.length > 0);
      reportProgress('third');
      await vi.waitUntil(() => terminal.printed.some((line) => line.startsWith('third')));
      return 'done';
    },
    1,
  );
  expect(result).toBe('done');
  expect(terminal.printed[0]).toMatch(/^second: 1 of 2 \(/);
});

test('a short command prints nothing, and progress outside of a command is ignored', async () => {
  const terminal = recordingTerminal();
  await printProgress(terminal, async () => reportProgress('step'), 60_000);
  reportProgress('outside of a command');
  expect(terminal.printed).toEqual([]);
});
