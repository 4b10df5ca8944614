import { expect, test } from 'vitest';
import { nextState, TRANSITIONS, type BackgroundEvent, type BackgroundState } from './background.ts';

const EVENTS: readonly BackgroundEvent[] = [
  'locked',
  'first-done',
  'all-done',
  'budget-spent',
  'recorded',
  'finished',
  'error',
];

/** Rows: a state, then the next state for each event in the order of `EVENTS`. */
test.each<readonly [BackgroundState, ...BackgroundState[]]>([
  ['locking', 'awaited', 'locking', 'locking', 'locking', 'locking', 'locking', 'failed'],
  ['awaited', 'awaited', 'recording', 'verifying', 'detached', 'awaited', 'awaited', 'failed'],
  ['detached', 'detached', 'recording', 'recording', 'detached', 'unattended', 'detached', 'broken'],
  ['verifying', 'verifying', 'verifying', 'verifying', 'verifying', 'done', 'verifying', 'broken'],
  ['recording', 'recording', 'recording', 'recording', 'recording', 'unattended', 'recording', 'broken'],
  ['unattended', 'unattended', 'unattended', 'unattended', 'unattended', 'unattended', 'done', 'broken'],
  ['done', 'done', 'done', 'done', 'done', 'done', 'done', 'done'],
  ['failed', 'failed', 'failed', 'failed', 'failed', 'failed', 'failed', 'failed'],
  ['broken', 'broken', 'broken', 'broken', 'broken', 'broken', 'broken', 'broken'],
])('from %s', (state, ...expected) => {
  expect(EVENTS.map((event) => nextState(state, event))).toEqual(expected);
});

test('the table above contains every state', () => {
  expect(Object.keys(TRANSITIONS)).toHaveLength(9);
});

function run(...events: readonly BackgroundEvent[]): BackgroundState {
  return events.reduce(nextState, 'locking');
}

test.each<readonly [string, readonly BackgroundEvent[], BackgroundState]>([
  ['all steps within the budget: the start verifies', ['locked', 'all-done', 'recorded'], 'done'],
  [
    'remaining steps: the background completes the run',
    ['locked', 'first-done', 'recorded', 'finished'],
    'done',
  ],
  [
    'budget spent, recorded before the first steps finish',
    ['locked', 'budget-spent', 'recorded', 'all-done'],
    'unattended',
  ],
  [
    'budget spent, recorded after all steps',
    ['locked', 'budget-spent', 'all-done', 'recorded'],
    'unattended',
  ],
  ['all steps just before the budget is spent', ['locked', 'all-done', 'budget-spent', 'recorded'], 'done'],
  ['an error while the start waits fails the start', ['locked', 'error'], 'failed'],
  ['an error after the start fails the background', ['locked', 'budget-spent', 'error'], 'broken'],
  ['no session for the background', ['error', 'recorded'], 'failed'],
])('%s', (_name, events, expected) => {
  expect(run(...events)).toBe(expected);
});
