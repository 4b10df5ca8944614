import { expect, test } from 'vitest';
import { toBudget } from './connection-budget.ts';

const EACH = { requests: 20, own: 10 };

test.each([
  ['room for all', 3, { server: 97 }, undefined],
  [
    'the server is too small',
    4,
    { server: 97 },
    '4 instances × 30 = 120 of 97 (max_connections): lower database.pool.max to 14 or put a pooler before it',
  ],
  [
    'the database has its own limit',
    1,
    { server: 97, database: 25 },
    '1 instance × 30 = 30 of 25 (CONNECTION LIMIT of the database): lower database.pool.max to 15 or put a pooler before it',
  ],
  [
    'the role of requests has a limit',
    2,
    { server: 97, authenticator: 30 },
    '2 instances × 20 = 40 of 30 (CONNECTION LIMIT of the role authenticator): lower database.pool.max to 15 or put a pooler before it',
  ],
  [
    'the role of the product has a limit',
    2,
    { server: 97, owner: 15 },
    '2 instances × 10 = 20 of 15 (CONNECTION LIMIT of the role svc_owner): raise it or put a pooler before it',
  ],
  [
    'too many instances for any pool size',
    12,
    { server: 97 },
    '12 instances × 30 = 360 of 97 (max_connections): raise it or put a pooler before it',
  ],
])('%s', (_what, instances, limits, shortage) => {
  expect(toBudget(instances, EACH, limits).shortage).toBe(shortage);
});

test('the budget has its sum addRoutes without a shortage', () => {
  expect(toBudget(2, EACH, { server: 97, database: 80 })).toEqual({
    instances: 2,
    each: 30,
    sum: 60,
    limit: 80,
    shortage: undefined,
  });
});
