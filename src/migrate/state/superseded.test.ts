import { expect, test } from 'vitest';
import { describeSuperseded, remedyFor, supersededReport, type Superseded } from './superseded.ts';

const BUILT_1204 = Date.UTC(2026, 10, 22, 12, 4);
const BUILT_1430 = Date.UTC(2026, 10, 22, 14, 30);
const AT_1431 = new Date(Date.UTC(2026, 10, 22, 14, 31));

function superseded(given: Partial<Superseded>): Superseded {
  return {
    code: 'MIG-403',
    schemaHash: 'a1b2c3d4e5f6',
    deploySeq: BUILT_1204,
    by: 'c3d4e5f6a7b8',
    since: AT_1431,
    replacedAt: AT_1431,
    newestSeq: BUILT_1430,
    ...given,
  };
}

test.each<[string, Partial<Superseded>, string, RegExp]>([
  [
    'a file of an older build',
    {},
    'this file, a1b2c3d4 built 2026-11-22 12:04 UTC, was replaced at 2026-11-22 14:31 UTC by ' +
      'c3d4e5f6 built 2026-11-22 14:30 UTC',
    /^If this is a revert, build it again to give it a newer number\. .*SVC_ALLOW_ROLLBACK=a1b2c3d4\.$/,
  ],
  [
    'an older file that was never applied',
    { replacedAt: null },
    'this file, a1b2c3d4 built 2026-11-22 12:04 UTC, is older than the file applied at 2026-11-22 14:31 UTC: ' +
      'c3d4e5f6 built 2026-11-22 14:30 UTC',
    /build it again/,
  ],
  [
    'files without numbers',
    { deploySeq: null, newestSeq: null },
    'this file, a1b2c3d4, was replaced at 2026-11-22 14:31 UTC by c3d4e5f6',
    /number the deployments \(svc stamp/,
  ],
  [
    'two files with one number',
    { code: 'MIG-405', deploySeq: 412, newestSeq: 412 },
    'two files have the same number, 412: this file (a1b2c3d4) and c3d4e5f6, which was applied at 2026-11-22 14:31 UTC',
    /a larger --deploy-seq, or svc stamp .*cached layer/,
  ],
  [
    'a start without a number',
    { code: 'MIG-406', deploySeq: null },
    'this project is deployed with numbers (the newest file is built 2026-11-22 14:30 UTC), but this start has none: ' +
      'file a1b2c3d4 is not applied over c3d4e5f6',
    /^Run svc stamp in the build, or pass --deploy-seq\./,
  ],
  [
    'a counted number after a stamp',
    { deploySeq: 413 },
    'this file, a1b2c3d4 with number 413, was replaced at 2026-11-22 14:31 UTC by c3d4e5f6 built 2026-11-22 14:30 UTC',
    /use one kind/,
  ],
])('%s is described with a remedy', (_name, given, message, hint) => {
  expect(describeSuperseded(superseded(given))).toBe(message);
  expect(remedyFor(superseded(given))).toMatch(hint);
});

test('a report lists the first differences and the number of the others', () => {
  const report = supersededReport(superseded({}), ['1', '2', '3', '4', '5', '6', '7']);
  expect(report.message).toMatch(/^MIG-403 .*Serving the database as it is$/);
  expect(report.differs).toEqual(['1', '2', '3', '4', '5', '2 more']);
});
