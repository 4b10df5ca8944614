import { expect, test } from 'vitest';
import { collectLog, type LogLine } from '../../../test/support/collect-log.ts';
import type { SlowRun } from '../../postgres/pool/caller-pool.ts';
import { SlowStatements } from './slow-statements.ts';

const run = (text: string): SlowRun => ({
  role: 'anon',
  searchPath: undefined,
  text,
  ms: 612.4,
  rows: 3,
  sqlstate: undefined,
  requestId: 'r',
  traceId: undefined,
});

function watchStatements(plan: () => Promise<string[]>): {
  slow: SlowStatements;
  lines: () => readonly LogLine[];
  planRequests: () => number;
} {
  const { log, lines } = collectLog();
  let planRequests = 0;
  const slow = new SlowStatements({
    log,
    plan: async () => {
      planRequests += 1;
      return await plan();
    },
  });
  return { slow, lines, planRequests: () => planRequests };
}

test('the plan is requested after the caller of the statement has its result', async () => {
  const { slow, lines, planRequests } = watchStatements(() => Promise.resolve(['Seq Scan', '  Filter']));
  slow.seen(run('select 1'));
  await Promise.resolve();
  expect(planRequests()).toBe(0);
  await expect.poll(lines).toMatchObject([{ ms: 612, rows: 3, sql: 'select 1', plan: 'Seq Scan\n  Filter' }]);
  slow.close();
});

test('logs one line per shape and one plan per second, and the rest without a plan', async () => {
  const { slow, lines, planRequests } = watchStatements(() => Promise.resolve(['Result']));
  for (let n = 0; n < 30; n++) slow.seen(run('select 1'));
  for (let n = 0; n < 30; n++) slow.seen(run(`select ${n + 2}`));
  const withoutPlan = (): number => lines().filter(({ noPlan }) => noPlan !== undefined).length;
  // Ten plans are queued. It does not matter whether the first plan is ready before the last statement is
  // recorded.
  await expect.poll(withoutPlan).toBeGreaterThanOrEqual(20);
  expect(planRequests()).toBe(1);
  expect(lines().filter(({ sql }) => sql === 'select 1')).toHaveLength(1);
  slow.close();
});

test('a slow statement is logged even if its plan fails', async () => {
  const { slow, lines } = watchStatements(() => Promise.reject(new Error('too many connections')));
  slow.seen(run('x'.repeat(10_000)));
  await expect.poll(lines).toMatchObject([{ msg: 'slow statement', noPlan: 'too many connections' }]);
  expect(String(lines()[0]?.['sql']).length).toBeLessThan(5_000);
  slow.close();
});
