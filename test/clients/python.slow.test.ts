// Runs test/clients/python/suite.py, which uses the published client for Python, against a running service.
// With SVC_TEST_PYTHON=required the test fails if the client cannot be installed.
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startSvc, type SvcProcess } from '../support/svc-process.ts';
import { scaled } from '../support/run/scaled.ts';

const SUITE = join(import.meta.dirname, 'python/suite.py');
const VERSION = '2.34.1';
/** Kept between runs, because the client and its dependencies are forty packages. */
const PLACE = join(import.meta.dirname, `../../node_modules/.cache/svc-python-${VERSION}`);
const PYTHON = join(PLACE, 'bin/python');
const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const NAMES = [...readFileSync(SUITE, 'utf8').matchAll(/def test_(\w+)/g)].map(([, name = '']) => name);

const run = promisify(execFile);

async function install(): Promise<boolean> {
  if (existsSync(join(PLACE, 'whole'))) return true;
  try {
    rmSync(PLACE, { recursive: true, force: true });
    await run('python3', ['-m', 'venv', PLACE], { timeout: scaled(60_000) });
    await run(PYTHON, ['-m', 'pip', 'install', '--quiet', `supabase==${VERSION}`], {
      timeout: scaled(240_000),
    });
    await run(PYTHON, ['-c', `open(${JSON.stringify(join(PLACE, 'whole'))}, 'w').close()`]);
    return true;
  } catch (error) {
    if (process.env['SVC_TEST_PYTHON'] === 'required') throw error;
    return false;
  }
}

const isHere = await install();
if (!isHere) console.warn('the Python client could not be installed: its tests are skipped');

describe.skipIf(!isHere)('the client for Python', () => {
  let folder: string;
  let svc: SvcProcess;
  let output = '';

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-python-'));
    cpSync(join(import.meta.dirname, 'app'), folder, { recursive: true });
    svc = await startSvc({ command: 'dev', config: join(folder, 'svc.yaml'), env: KEYS });
    const env = {
      ...process.env,
      SVC_URL: svc.url,
      SVC_KEY: svc.publishableKey,
      SVC_SECRET: svc.secretKey,
    };
    const ran = await run(PYTHON, ['-W', 'ignore', SUITE], { env, timeout: scaled(150_000) }).catch(
      (error: unknown) => {
        if (error instanceof Error && 'stderr' in error) return { stderr: String(error.stderr) };
        throw error;
      },
    );
    output = ran.stderr;
  }, scaled(200_000));
  afterAll(async () => {
    await svc?.stop();
    if (folder) rmSync(folder, { recursive: true, force: true });
  });

  test.each(NAMES)('%s', (name) => {
    // A slow task is named between a test and its result.
    const [, result] =
      new RegExp(`^test_${name} \\([^)]*\\) \\.\\.\\. (?:[\\s\\S]*?\\n)??(ok|FAIL|ERROR)$`, 'm').exec(
        output,
      ) ?? [];
    expect(result, output).toBe('ok');
  });
});
