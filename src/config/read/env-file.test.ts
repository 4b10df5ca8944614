import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { brokenLinesIn, readModeVariables } from './env-file.ts';

const directory = mkdtempSync(join(tmpdir(), 'svc-env-'));
writeFileSync(
  join(directory, '.env'),
  '\ufeffA=general\nB=general\nC=general\nSVC_ENV_KEY=general\nSVC_SECRET_KEY=laptop\n',
);
writeFileSync(join(directory, '.development.env'), 'B=mode\nC=mode\n');
writeFileSync(join(directory, '.production.env'), 'B=mode\nSVC_ENV_OTHER=mode\n');
afterAll(() => rmSync(directory, { recursive: true }));

test('the mode file takes precedence over .env, and the shell over both', () => {
  expect(readModeVariables(directory, 'development', { C: 'shell', D: undefined })).toEqual({
    A: 'general',
    B: 'mode',
    C: 'shell',
    SVC_ENV_KEY: 'general',
    SVC_SECRET_KEY: 'laptop',
  });
});

test('production reads variables of functions from .env, and no keys of development', () => {
  expect(readModeVariables(directory, 'production', {})).toEqual({
    B: 'mode',
    SVC_ENV_KEY: 'general',
    SVC_ENV_OTHER: 'mode',
  });
});

test('a remote file has no environment files', () => {
  expect(readModeVariables(undefined, 'production', { A: 'shell' })).toEqual({ A: 'shell' });
});

test.each([
  ['A=1\n# note\n\nexport B="x y"\n', []],
  ['A=1\nB: 2\nC 3\n=4\n', [2, 3, 4]],
  ['KEY="-----BEGIN\nabc def\n-----END"\nnonsense\n', [4]],
  ["A='one quote\nnonsense\n", [2]],
  ['A=\r\nB=2\r\n', []],
])('lines that do not set a variable: %j', (text, lines) => {
  expect(brokenLinesIn(text)).toEqual(lines);
});
