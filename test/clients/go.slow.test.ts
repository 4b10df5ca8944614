// Runs test/clients/go/suite_test.go, which uses the client for Go from the module proxy, against a running service.
// With SVC_TEST_GO=required the test fails if Go or the client is not available.
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startSvc, type SvcProcess } from '../support/svc-process.ts';
import { scaled } from '../support/run/scaled.ts';

const SUITE = join(import.meta.dirname, 'go');
const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const NAMES = [...readFileSync(join(SUITE, 'suite_test.go'), 'utf8').matchAll(/^func (Test\w+)/gm)].map(
  ([, name = '']) => name,
);

const run = promisify(execFile);

/** The program of the tests, built. */
async function build(to: string): Promise<boolean> {
  try {
    await run('go', ['test', '-c', '-o', to, '.'], { cwd: SUITE, timeout: scaled(240_000) });
    return true;
  } catch (error) {
    if (process.env['SVC_TEST_GO'] === 'required') throw error;
    return false;
  }
}

const place = mkdtempSync(join(tmpdir(), 'svc-go-'));
const program = join(place, 'suite');
const isHere = await build(program);
if (!isHere) console.warn('Go or its client is not here: its tests are skipped');
afterAll(() => rmSync(place, { recursive: true, force: true }));

describe.skipIf(!isHere)('the client for Go', () => {
  let svc: SvcProcess;
  let output = '';

  beforeAll(async () => {
    const app = join(place, 'app');
    cpSync(join(import.meta.dirname, 'app'), app, { recursive: true });
    svc = await startSvc({ command: 'dev', config: join(app, 'svc.yaml'), env: KEYS });
    const env = { SVC_URL: svc.url, SVC_KEY: svc.publishableKey, SVC_SECRET: svc.secretKey };
    const ran = await run(program, ['-test.v'], { env, timeout: scaled(120_000) }).catch((error: unknown) => {
      if (error instanceof Error && 'stdout' in error) return { stdout: String(error.stdout) };
      throw error;
    });
    output = ran.stdout;
  }, scaled(200_000));
  afterAll(async () => await svc?.stop());

  test.each(NAMES)('%s', (name) => {
    expect(output).toMatch(new RegExp(`^--- PASS: ${name} `, 'm'));
  });
});
