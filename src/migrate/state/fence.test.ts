import { describe, expect, test } from 'vitest';
import { isNewDeploySeq, checkSuperseded, type Fence, type FencePolicy } from './fence.ts';

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

const ROWS: ReadonlyArray<
  [
    name: string,
    deploySeq: number | null,
    newestSeq: number | null,
    history: Partial<Fence>,
    expected: ReturnType<typeof checkSuperseded>,
  ]
> = [
  ['a larger number, a new file', 8, 7, {}, undefined],
  ['a larger number, a file that was replaced', 8, 7, BEFORE, undefined],
  ['the first number of a project', 8, null, BEFORE, undefined],
  ['the same number, the same file', 7, 7, { current: OWN }, undefined],
  ['the same number, another file', 7, 7, {}, 'MIG-405'],
  [
    'the same number, its first file, which was rolled back',
    7,
    7,
    { ...BEFORE, hadNewestSeq: true },
    'MIG-403',
  ],
  ['a smaller number, the same file', 6, 7, { current: OWN }, undefined],
  ['a smaller number, another file', 6, 7, {}, 'MIG-403'],
  ['no numbers at all, a new file', null, null, {}, undefined],
  ['no numbers at all, a file that was replaced', null, null, BEFORE, 'MIG-403'],
  ['no number in a project with numbers, the same file', null, 7, { current: OWN }, undefined],
  ['no number in a project with numbers, another file', null, 7, {}, 'MIG-406'],
  ['an empty history', null, null, { current: null }, undefined],
];

describe.each(ROWS)('%s', (_name, deploySeq, newestSeq, history, expected) => {
  const given = fence({ newestSeq, ...history });
  test('gets the expected decision', () => {
    expect(checkSuperseded(given, OWN, policy({ deploySeq }))).toBe(expected);
  });
  test('can be applied when a rollback is allowed', () => {
    expect(checkSuperseded(given, OWN, policy({ deploySeq, allowRollback: true }))).toBeUndefined();
    expect(checkSuperseded(given, OWN, policy({ deploySeq, allowRollbackTo: 'aaaaaaaa' }))).toBeUndefined();
  });
  test('ignores a permission for another file', () => {
    expect(checkSuperseded(given, OWN, policy({ deploySeq, allowRollbackTo: 'bbbbbbbb' }))).toBe(expected);
  });
  test('replaces the newest file if this instance served it', () => {
    expect(checkSuperseded(given, OWN, policy({ deploySeq, replaces: OTHER }))).toBeUndefined();
    expect(checkSuperseded(given, OWN, policy({ deploySeq, replaces: 'cccccccc' }))).toBe(expected);
  });
});

test('only a larger number must be recorded', () => {
  expect(isNewDeploySeq({ newestSeq: null }, null)).toBe(false);
  expect(isNewDeploySeq({ newestSeq: null }, 1)).toBe(true);
  expect(isNewDeploySeq({ newestSeq: 7 }, 7)).toBe(false);
  expect(isNewDeploySeq({ newestSeq: 7 }, 8)).toBe(true);
});
