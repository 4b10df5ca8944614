// Global setup of the browser tests: one Chromium for the run. Each test file connects to it.
import type { TestProject } from 'vitest/node';
import { hasChromium, startChromium } from './chromium.ts';

export default async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  if (!hasChromium()) return undefined;
  const chromium = await startChromium();
  project.provide('chromiumEndpoint', chromium.endpoint);
  return () => chromium.close();
}
