import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { adviceFor, withoutOwnFrames } from './explain-load-error.ts';

let root: string;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'svc-load-'));
  mkdirSync(join(root, 'lib/tools'), { recursive: true });
  for (const file of ['lib/greet.ts', 'lib/tools/index.js']) writeFileSync(join(root, file), '');
});
afterAll(() => rmSync(root, { recursive: true }));

const failure = (message: string, code = 'ERR_MODULE_NOT_FOUND'): Error =>
  Object.assign(new Error(message.replaceAll('ROOT', root)), { code });

test.each([
  ["Cannot find package 'stripe' imported from ROOT/a.js", 'npm install --prefix functions stripe`'],
  ["Cannot find package '@acme/pay' imported from ROOT/a.js", 'npm install --prefix functions @acme/pay`'],
  ["Cannot find module 'ROOT/lib/greet' imported from ROOT/a.ts", 'Write `./lib/greet.ts`.'],
  ["Cannot find module 'ROOT/lib/greet.js' imported from ROOT/a.ts", 'Write `./lib/greet.ts`.'],
  ["Cannot find module 'ROOT/lib/greet' imported from ROOT/api/a.ts", 'Write `../lib/greet.ts`.'],
  ["Cannot find module 'ROOT/lib/none' imported from ROOT/a.ts", 'correct the import'],
])('%s: advice', (message, advice) => {
  expect(adviceFor(failure(message))).toContain(advice);
});

test('an import of a folder names its index file', () => {
  const message =
    "Directory import 'ROOT/lib/tools' is not supported resolving ES modules imported from ROOT/a.js";
  expect(adviceFor(failure(message, 'ERR_UNSUPPORTED_DIR_IMPORT'))).toBe('Write `./lib/tools/index.js`.');
});

test('other errors have no advice', () => {
  expect(adviceFor(new Error('no'))).toBeUndefined();
});

test('frames of Node and of the worker are removed', () => {
  const frame = '    at handler (/app/functions/a.js:3:9)';
  const stack = [
    'Error: no',
    '    at ModuleLoader.resolve (node:internal/modules/esm/loader:1:1)',
    frame,
    `    at handle (${import.meta.dirname}/main.ts:1:1)`,
  ].join('\n');
  expect(withoutOwnFrames(stack)).toBe(`Error: no\n${frame}`);
});
