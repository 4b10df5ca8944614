// Starts Debian's Chromium for tests.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium as playwright, type Browser } from 'playwright-core';
import { inject } from 'vitest';

declare module 'vitest' {
  export interface ProvidedContext {
    /** WebSocket endpoint of the Chromium of this run. Undefined if Chromium is not installed. */
    chromiumEndpoint: string | undefined;
  }
}

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

/** Reason to skip without Chromium. SVC_TEST_BROWSER requires it instead. */
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

/** Connects to the Chromium of the run, or starts one if the run has none. */
export async function openChromium(): Promise<Chromium> {
  const shared = inject('chromiumEndpoint');
  if (shared !== undefined) {
    const browser = await playwright.connect(shared);
    return { browser, close: () => browser.close() };
  }
  const own = await startChromium();
  const browser = await playwright.connect(own.endpoint);
  return {
    browser,
    async close() {
      await browser.close();
      await own.close();
    },
  };
}

/** Starts a Chromium with a home directory that `close` removes. */
export async function startChromium(): Promise<{ readonly endpoint: string; close(): Promise<void> }> {
  const home = mkdtempSync(join(tmpdir(), 'svc-chromium-'));
  const server = await playwright.launchServer({
    executablePath: CHROMIUM,
    headless: true,
    args: FLAGS,
    env: { ...process.env, HOME: home, TMPDIR: home, XDG_CONFIG_HOME: home, XDG_CACHE_HOME: home },
  });
  return {
    endpoint: server.wsEndpoint(),
    async close() {
      await server.close();
      rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
