// An example as users run it: `svc dev` on a copy of its folder, Vite's server for its page, and Chromium. Also the
// tests that apply to every example.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { freePort } from '../../../src/lib/free-port.ts';
import { createDatabase } from '../database.ts';
import { startSvc, type SvcProcess } from '../svc-process.ts';
import { copyExample, type Example } from '../todo-project.ts';
import { keepScreenshot } from './browser.ts';
import { hasChromium, openChromium } from './chromium.ts';
import { scaled } from '../run/scaled.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

export type RunningExample = {
  readonly svc: SvcProcess;
  readonly databaseUrl: string;
  /** Folder of the copy that is served. */
  readonly config: string;
  /** The folder in the repository. */
  readonly folder: string;
  /** URL of the page. */
  readonly address: string;
  /** Types that `svc dev` has made of the copy. */
  readonly types: string;
  /** Errors that pages logged to their consoles. */
  readonly complaints: readonly string[];
  readonly pages: Page[];
  /** Opens a page with a separate profile. */
  open(who: string, hash?: string): Promise<Page>;
  /** After a test that failed. */
  keepScreenshots(test: string): Promise<void>;
  stop(): Promise<void>;
};

/** The test files of an example; without a browser they are skipped. */
export function describeExample(name: Example, tests: (running: () => RunningExample) => void): void {
  describe.skipIf(!hasChromium())(`examples/${name}`, () => {
    let example: RunningExample;
    beforeAll(async () => {
      example = await startExample(name);
    });
    afterEach(async ({ task }) => {
      if (task.result?.state === 'fail') await example.keepScreenshots(task.name);
    });
    afterAll(async () => await example?.stop());

    test('its types are those that svc types makes of its file', () => {
      const kept = readFileSync(join(example.folder, 'src/database.ts'), 'utf8');
      expect(kept).toBe(readFileSync(example.types, 'utf8'));
    });

    test('its page gets the publishable key and not the secret one', async () => {
      const code = await (await fetch(`${example.address}/src/client.ts`)).text();
      expect(code).toContain(example.svc.publishableKey);
      expect(code).not.toContain(example.svc.secretKey);
    });

    tests(() => example);
  });
}

async function startExample(name: Example): Promise<RunningExample> {
  const folder = join(ROOT, 'examples', name);
  const database = await createDatabase();
  const project = copyExample(name);
  const types = join(project.directory, 'src/database.ts');
  const svc = await startSvc({
    command: 'dev',
    config: project.config,
    arguments: ['--types', types],
    env: { SVC_DATABASE_URL: database.url },
  });
  const port = await freePort();
  const address = `http://localhost:${port}`;
  const vite = spawn(
    process.execPath,
    [join(ROOT, 'node_modules/vite/bin/vite.js'), folder, '--port', String(port), '--host', 'localhost'],
    {
      stdio: 'ignore',
      env: {
        ...process.env,
        NODE_ENV: 'development',
        VITE_SVC_URL: svc.url,
        SVC_PUBLISHABLE_KEY: svc.publishableKey,
        SVC_SECRET_KEY: svc.secretKey,
      },
    },
  );
  await vi.waitFor(async () => await fetch(address), { timeout: scaled(30_000) });
  const chromium = await openChromium();
  const pages: Page[] = [];
  const complaints: string[] = [];
  return {
    svc,
    databaseUrl: database.url,
    config: project.config,
    folder,
    address,
    types,
    complaints,
    pages,
    async open(who, hash = '') {
      const context = await chromium.browser.newContext({ viewport: { width: 1100, height: 720 } });
      const page = await context.newPage();
      pages.push(page);
      page.on('console', (message) => {
        if (message.type() === 'error')
          complaints.push(`${who}: ${message.text()} ${message.location().url}`);
      });
      page.on('pageerror', (error) => complaints.push(`${who}: ${String(error)}`));
      await page.goto(`${address}/${hash}`);
      return page;
    },
    async keepScreenshots(test) {
      console.log(complaints.join('\n'));
      for (const [index, page] of pages.entries()) await keepScreenshot(page, `${name} ${test} ${index}`);
    },
    async stop() {
      await chromium.close();
      if (vite.exitCode === null) {
        vite.kill();
        await once(vite, 'exit');
      }
      await svc.stop();
      project.remove();
      await database.drop();
    },
  };
}
