// Exit codes of real processes for a wrong command line, an unavailable database and missing parts.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { LAUNCHER, NODE, runSvc } from '../support/svc-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-exit-codes-'));
const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const AWAY = 'postgres://app:secret@127.0.0.1:1/app';

beforeAll(() => writeFileSync(join(folder, 'svc.yaml'), 'version: 1\n'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const run = (words: string, env: Readonly<Record<string, string>> = {}) =>
  runSvc(words.split(' '), {
    cwd: folder,
    env: { ...KEYS, SVC_DATABASE_URL: AWAY, SVC_DATABASE_WAIT: '0', ...env },
  });

test.each([
  ['validate --formt json', 2],
  ['no-such-command', 2],
  ['serve --port 0', 69],
  ['migrate plan', 8],
  ['migrate aply', 2],
  ['backup --to backups', 69],
  ['backup list', 2],
  ['keys list', 69],
] as const)('svc %s: %i', async (words, expected) => {
  const { code, output } = await run(words);
  expect(code, output).toBe(expected);
  expect(output).not.toContain('fault of svc itself');
});

test('a start without a library for password hashes exits with 78 and names it', async () => {
  // As on a Node before 24.7 whose platform has no native half of the library.
  const without = `import Module, { syncBuiltinESMExports } from 'node:module';
    import crypto from 'node:crypto';
    crypto.argon2 = undefined;
    syncBuiltinESMExports();
    const resolve = Module._resolveFilename;
    Module._resolveFilename = (name, ...more) => {
      if (name.startsWith('@node-rs/argon2-')) throw new Error(name + ' is not installed');
      return resolve(name, ...more);
    };`;
  const { code, output } = await run('serve --port 0', {
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(without)}`,
  });
  expect(code, output).toBe(78);
  expect(output).toMatch(/Passwords cannot be hashed[\s\S]*--omit=optional/);
});

test.each(['schema', 'sql --help'])(
  'svc %s ends silently if its reader has closed the pipe',
  async (words) => {
    const child = spawn(NODE, [LAUNCHER, ...words.split(' ')], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.destroy();
    let errors = '';
    child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    const [code] = (await once(child, 'close')) as [number | null];
    expect(errors).toBe('');
    expect(code).toBe(0);
  },
);
