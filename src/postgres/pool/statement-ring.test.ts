import { expect, test } from 'vitest';
import type { CountedRun } from './caller-pool.ts';
import { StatementRing } from './statement-ring.ts';

const run = (name: string, given: Partial<CountedRun> = {}): CountedRun => ({
  name,
  role: 'anon',
  text: `select ${name}`,
  ms: 2,
  rows: 1,
  ...given,
});

test('runs of one statement are added up', () => {
  const ring = new StatementRing();
  ring.count(run('a'));
  ring.count(run('a', { ms: 4, rows: 3 }));
  ring.count(run('b'));
  expect(ring.shapes).toMatchObject([
    { role: 'anon', text: 'select a', calls: 2, totalMs: 6, rows: 4 },
    { text: 'select b', calls: 1 },
  ]);
});

test('of more than 500 shapes those stay that run again and again', () => {
  const ring = new StatementRing();
  for (let round = 0; round < 3_000; round++) {
    ring.count(run('often'));
    ring.count(run(`once ${round}`));
  }
  expect(ring.shapes).toHaveLength(500);
  expect(ring.left).toBe(2_501);
  expect(ring.shapes.find(({ text }) => text === 'select often')).toMatchObject({ calls: 3_000 });
});

test('a long text is cut', () => {
  const ring = new StatementRing();
  ring.count(run('a', { text: 'x'.repeat(10_000) }));
  expect(ring.shapes[0]?.text).toHaveLength(2_001);
});
