// Debian's Chromium, as tests start it.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium as playwright, type Browser } from 'playwright-core';

export const CHROMIUM = process.env['SVC_TEST_CHROMIUM'] ?? '/usr/bin/chromium';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Without Chromium these tests are skipped, unless SVC_TEST_BROWSER requires them. */
export function hasChromium(): boolean {
  const found = existsSync(CHROMIUM);
  if (!found && process.env['SVC_TEST_BROWSER'] === 'required') {
    throw new Error(
      `SVC_TEST_BROWSER=required, but there is no ${CHROMIUM}. Install Debian's package "chromium", or name ` +
        'another with SVC_TEST_CHROMIUM.',
    );
  }
  return found;
}

export type Chromium = { readonly browser: Browser; close(): Promise<void> };

export async function launchChromium(): Promise<Chromium> {
  // One place for its temporary files, removed after the tests of the file.
  const profile = mkdtempSync(join(tmpdir(), 'svc-chromium-'));
  const browser = await playwright.launch({
    executablePath: CHROMIUM,
    headless: true,
    args: FLAGS,
    env: {
      ...process.env,
      HOME: profile,
      TMPDIR: profile,
      XDG_CONFIG_HOME: profile,
      XDG_CACHE_HOME: profile,
    },
  });
  return {
    browser,
    async close() {
      await browser.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
