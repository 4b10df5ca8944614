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
  test('can be in a file', () => {
    const path = file('secret', 'hunter2 \r\n');
    const env: Record<string, string | undefined> = { [`${name}_FILE`]: path, [name]: '', OTHER: 'x' };
    expect(readSecretFiles(env, '/')).toMatchObject([{ variable: `${name}_FILE`, path }]);
    expect(env).toEqual({ [name]: 'hunter2 ', OTHER: 'x' });
  });

  test('cannot be in a file and in the environment', () => {
    const env = { [`${name}_FILE`]: file('secret', 'hunter2'), [name]: 'hunter3' };
    expect(() => readSecretFiles(env, '/')).toThrow(`${name} and ${name}_FILE are both set`);
  });
});

test.each([
  ['that does not exist', () => join(folder, 'nothing'), /cannot be read: ENOENT/],
  ['that is a folder', () => folder, /cannot be read: EISDIR/],
  ['that is empty', () => file('empty', '\n'), /which is empty/],
  ['that is too large', () => file('large', 'x'.repeat(70_000)), /larger than 64 KB/],
])('a file %s is rejected without showing its contents', (_what, path, message) => {
  const read = (): unknown => readSecretFiles({ SVC_SECRET_KEY_FILE: path() }, '/');
  expect(read).toThrow(message);
  expect(read).not.toThrow(/xxxx/);
});

test('the suffix _FILE has no effect on other variables', () => {
  const env = { SVC_ENV_CONFIG_FILE: '/nowhere', SVC_PORT_FILE: '/nowhere' };
  expect(readSecretFiles({ ...env }, '/')).toEqual([]);
});

test('an environment file can name secret files; the shell takes precedence, and production skips .env', () => {
  file('key', 'from-file\n');
  file('.production.env', 'SVC_SECRET_KEY_FILE=key\n');
  file('.env', 'SVC_METRICS_TOKEN_FILE=nowhere\n');
  expect(readModeVariables(folder, 'production', {})).toEqual({ SVC_SECRET_KEY: 'from-file' });
  expect(readModeVariables(folder, 'production', { SVC_SECRET_KEY: 'shell' })).toEqual({
    SVC_SECRET_KEY: 'shell',
  });
  expect(() => readModeVariables(folder, 'development', {})).toThrow('SVC_METRICS_TOKEN_FILE cannot be read');
});
