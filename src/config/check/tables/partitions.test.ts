// Mistakes in `partition_by` and `partitions`.
import { expect, test } from 'vitest';
import { loadConfig } from '../../load.ts';

const mistakes = (keys: string, { fields = '', more = '' } = {}): string[] => {
  const loaded = loadConfig(
    {
      name: 'svc.yaml',
      directory: undefined,
      text: `version: 1
tables:
  events:
    rls: []
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: at, type: timestamptz, primary_key: true }
      - { name: day, type: date }
      - { name: kind, type: text${fields} }
    ${keys}
${more}`,
    },
    { variables: {} },
  );
  const found = loaded.ok ? loaded.warnings : loaded.mistakes;
  return found.map(
    (mistake) =>
      `${mistake.severity} ${mistake.path.slice(2).join('.')}: ${mistake.message}. ${mistake.hint}`,
  );
};
const listed = (values: string, by = 'range: [at]'): string =>
  `partition_by: { ${by} }\n    partitions: [{ name: one, values: ${values} }]`;
const scheduled = (schedule: string, by = 'range: [at]'): string =>
  `partition_by: { ${by} }\n    partitions: { ${schedule} }`;

test.each([
  ['a range', listed(`"from ('2026-01-01') to ('2027-01-01')"`)],
  ['a hash of the key', listed('"with (modulus 1, remainder 0)"', 'hash: [id, at]')],
  ['a default partition', listed('default')],
  ['months', scheduled('every: 1 month, keep: 2 years')],
  ['weeks from a given day', scheduled('every: 2 weeks, ahead: 5, from: 2024-01-01')],
])('%s', (_what, keys) => expect(mistakes(keys)).toEqual([]));

test.each([
  ['partitions: { every: 1 month }', 'error partitions: partitions requires partition_by'],
  ['partition_by: { range: [at] }', 'warning partition_by: the table events has no partitions'],
  ['partition_by: { range: [at], list: [kind] }', 'must be one of range, list and hash'],
  [listed('default', 'range: [att]'), 'error partition_by.range.0: there is no column att. Did you mean at?'],
  [listed('default', 'list: [at, id]'), 'error partition_by.list.1: list accepts one column'],
  [
    listed(`"in ('a')"`),
    `error partitions.0.values: "in ('a')" is not a valid bound of a range partition. Write for example ` +
      'values: "from (',
  ],
  [listed('default', 'hash: [id, at]'), 'is not a valid bound of a hash partition'],
  [
    listed('default', 'range: [kind]'),
    'error fields.0.primary_key: the primary key does not contain the partition key kind. ' +
      'PostgreSQL requires all columns of partition_by in a unique key: add kind.',
  ],
  [
    listed('default', 'list: [lower(kind)]'),
    'the primary key is not possible: the table is partitioned by an expression',
  ],
  [
    `${listed('default')}\n    indexes: [{ columns: [id], unique: true }]`,
    'error indexes.0.columns: this unique index does not contain the partition key at',
  ],
  [
    `${listed('default')}\n    constraints: [{ unique: [id] }]`,
    'error constraints.0.unique: this key does not contain the partition key at',
  ],
  [
    scheduled('every: 1 fortnight'),
    'error partitions.every: "1 fortnight" is not a time such as 1 month or 14 days',
  ],
  [scheduled('every: 1 month, ahead: 0'), 'error partitions.ahead: 0 must be at least 1'],
  [scheduled('every: 1 month, from: yesterday'), 'partitions.from'],
  [
    scheduled('every: 1 month', 'hash: [id, at]'),
    'error partitions: every creates partitions by time, and the key is not a single column with a time',
  ],
  [scheduled('every: 1 month', 'range: [at, id]'), 'the key is not a single column with a time'],
  [
    'partition_by: { range: [at] }\n    partitions: [{ name: a, values: default, partition_by: { hash: [id] } }]',
    'error partitions.0: a has partition_by without partitions',
  ],
  [
    'partition_by: { range: [at] }\n    partitions: [{ name: a, values: default, partition_by: { hash: ' +
      "[kind] }, partitions: [{ name: b, values: 'with (modulus 1, remainder 0)' }] }]",
    'the primary key does not contain the partition key kind',
  ],
  [
    'partition_by: { range: [at] }\n    partitions: [{ name: events, values: default }]',
    'error partitions.0.name: there is already a table events with this name',
  ],
  [
    `partition_by: { range: [at] }\n    partitions: [{ name: a, values: default }, { name: a, values: "from ` +
      `('2026-01-01') to ('2027-01-01')" }]`,
    'error partitions.1.name: there is already a partition of events with this name',
  ],
])('%s is a mistake', (keys, message) => {
  expect(mistakes(keys).join('\n')).toContain(message);
});

test.each([
  [
    `${listed('default')}\n    unlogged: true`,
    {},
    'error unlogged: unlogged is not valid for a partitioned table, because only its partitions store rows',
  ],
  [
    `${listed('default')}\n    with: { fillfactor: 70 }`,
    {},
    'error with: with is not valid for a partitioned table',
  ],
  [
    'unlogged: true',
    {
      more:
        '  notes: { rls: [], fields: [{ name: id, type: bigint, primary_key: true, foreign_key: { references: ' +
        'events.id } }] }',
    },
    'notes is logged and refers to an unlogged table',
  ],
  ['with: { "fill factor": 70 }', {}, 'is not the name of an option'],
])('%s %j is a mistake', (keys, more, message) => {
  expect(mistakes(keys, more).join('\n')).toContain(message);
});

test('a date cannot be partitioned by hour', () => {
  const keys = scheduled('every: 1 hour', 'range: [day]');
  expect(mistakes(keys).join('\n')).toContain('error partitions.every: day is a date');
});

test('a unique column must contain the partition key', () => {
  expect(mistakes(listed('default'), { fields: ', unique: true' }).join('\n')).toContain(
    'error fields.3.unique: unique of kind does not contain the partition key at',
  );
});
