import { expect, test } from 'vitest';
import type { CountedRun } from './caller-pool.ts';
import { StatementCounts } from './statement-counts.ts';

const run = (name: string, given: Partial<CountedRun> = {}): CountedRun => ({
  name,
  role: 'anon',
  text: `select ${name}`,
  ms: 2,
  rows: 1,
  ...given,
});

test('runs of one statement are added up', () => {
  const statementCounts = new StatementCounts();
  statementCounts.count(run('a'));
  statementCounts.count(run('a', { ms: 4, rows: 3 }));
  statementCounts.count(run('b'));
  expect(statementCounts.shapes).toMatchObject([
    { role: 'anon', text: 'select a', calls: 2, totalMs: 6, rows: 4 },
    { text: 'select b', calls: 1 },
  ]);
});

test('of more than 500 shapes those stay that run again and again', () => {
  const statementCounts = new StatementCounts();
  for (let round = 0; round < 3_000; round++) {
    statementCounts.count(run('often'));
    statementCounts.count(run(`once ${round}`));
  }
  expect(statementCounts.shapes).toHaveLength(500);
  expect(statementCounts.left).toBe(2_501);
  expect(statementCounts.shapes.find(({ text }) => text === 'select often')).toMatchObject({ calls: 3_000 });
});

test('a long text is cut', () => {
  const statementCounts = new StatementCounts();
  statementCounts.count(run('a', { text: 'x'.repeat(10_000) }));
  expect(statementCounts.shapes[0]?.text).toHaveLength(2_001);
});
