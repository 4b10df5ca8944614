import { randomBytes, randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  isSignedBy,
  judgeRefresh,
  makeRefreshToken,
  parseRefreshToken,
  type RefreshVerdict,
} from './refresh-token.ts';

const key = randomBytes(32);
const session = randomUUID();

test.each([0, 1, 127, 128, 16_383, 16_384, 2 ** 31, 2 ** 40])(
  'counter %i survives the round trip',
  (counter) => {
    const parsed = parseRefreshToken(makeRefreshToken(session, counter, key));
    expect(parsed).toMatchObject({ kind: 'token', token: { sessionId: session, counter } });
    if (parsed.kind !== 'token') return;
    expect(isSignedBy(parsed.token, key)).toBe(true);
    expect(isSignedBy(parsed.token, randomBytes(32))).toBe(false);
  },
);

test('a token with one changed character is malformed', () => {
  const text = makeRefreshToken(session, 5, key);
  expect(text.length).toBeGreaterThanOrEqual(51);
  for (let at = 0; at < text.length; at++) {
    const changed = text[at] === 'A' ? 'B' : 'A';
    expect(parseRefreshToken(text.slice(0, at) + changed + text.slice(at + 1)).kind).toBe('malformed');
  }
});

test.each([
  ['', 'malformed'],
  ['short', 'malformed'],
  ['abcdefghijk1', 'opaque'],
  ['ABCDEFGHIJK1', 'malformed'],
  ['a'.repeat(60), 'malformed'],
  ['a'.repeat(500), 'malformed'],
  [`${'a'.repeat(50)}=`, 'malformed'],
])('%j is %s', (text, kind) => expect(parseRefreshToken(text).kind).toBe(kind));

// The table of docs/auth-states.md, "Refresh token": every token with every recency, above and below the
// floor.
describe('the decision table', () => {
  const STORED = { counter: 10, floor: 6 };
  const RECENT = 10_000;
  const LATER = 10_001;
  test.each<[string, number, number, RefreshVerdict]>([
    ['current, recent', 10, RECENT, 'rotate'],
    ['current, later', 10, LATER, 'rotate'],
    ['current, never refreshed', 10, Infinity, 'rotate'],
    ['trailing, recent', 9, RECENT, 'repeat'],
    ['trailing, later', 9, LATER, 'repeat'],
    ['stale, recent', 8, RECENT, 'repeat'],
    ['stale, later', 8, LATER, 'reuse'],
    ['stale at the floor, recent', 6, 0, 'repeat'],
    ['stale at the floor, later', 6, LATER, 'reuse'],
    ['below the floor, recent', 5, RECENT, 'below-floor'],
    ['below the floor, later', 5, LATER, 'reuse'],
    ['ahead, recent', 11, RECENT, 'foreign'],
    ['ahead, later', 11, LATER, 'foreign'],
  ])('%s', (_state, counter, since, verdict) => {
    expect(judgeRefresh(counter, STORED, since, { reuseIntervalMs: RECENT })).toBe(verdict);
  });

  test('a trailing token just below the floor is below the floor', () => {
    expect(judgeRefresh(9, { counter: 10, floor: 10 }, 0, { reuseIntervalMs: RECENT })).toBe('below-floor');
  });
});
