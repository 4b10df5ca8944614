// A clone as a user installs it: with the Node of the machine, and without development dependencies.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OF_THE_MACHINE } from '../support/machine-environment.ts';
import { scaled } from '../support/run/scaled.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const INSTALL_TIMEOUT_MS = scaled(300_000);

let clone: string;

beforeAll(() => {
  clone = mkdtempSync(join(tmpdir(), 'svc-clone-of-git-'));
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  for (const file of files.split('\0').filter((name) => name !== '')) {
    mkdirSync(dirname(join(clone, file)), { recursive: true });
    cpSync(join(ROOT, file), join(clone, file));
  }
});
afterAll(() => rmSync(clone, { recursive: true, force: true }));

test(
  'npm install --omit=dev ends well, warns of nothing, and svc runs from its sources',
  () => {
    const at = { cwd: clone, encoding: 'utf8', env: OF_THE_MACHINE } as const;
    const installed = spawnSync('npm', ['install', '--omit=dev', '--no-audit', '--no-fund'], at);
    expect([installed.status, installed.stderr]).toEqual([0, '']);
    expect(installed.stdout).toContain('svc runs from its sources');
    const svc = spawnSync('node', ['bin/svc.js', 'validate', '--config', 'examples/todo/svc.yaml'], at);
    expect([svc.status, svc.stderr]).toEqual([0, '']);
  },
  INSTALL_TIMEOUT_MS,
);
