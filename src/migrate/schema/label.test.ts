import { expect, test } from 'vitest';
import {
  checkLabel,
  indexLabel,
  policyLabel,
  primaryKeyLabel,
  referenceTriggerLabels,
  uniqueLabel,
} from './label.ts';

test('labels follow the conventions of PostgreSQL', () => {
  expect(primaryKeyLabel('todos')).toBe('todos_pkey');
  expect(uniqueLabel('todos', ['title'])).toBe('todos_title_key');
  expect(checkLabel('todos', 'state', 'enum')).toBe('todos_state_enum');
  expect(indexLabel('todos', ['a', 'b'], false, null)).toBe('todos_a_b_idx');
  expect(policyLabel('todos', 2, 'all')).toBe('todos_p2_all');
});

test('the label of a partial index contains a hash of its condition', () => {
  const label = indexLabel('todos', ['a'], true, 'x > 1');
  expect(label).toMatch(/^todos_a_[0-9a-f]{6}_uidx$/);
  expect(label).not.toBe(indexLabel('todos', ['a'], true, 'x > 2'));
});

test.each(['x'.repeat(63), 'ü'.repeat(31), '😀'.repeat(15)])(
  'a long name gives a label of at most 63 bytes: %s',
  (name) => {
    const labels = [
      checkLabel(name, name, 'pattern'),
      checkLabel(name, name, 'range'),
      uniqueLabel(name, [name, name]),
      referenceTriggerLabels(name).truncate,
    ];
    for (const label of labels) {
      expect(Buffer.byteLength(label)).toBeLessThanOrEqual(63);
      expect(label).not.toContain('\ufffd');
    }
    expect(new Set(labels).size).toBe(labels.length);
  },
);
