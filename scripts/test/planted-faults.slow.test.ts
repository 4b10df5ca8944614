// Plants faults in temporary test files and checks that a run of Vitest with our reporter names each fault.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readReport, type RunReport } from '../../test/support/run/report.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const FAULTS = {
  'before-all': `describe('a suite', () => {
    beforeAll(() => { throw new Error('planted: beforeAll'); });
    test('never runs', () => {});
  });`,
  'after-all': `describe('a suite', () => {
    afterAll(() => { throw new Error('planted: afterAll'); });
    test('passes', () => {});
  });`,
  'before-all-of-the-file': `beforeAll(() => { throw new Error('planted: file hook'); });
    test('never runs', () => {});`,
  'worker-exits': `test('passes', () => {});
    test('ends its worker', () => { process.kill(process.pid, 'SIGKILL'); return new Promise(() => {}); });`,
  rejection: `test('passes, but rejects', async () => {
    void Promise.reject(new Error('planted: rejection'));
    await new Promise((resolve) => setTimeout(resolve, 10));
  });`,
  'missing-import': `import './is-not-there.ts';
    test('never runs', () => {});`,
  'no-tests': ``,
  assertion: `test('adds', () => { expect(1 + 1).toBe(3); });`,
} as const;

let folder: string;
let report: RunReport | undefined;

beforeAll(() => {
  mkdirSync(join(ROOT, '.vitest'), { recursive: true });
  folder = mkdtempSync(join(ROOT, '.vitest', 'planted-'));
  const imports = `import { afterAll, beforeAll, describe, expect, test } from 'vitest';\n`;
  for (const [name, text] of Object.entries(FAULTS))
    writeFileSync(join(folder, `${name}.test.ts`), imports + text);
  report = runVitest(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function runVitest(root: string): RunReport | undefined {
  const path = join(root, 'report.json');
  writeFileSync(
    join(root, 'vitest.config.ts'),
    `export default { test: { include: ['*.test.ts'], isolate: false, maxWorkers: 2,
      reporters: [${JSON.stringify(join(ROOT, 'test/support/run/reporter.ts'))}] } };`,
  );
  const entry = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
  spawnSync(process.execPath, [entry, 'run', '--root', root], {
    cwd: root,
    env: { ...process.env, SVC_TEST_REPORT: path },
  });
  return readReport(path);
}

test.each([
  ['before-all', 'a suite > (hook)', 'planted: beforeAll'],
  ['after-all', 'a suite > (hook)', 'planted: afterAll'],
  ['before-all-of-the-file', '(file)', 'planted: file hook'],
  ['missing-import', '(file)', 'is-not-there'],
  ['no-tests', '(file)', 'No test suite found'],
  ['assertion', 'adds', 'expected 2 to be 3'],
])('%s is a failure with file, name and message', (file, name, message) => {
  const failures = report?.failures.filter((failure) => failure.file === `${file}.test.ts`);
  expect(failures).toEqual([
    expect.objectContaining({ name, message: expect.stringContaining(message) as string }),
  ]);
});

test('an unhandled rejection names its file', () => {
  expect(report?.failures.filter(({ message }) => message.includes('planted: rejection'))).toEqual([
    expect.objectContaining({ file: 'rejection.test.ts' }),
  ]);
});

test('a worker that exits is a failure that names its file', () => {
  expect(report?.failures.filter(({ file }) => file === 'worker-exits.test.ts').length).toBeGreaterThan(0);
});

test('each failure is counted', () => {
  expect(report?.failed).toBe(report?.failures.length);
});

test('a run that finds no tests is a failure', () => {
  const empty = join(folder, 'empty');
  mkdirSync(empty);
  expect(runVitest(empty)?.failures.map(({ message }) => message)).toEqual(['no tests found']);
});
