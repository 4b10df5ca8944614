import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { silentLog } from '../../log/log.ts';
import type { Superseded } from '../state/superseded.ts';
import { SupersededWatch } from './superseded-watch.ts';

const TEN_MINUTES = 10 * 60_000;
const report = { message: 'MIG-403 …', hint: 'build it again', differs: ['- policy'] };
const still = { code: 'MIG-403' } as Superseded;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test('the report is logged every ten minutes until the newer file is rolled back', async () => {
  const messages: string[] = [];
  const log = {
    ...silentLog,
    error: (_about: unknown, message?: string) => void messages.push(message ?? ''),
    info: () => void messages.push('rolled back'),
  } as typeof silentLog;
  let now: Superseded | undefined = still;
  const watch = new SupersededWatch();
  const { signal } = new AbortController();
  watch.found(report, () => Promise.resolve(now), { log, signal });
  await vi.advanceTimersByTimeAsync(2 * TEN_MINUTES);
  expect(messages).toEqual([report.message, report.message, report.message]);
  expect(watch.report).toBe(report);
  now = undefined;
  await vi.advanceTimersByTimeAsync(2 * TEN_MINUTES);
  expect(messages.slice(3)).toEqual(['rolled back']);
  expect(watch.report).toBeUndefined();
});

test('an unreachable database keeps the report', async () => {
  const watch = new SupersededWatch();
  const { signal } = new AbortController();
  watch.found(report, () => Promise.reject(new Error('away')), { log: silentLog, signal });
  await vi.advanceTimersByTimeAsync(TEN_MINUTES);
  expect(watch.report).toBe(report);
});
