import { expect, test } from 'vitest';
import { problem, renderProblems } from './problem.ts';

test('the same mistake in many places is rendered once', () => {
  const many = Array.from({ length: 1_000 }, (_, n) =>
    problem('MIG-101', `tables.t${n}.fields.a`, 'type "txet" does not exist', 'Did you mean text?'),
  );
  expect(renderProblems([...many, problem('MIG-101', 'tables.t0', 'another')])).toEqual([
    `MIG-101 tables.t0.fields.a: type "txet" does not exist
  → Did you mean text?
  the same at tables.t1.fields.a, tables.t2.fields.a, tables.t3.fields.a, tables.t4.fields.a, tables.t5.fields.a and 994 more`,
    'MIG-101 tables.t0: another',
  ]);
});

test('a mistake in two places lists both', () => {
  const [text] = renderProblems([
    problem('MIG-101', 'a', 'no'),
    { ...problem('MIG-101', 'b', 'no'), place: 'svc.yaml:3:1' },
  ]);
  expect(text).toBe('MIG-101 a: no\n  the same at svc.yaml:3:1');
});
