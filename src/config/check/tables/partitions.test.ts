// Mistakes in `partition_by` and `partitions`.
import { expect, test } from 'vitest';
import { loadConfig } from '../../load.ts';

const mistakes = (said: string, { fields = '', more = '' } = {}): string[] => {
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
    ${said}
${more}`,
    },
    { variables: {} },
  );
  const found = loaded.ok ? loaded.warnings : loaded.mistakes;
  return found.map((one) => `${one.severity} ${one.path.slice(2).join('.')}: ${one.message}. ${one.hint}`);
};
const listed = (values: string, by = 'range: [at]'): string =>
  `partition_by: { ${by} }\n    partitions: [{ name: one, values: ${values} }]`;
const kept = (said: string, by = 'range: [at]'): string =>
  `partition_by: { ${by} }\n    partitions: { ${said} }`;

test.each([
  ['a range', listed(`"from ('2026-01-01') to ('2027-01-01')"`)],
  ['a hash of the key', listed('"with (modulus 1, remainder 0)"', 'hash: [id, at]')],
  ['all others', listed('default')],
  ['months', kept('every: 1 month, keep: 2 years')],
  ['weeks from a day on', kept('every: 2 weeks, ahead: 5, from: 2024-01-01')],
])('%s', (_what, said) => expect(mistakes(said)).toEqual([]));

test.each([
  ['partitions: { every: 1 month }', 'error partitions: nothing says which rows a partition holds'],
  ['partition_by: { range: [at] }', 'warning partition_by: the table events has no partitions'],
  ['partition_by: { range: [at], list: [kind] }', 'must be one of range, list and hash'],
  [listed('default', 'range: [att]'), 'error partition_by.range.0: there is no column att. Did you mean at?'],
  [listed('default', 'list: [at, id]'), 'error partition_by.list.1: a list is of one column'],
  [
    listed(`"in ('a')"`),
    `error partitions.0.values: "in ('a')" does not say which rows of a range it holds. Write it like values: "from (`,
  ],
  [listed('default', 'hash: [id, at]'), 'does not say which rows of a hash it holds'],
  [
    listed('default', 'range: [kind]'),
    'error fields.0.primary_key: the primary key leaves out kind, by which the table is partitioned. PostgreSQL keeps only keys with the columns of partition_by unique: add kind.',
  ],
  [
    listed('default', 'list: [lower(kind)]'),
    'the primary key cannot be: the table is partitioned by an expression',
  ],
  [
    `${listed('default')}\n    indexes: [{ columns: [id], unique: true }]`,
    'error indexes.0.columns: this unique index leaves out at',
  ],
  [
    `${listed('default')}\n    constraints: [{ unique: [id] }]`,
    'error constraints.0.unique: this key leaves out at',
  ],
  [
    kept('every: 1 fortnight'),
    'error partitions.every: "1 fortnight" is not a time such as 1 month or 14 days',
  ],
  [kept('every: 1 month, ahead: 0'), 'error partitions.ahead: 0 must be at least 1'],
  [kept('every: 1 month, from: yesterday'), 'partitions.from'],
  [
    kept('every: 1 month', 'hash: [id, at]'),
    'error partitions: every makes partitions by time, and this key is no single column with a time',
  ],
  [kept('every: 1 month', 'range: [at, id]'), 'this key is no single column with a time'],
  [
    'partition_by: { range: [at] }\n    partitions: [{ name: a, values: default, partition_by: { hash: [id] } }]',
    'error partitions.0: a has partition_by without partitions',
  ],
  [
    "partition_by: { range: [at] }\n    partitions: [{ name: a, values: default, partition_by: { hash: [kind] }, partitions: [{ name: b, values: 'with (modulus 1, remainder 0)' }] }]",
    'the primary key leaves out kind',
  ],
  [
    'partition_by: { range: [at] }\n    partitions: [{ name: events, values: default }]',
    'error partitions.0.name: there is a table events of this name already',
  ],
  [
    `partition_by: { range: [at] }\n    partitions: [{ name: a, values: default }, { name: a, values: "from ('2026-01-01') to ('2027-01-01')" }]`,
    'error partitions.1.name: there is a partition of events of this name already',
  ],
])('%s is a mistake', (said, message) => {
  expect(mistakes(said).join('\n')).toContain(message);
});

test.each([
  [
    `${listed('default')}\n    unlogged: true`,
    {},
    'error unlogged: unlogged is of what holds rows, and a partitioned table holds none',
  ],
  [`${listed('default')}\n    with: { fillfactor: 70 }`, {}, 'error with: with is of what holds rows'],
  [
    'unlogged: true',
    {
      more: '  notes: { rls: [], fields: [{ name: id, type: bigint, primary_key: true, foreign_key: { references: events.id } }] }',
    },
    'notes is logged, and what it refers to here is not',
  ],
  ['with: { "fill factor": 70 }', {}, 'is not the name of an option'],
])('%s %j is a mistake', (said, more, message) => {
  expect(mistakes(said, more).join('\n')).toContain(message);
});

test('days know no hours', () => {
  const said = kept('every: 1 hour', 'range: [day]');
  expect(mistakes(said).join('\n')).toContain('error partitions.every: day holds days, and knows no hours');
});

test('a unique column has to be in the key', () => {
  expect(mistakes(listed('default'), { fields: ', unique: true' }).join('\n')).toContain(
    'error fields.3.unique: unique of kind leaves out at',
  );
});
