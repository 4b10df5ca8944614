import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { readModeVariables } from './env-file.ts';
import { SECRET_VARIABLES, readSecretFiles } from './secret-files.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-secret-files-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};

describe.each(SECRET_VARIABLES)('%s', (name) => {
  test('may be in a file', () => {
    const path = file('secret', 'hunter2 \r\n');
    const env: Record<string, string | undefined> = { [`${name}_FILE`]: path, [name]: '', OTHER: 'x' };
    expect(readSecretFiles(env, '/')).toMatchObject([{ variable: `${name}_FILE`, path }]);
    expect(env).toEqual({ [name]: 'hunter2 ', OTHER: 'x' });
  });

  test('may not be in a file and in the environment', () => {
    const env = { [`${name}_FILE`]: file('secret', 'hunter2'), [name]: 'hunter3' };
    expect(() => readSecretFiles(env, '/')).toThrow(`${name} and ${name}_FILE are both set`);
  });
});

test.each([
  ['that is not there', () => join(folder, 'nothing'), /cannot be read: ENOENT/],
  ['that is a folder', () => folder, /cannot be read: EISDIR/],
  ['that is empty', () => file('empty', '\n'), /which is empty/],
  ['that is too large', () => file('large', 'x'.repeat(70_000)), /larger than 64 KB/],
])('a file %s is refused, without what is in it', (_what, path, message) => {
  const take = (): unknown => readSecretFiles({ SVC_SECRET_KEY_FILE: path() }, '/');
  expect(take).toThrow(message);
  expect(take).not.toThrow(/xxxx/);
});

test('a variable that is no secret of svc has no twin', () => {
  const env = { SVC_ENV_CONFIG_FILE: '/nowhere', SVC_PORT_FILE: '/nowhere' };
  expect(readSecretFiles({ ...env }, '/')).toEqual([]);
});

test('an environment file may name files beside it; the shell wins, and production does not look at .env', () => {
  file('key', 'from-file\n');
  file('.production.env', 'SVC_SECRET_KEY_FILE=key\n');
  file('.env', 'SVC_METRICS_TOKEN_FILE=nowhere\n');
  expect(readModeVariables(folder, 'production', {})).toEqual({ SVC_SECRET_KEY: 'from-file' });
  expect(readModeVariables(folder, 'production', { SVC_SECRET_KEY: 'shell' })).toEqual({
    SVC_SECRET_KEY: 'shell',
  });
  expect(() => readModeVariables(folder, 'development', {})).toThrow('SVC_METRICS_TOKEN_FILE cannot be read');
});
