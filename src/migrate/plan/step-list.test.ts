import { expect, test } from 'vitest';
import { lockMs, stepOf } from './step-list.ts';

const step = (estimateMs: number, table?: string): ReturnType<typeof stepOf> =>
  stepOf({
    sql: 'select',
    stage: 'columns',
    identity: 'tables.t',
    summary: 'a step',
    estimateMs,
    ...(table === undefined ? {} : { table, lock: 'ShareRowExclusive' }),
  });

test('a transaction holds its locks for the time of all its steps', () => {
  expect(lockMs([step(5), step(1, 'public.t'), step(60, 'public.t')])).toBe(66);
});

test('a transaction that locks no table holds none', () => {
  expect(lockMs([step(5), step(7)])).toBe(0);
});
