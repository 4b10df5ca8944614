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

function watched(plan: () => Promise<string[]>): {
  slow: SlowStatements;
  lines: () => readonly LogLine[];
  asked: () => number;
} {
  const { log, lines } = collectLog();
  let asked = 0;
  const slow = new SlowStatements({
    log,
    plan: async () => {
      asked += 1;
      return await plan();
    },
  });
  return { slow, lines, asked: () => asked };
}

test('nothing is asked before whoever ran the statement has its answer', async () => {
  const { slow, lines, asked } = watched(() => Promise.resolve(['Seq Scan', '  Filter']));
  slow.seen(run('select 1'));
  await Promise.resolve();
  expect(asked()).toBe(0);
  await expect.poll(lines).toMatchObject([{ ms: 612, rows: 3, sql: 'select 1', plan: 'Seq Scan\n  Filter' }]);
  slow.close();
});

test('one line for a shape; plans one a second; what is too much is told without', async () => {
  const { slow, lines, asked } = watched(() => Promise.resolve(['Result']));
  for (let n = 0; n < 30; n++) slow.seen(run('select 1'));
  for (let n = 0; n < 30; n++) slow.seen(run(`select ${n + 2}`));
  const untold = (): number => lines().filter(({ noPlan }) => noPlan !== undefined).length;
  // Ten wait; whether the first plan is there before the last statement is seen does not matter.
  await expect.poll(untold).toBeGreaterThanOrEqual(20);
  expect(asked()).toBe(1);
  expect(lines().filter(({ sql }) => sql === 'select 1')).toHaveLength(1);
  slow.close();
});

test('a plan that cannot be made does not take the line away', async () => {
  const { slow, lines } = watched(() => Promise.reject(new Error('too many connections')));
  slow.seen(run('x'.repeat(10_000)));
  await expect.poll(lines).toMatchObject([{ msg: 'slow statement', noPlan: 'too many connections' }]);
  expect(String(lines()[0]?.['sql']).length).toBeLessThan(5_000);
  slow.close();
});
