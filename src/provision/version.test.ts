import { expect, test } from 'vitest';
import { compareVersions } from './version.ts';

test('versions are ordered by their numbers, and a pre-release is older than its release', () => {
  const ordered = ['0.1.0', '0.9.3', '0.10.0', '1.0.0-rc.2', '1.0.0-rc.10', '1.0.0', '1.0.1', '2.0.0'];
  expect(ordered.toReversed().toSorted(compareVersions)).toEqual(ordered);
  expect(compareVersions('1.2.3', '1.2.3+build.7')).toBe(0);
});
