import { expect, test } from 'vitest';
import { describePolicy } from './policy-text.ts';

const ALL = {
  command: 'all',
  permissive: true,
  roles: 'anon,authenticated',
  using: null,
  check: null,
} as const;

test.each([
  [{ using: { written: 'true' } }, 'policy: anon, authenticated can read and change every row'],
  [
    { command: 'select', roles: 'anon', using: { written: 'id = 1' } },
    'policy: anon can read rows where id = 1',
  ],
  [{ command: 'insert', check: { written: 'true' } }, 'policy: anon, authenticated can insert any row'],
  [
    { command: 'update', roles: 'public', using: { written: 'a' }, check: { written: 'b' } },
    'policy: every role can update rows where a; a written row must meet b',
  ],
  [
    { command: 'delete', permissive: false, using: { written: 'a' } },
    'restrictive policy: anon, authenticated can delete only rows where a',
  ],
] as const)('%o', (policy, text) => {
  expect(describePolicy({ ...ALL, ...policy })).toBe(text);
});
