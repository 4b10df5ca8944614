import { describe, expect, test } from 'vitest';
import { isSeqNews, supersededBy, type Fence, type FencePolicy } from './fence.ts';

const OWN = 'aaaaaaaa11112222';
const OTHER = 'bbbbbbbb33334444';

function fence(given: Partial<Fence>): Fence {
  return {
    current: OTHER,
    currentSince: new Date(0),
    replacedAt: null,
    newestSeq: null,
    hadNewestSeq: false,
    isNewest: false,
    ...given,
  };
}

function policy(given: Partial<FencePolicy>): FencePolicy {
  return { allowRollback: false, allowRollbackTo: null, deploySeq: null, replaces: null, ...given };
}

const BEFORE = { replacedAt: new Date(1) };

/** Own number, newest of the history, what else the history knows, and what becomes of the file. */
const ROWS: ReadonlyArray<
  [what: string, number | null, number | null, Partial<Fence>, ReturnType<typeof supersededBy>]
> = [
  ['a larger number, a new file', 8, 7, {}, undefined],
  ['a larger number, a file that was replaced', 8, 7, BEFORE, undefined],
  ['a number where there was none', 8, null, BEFORE, undefined],
  ['the same number, the same file', 7, 7, { current: OWN }, undefined],
  ['the same number, another file', 7, 7, {}, 'MIG-405'],
  [
    'the same number, the file that had it and was rolled back',
    7,
    7,
    { ...BEFORE, hadNewestSeq: true },
    'MIG-403',
  ],
  ['a smaller number, the same file', 6, 7, { current: OWN }, undefined],
  ['a smaller number, another file', 6, 7, {}, 'MIG-403'],
  ['no numbers at all, a new file', null, null, {}, undefined],
  ['no numbers at all, a file that was replaced', null, null, BEFORE, 'MIG-403'],
  ['no number where there is one, the same file', null, 7, { current: OWN }, undefined],
  ['no number where there is one, another file', null, 7, {}, 'MIG-406'],
  ['an empty history', null, null, { current: null }, undefined],
];

describe.each(ROWS)('%s', (_what, deploySeq, newestSeq, history, expected) => {
  const given = fence({ newestSeq, ...history });
  test('is decided by the numbers', () => {
    expect(supersededBy(given, OWN, policy({ deploySeq }))).toBe(expected);
  });
  test('may be applied where that is allowed', () => {
    expect(supersededBy(given, OWN, policy({ deploySeq, allowRollback: true }))).toBeUndefined();
    expect(supersededBy(given, OWN, policy({ deploySeq, allowRollbackTo: 'aaaaaaaa' }))).toBeUndefined();
  });
  test('is not helped by a permission for another file', () => {
    expect(supersededBy(given, OWN, policy({ deploySeq, allowRollbackTo: 'bbbbbbbb' }))).toBe(expected);
  });
  test('replaces the file that this instance served, if that is the newest', () => {
    expect(supersededBy(given, OWN, policy({ deploySeq, replaces: OTHER }))).toBeUndefined();
    expect(supersededBy(given, OWN, policy({ deploySeq, replaces: 'cccccccc' }))).toBe(expected);
  });
});

test('only a larger number is news to the history', () => {
  expect(isSeqNews({ newestSeq: null }, null)).toBe(false);
  expect(isSeqNews({ newestSeq: null }, 1)).toBe(true);
  expect(isSeqNews({ newestSeq: 7 }, 7)).toBe(false);
  expect(isSeqNews({ newestSeq: 7 }, 8)).toBe(true);
});
