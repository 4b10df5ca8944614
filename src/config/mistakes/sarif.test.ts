// SARIF output for mistakes in several files.
import { expect, test } from 'vitest';
import type { Mistake } from './mistake.ts';
import { sarif } from './sarif.ts';

const MISTAKES: readonly Mistake[] = [
  {
    severity: 'warning',
    code: 'open-table',
    path: ['tables', 'notes', 'rls', 0],
    message: 'everybody reads notes',
    hint: 'Write rls: [].',
    position: { line: 12, column: 7 },
    length: 3,
  },
  {
    severity: 'error',
    code: 'unknown-key',
    path: [],
    message: 'unknown key "tabels"',
    hint: 'Did you mean tables?',
    position: { line: 2, column: 1, file: 'parts/my tables.yaml' },
    length: 6,
  },
  {
    severity: 'note',
    code: 'missing-variable',
    path: ['providers', 'email'],
    message: 'MAIL_KEY is not set',
    hint: 'Set it.',
    position: { line: 3, column: 5, file: 's3://config/shop.yaml' },
    length: 11,
  },
];

type Log = {
  runs: {
    tool: { driver: { rules: unknown } };
    results: {
      ruleId: string;
      ruleIndex: number;
      level: string;
      message: { text: string };
      locations: {
        physicalLocation: { artifactLocation: { uri: string }; region: unknown };
        logicalLocations?: unknown;
      }[];
    }[];
  }[];
};

test('rules are sorted and unique, paths are relative references, and hints follow messages', () => {
  const [run] = (JSON.parse(sarif(MISTAKES, 'backend/svc.yaml', '1.2.3')) as Log).runs;
  expect(run?.tool.driver.rules).toEqual([
    { id: 'missing-variable' },
    { id: 'open-table' },
    { id: 'unknown-key' },
  ]);
  const results = run?.results.map(({ ruleId, ruleIndex, level, message, locations: [place] }) => [
    `${ruleId} ${ruleIndex} ${level}`,
    message.text,
    place?.physicalLocation.artifactLocation.uri,
    place?.physicalLocation.region,
    place?.logicalLocations,
  ]);
  const line = (startLine: number, startColumn: number, endColumn: number) => ({
    startLine,
    startColumn,
    endColumn,
  });
  const key = (fullyQualifiedName: string) => [{ fullyQualifiedName }];
  expect(results).toEqual([
    [
      'open-table 1 warning',
      'everybody reads notes\nWrite rls: [].',
      'backend/svc.yaml',
      line(12, 7, 10),
      key('tables.notes.rls[0]'),
    ],
    [
      'unknown-key 2 error',
      'unknown key "tabels"\nDid you mean tables?',
      'parts/my%20tables.yaml',
      line(2, 1, 7),
      undefined,
    ],
    [
      'missing-variable 0 note',
      'MAIL_KEY is not set\nSet it.',
      's3://config/shop.yaml',
      line(3, 5, 16),
      key('providers.email'),
    ],
  ]);
});
