// A filter that PostgreSQL had to cancel. A stub answers in place of the database.
import pg from 'pg';
import { expect, test } from 'vitest';
import type { FeatureContext } from '../../../http/feature.ts';
import { DatabaseFilters, TOO_SLOW, type FilterCaller } from './database-filters.ts';
import type { PublishedTable } from '../../tables/published-tables.ts';
import type { DatabaseFilter } from './filter-query.ts';

const CALLER: FilterCaller = { role: 'anon', claims: '{"role":"anon"}', address: '192.0.2.1' };
/** The parts that the statement names. */
const TABLE = {
  schema: 'public',
  name: 'notes',
  key: ['id'],
  columns: [{ name: 'body', sqlType: 'text' }],
} as unknown as PublishedTable;

const filter = (value: string): DatabaseFilter => ({
  condition: { column: 'body', isNegated: false, operator: 'match', values: [value] },
  sqlType: 'text',
  key: value,
});

test('a slow filter is refused for a while, another filter of its caller is not', async () => {
  const canceled = Object.assign(new pg.DatabaseError('canceling statement', 0, 'error'), { code: '57014' });
  const filters = new DatabaseFilters({
    callers: { run: () => Promise.reject(canceled) },
  } as unknown as FeatureContext);
  const slow = filter('(a+)+$');
  const results = await filters.evaluate({
    caller: CALLER,
    table: TABLE,
    rows: [0],
    readTexts: () => ({ old: undefined, new: new Map([['body', 'aaa']]) }),
    filters: [slow],
  });
  expect([...results.slow]).toEqual([slow.key]);
  expect(filters.refusal(CALLER, [slow])).toBe(TOO_SLOW);
  expect(filters.refusal(CALLER, [filter('a')])).toBeUndefined();
});
