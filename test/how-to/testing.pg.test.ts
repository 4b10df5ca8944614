// The how-to pages about tests and types, with their blocks as printed.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../support/documentation/blocks.ts';
import { HowToPage } from '../support/documentation/how-to-page.ts';
import { NODE } from '../support/svc-process.ts';

const PAGE = 'docs/how-to/test-policies.md';
const MATRIX = "import assert from 'node:assert/strict'";

describe('docs/how-to/test-policies.md', () => {
  test('the matrix passes, and each block has run', async () => {
    const page = await HowToPage.open(PAGE);
    try {
      page.write(MATRIX);
      expect(await page.sh('node --test')).toMatch(/fail 0/);
      expect(await page.sh('svc sql --as anon')).toMatch(/\d/);
      expect(page.unused()).toEqual([]);
    } finally {
      await page.close();
    }
  });

  /** Runs the matrix against other policies. */
  const findFailures = async (edit: (line: string) => string): Promise<void> => {
    const page = await HowToPage.open(PAGE, { edit: (yaml) => yaml.split('\n').map(edit).join('\n') });
    try {
      page.write(MATRIX);
      await expect(page.sh('node --test')).rejects.toMatchObject({
        stdout: expect.stringMatching(/^\S+ fail [1-9]/m),
      });
    } finally {
      await page.close();
    }
  };
  const policies = (readFileSync(join(ROOT, PAGE), 'utf8').match(/- \{ operations: .*$/gm) ?? []).map(String);

  test('the page has policies to remove', () => {
    expect(policies).toHaveLength(4);
  });

  test.each(policies)('the matrix fails without %s', async (policy) => {
    await findFailures((line) => (line.trim() === policy ? '' : line));
  });

  test.each(policies)('the matrix fails if everybody passes %s', async (policy) => {
    const open = policy.replace(/(using|with_check|check): .*? \}$/, '$1: "true" }');
    expect(open).not.toBe(policy);
    await findFailures((line) => line.replace(policy, open));
  });
});

describe('docs/how-to/typescript.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/typescript.md');
  });
  afterAll(() => page?.close());

  test('the program compiles with the types of the file, and a wrong name does not', async () => {
    await page.sh('svc types');
    page.write('import { createClient }');
    const compile = (): string => {
      const options =
        '--noEmit --ignoreConfig --strict --skipLibCheck --allowImportingTsExtensions ' +
        '--target esnext --lib esnext,dom --module nodenext --types node app.ts';
      const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
      return spawnSync(NODE, [tsc, ...options.split(' ')], {
        cwd: page.world.directory,
        encoding: 'utf8',
      }).stdout;
    };
    expect(compile()).toBe('');
    const file = join(page.world.directory, 'app.ts');
    writeFileSync(file, readFileSync(file, 'utf8').replace("from('tasks')", "from('task')"));
    expect(compile()).toContain('task');
    expect(Number(await page.sh('grep -c'))).toBeGreaterThan(0);
    expect(page.unused()).toEqual([]);
  });
});
