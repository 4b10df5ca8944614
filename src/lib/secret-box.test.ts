import { expect, test } from 'vitest';
import { secretBox } from './secret-box.ts';

const box = secretBox('svc_secret_aaaaaaaaaaaaaaaaaaaaaaaa', 'test');

test('opens what it sealed', () => {
  const sealed = box.seal(Buffer.from('plain'), 'row 1');
  expect(box.open(sealed, 'row 1')?.toString()).toBe('plain');
});

test.each([
  ['another context', (sealed: Buffer) => box.open(sealed, 'row 2')],
  ['another secret', (sealed: Buffer) => secretBox('other', 'test').open(sealed, 'row 1')],
  [
    'another purpose',
    (sealed: Buffer) => secretBox('svc_secret_aaaaaaaaaaaaaaaaaaaaaaaa', 'x').open(sealed, 'row 1'),
  ],
  [
    'a changed byte',
    (sealed: Buffer) =>
      box.open(Buffer.concat([sealed.subarray(0, -1), Buffer.from([sealed.at(-1)! ^ 1])]), 'row 1'),
  ],
  ['a cut box', (sealed: Buffer) => box.open(sealed.subarray(0, 10), 'row 1')],
])('does not open with %s', (_, open) => {
  expect(open(box.seal(Buffer.from('plain'), 'row 1'))).toBeUndefined();
});
