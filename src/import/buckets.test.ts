import { expect, test } from 'vitest';
import type { LivePolicy } from '../migrate/schema/live/live-schema.ts';
import { findPolicyBuckets, storageKey } from './buckets.ts';

const policy = (using: string | null, check: string | null = null): LivePolicy => ({
  label: 'one',
  command: 'all',
  permissive: true,
  roles: 'authenticated',
  using,
  check,
});

const A = `(bucket_id = 'a'::text)`;

test.each<[what: string, using: string, about: readonly string[] | undefined, rest: string]>([
  ['alone', A, ['a'], 'true'],
  ['first', `(${A} AND (name = 'x'::text))`, ['a'], `(name = 'x'::text)`],
  ['last of three', `((x) AND (y) AND ${A})`, ['a'], '((x) AND (y))'],
  ['several', `((bucket_id = ANY (ARRAY['a'::text, 'it''s'::text])) AND (x))`, ['a', "it's"], '(x)'],
  ['with its table', `((objects.bucket_id = 'a'::text) AND (x))`, ['a'], '(x)'],
  ['as an alternative', `(${A} OR (x))`, undefined, `(${A} OR (x))`],
  ['deeper down', `((x) AND (${A} OR (y)))`, undefined, `((x) AND (${A} OR (y)))`],
  ['denied', `(NOT ${A})`, undefined, `(NOT ${A})`],
  [
    'of another table',
    `((m.bucket_id = 'a'::text) AND (x))`,
    undefined,
    `((m.bucket_id = 'a'::text) AND (x))`,
  ],
  ['in a CASE', `CASE WHEN ${A} THEN true AND x END`, undefined, `CASE WHEN ${A} THEN true AND x END`],
  ['not a constant', `((bucket_id = name) AND (x))`, undefined, `((bucket_id = name) AND (x))`],
  [
    'in a text',
    `((name = ') AND (bucket_id = ''a''::text) AND ('::text) AND (x))`,
    undefined,
    `((name = ') AND (bucket_id = ''a''::text) AND ('::text) AND (x))`,
  ],
])('the bucket of a policy: %s', (_what, using, about, rest) => {
  const place = findPolicyBuckets(policy(using));
  expect(place.about).toEqual(about);
  expect(place.within.using).toBe(rest);
});

test('both conditions of a policy must name the same bucket', () => {
  expect(findPolicyBuckets(policy(A, `(${A} AND (x))`))).toMatchObject({
    about: ['a'],
    within: { using: 'true', check: '(x)' },
  });
  const otherPolicy = policy(A, `(bucket_id = 'b'::text)`);
  expect(findPolicyBuckets(otherPolicy)).toEqual({ about: undefined, within: otherPolicy });
});

test('what a bucket cannot be here is named', () => {
  const left: string[] = [];
  const plain = { public: null, limit: null, types: null, type: 'STANDARD' };
  const storage = storageKey(
    [
      { ...plain, id: 'a', public: true, limit: 5 * 1024 * 1024, types: ['image/*', '*/*', 'odd'] },
      { ...plain, id: 'sign' },
      { ...plain, id: 'v', type: 'VECTOR' },
      { ...plain, id: 'My Files', limit: 1000 },
    ],
    [policy(`(bucket_id = 'gone'::text)`), { ...policy('true'), roles: 'service_role' }],
    left,
  );
  expect(storage).toEqual({
    a: { public: true, max_size: '5MB', types: ['image/*'], rls: [] },
    'My Files': { max_size: '1000B', rls: [] },
  });
  expect(left).toEqual([
    'bucket sign: a bucket here cannot have this name',
    'bucket v: there are no vector buckets here',
    'policy one: there is no bucket gone',
    'policy one: it is for service_role, which bypasses policies',
    'bucket a: odd is not a supported file type',
  ]);
});
