// The colours that the built stylesheet produces, in both schemes: an undefined variable raises no error, it only makes
// the header transparent.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Locator, Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { dashboardWorld } from '../../support/browser/browser.ts';

const world = dashboardWorld();
const ASSETS = fileURLToPath(new URL('../../../dist/dashboard/assets/', import.meta.url));

type Rgba = { readonly r: number; readonly g: number; readonly b: number; readonly a: number };

async function colourOf(locator: Locator, property: string): Promise<Rgba> {
  const text = await locator.evaluate(
    (element, name) => getComputedStyle(element).getPropertyValue(name),
    property,
  );
  const [r = 0, g = 0, b = 0, a = 1] = (text.match(/[\d.]+/g) ?? []).map(Number);
  // `color(srgb …)` counts from 0 to 1, `rgb(…)` to 255.
  const scale = text.startsWith('color(') ? 255 : 1;
  return { r: r * scale, g: g * scale, b: b * scale, a };
}

const brightness = ({ r, g, b }: Rgba): number => 0.299 * r + 0.587 * g + 0.114 * b;

/** Opaque, and dark or light as the page's scheme. */
function expectTone(tone: Rgba, scheme: 'light' | 'dark', what: string): void {
  expect(tone.a, `${what} is opaque`).toBe(1);
  if (scheme === 'light') expect(brightness(tone), what).toBeGreaterThan(200);
  else expect(brightness(tone), what).toBeLessThan(80);
}

async function openGrid(colorScheme: 'light' | 'dark'): Promise<Page> {
  const page = await world.open('/tables?table=tips', { colorScheme });
  await page.locator('[data-cell="0:0"]').waitFor();
  return page;
}

describe.skipIf(world.skipped)('colours of the built page', () => {
  beforeAll(async () => {
    const rows = Array.from({ length: 3 }, (_, n) => ({ id: n + 1, body: `tip ${n + 1}` }));
    await world.rest('POST', 'tips', rows);
  });

  describe.each(['light', 'dark'] as const)('%s', (scheme) => {
    test('the header of the grid covers the rows that scroll below it', async () => {
      const page = await openGrid(scheme);
      const body = await colourOf(page.locator('body'), 'background-color');
      const header = page.getByRole('rowgroup').first();
      const tone = await colourOf(header, 'background-color');
      expectTone(tone, scheme, 'the header');
      expect(tone).not.toEqual(body);
      const selector = await colourOf(page.locator('[data-selector]').first(), 'background-color');
      expectTone(selector, scheme, 'the fixed corner of the header');
    });

    test('cells have visible borders', async () => {
      const page = await openGrid(scheme);
      const cell = page.locator('[data-cell="0:0"]');
      expect(await cell.evaluate((element) => getComputedStyle(element).borderRightStyle)).toBe('solid');
      const line = await colourOf(cell, 'border-right-color');
      expectTone(line, scheme, 'the line');
      const ground = await colourOf(page.locator('body'), 'background-color');
      expect(Math.abs(brightness(line) - brightness(ground))).toBeGreaterThan(5);
    });

    test('the row under the pointer is highlighted', async () => {
      const page = await openGrid(scheme);
      const cell = page.locator('[data-cell="1:0"]');
      const row = cell.locator('xpath=..');
      expect((await colourOf(row, 'background-color')).a).toBe(0);
      await cell.hover();
      await expect.poll(async () => (await colourOf(row, 'background-color')).a).toBe(1);
      expectTone(await colourOf(row, 'background-color'), scheme, 'the row');
    });

    test('loading rows show placeholders', async () => {
      const page = await world.open('/', { colorScheme: scheme });
      let release = (): void => {};
      const held = new Promise<void>((resolve) => (release = resolve));
      await page.route(/\/rest\/v1\/tips\?/, async (route) => {
        // How many there are is known before they are read.
        if (route.request().method() === 'GET') await held;
        await route.continue();
      });
      const bar = page.locator('[class*="waiting"]').first();
      await page.goto(`${world.svc.url}/dashboard/tables?table=tips`);
      await bar.waitFor();
      expectTone(await colourOf(bar, 'background-color'), scheme, 'the bar');
      release();
      await page.locator('[data-cell="0:0"]').waitFor();
    });
  });

  test('no stylesheet of the build depends on variables of a rewritten light-dark()', () => {
    const sheets = readdirSync(ASSETS).filter((name) => name.endsWith('.css'));
    expect(sheets.length).toBeGreaterThan(0);
    for (const name of sheets) {
      expect(readFileSync(join(ASSETS, name), 'utf8')).not.toMatch(/var\(--lightningcss|light-dark\(/);
    }
  });
});
