// Checks the colours of the built stylesheet in both schemes. An undefined variable raises no error: it only makes
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

async function readColour(locator: Locator, property: string): Promise<Rgba> {
  const text = await locator.evaluate(
    (element, name) => getComputedStyle(element).getPropertyValue(name),
    property,
  );
  const [r = 0, g = 0, b = 0, a = 1] = (text.match(/[\d.]+/g) ?? []).map(Number);
  // `color(srgb …)` ranges from 0 to 1, `rgb(…)` to 255.
  const scale = text.startsWith('color(') ? 255 : 1;
  return { r: r * scale, g: g * scale, b: b * scale, a };
}

const brightness = ({ r, g, b }: Rgba): number => 0.299 * r + 0.587 * g + 0.114 * b;

/** Expects an opaque colour that matches the scheme. */
function expectTone(tone: Rgba, scheme: 'light' | 'dark', label: string): void {
  expect(tone.a, `${label} is opaque`).toBe(1);
  if (scheme === 'light') expect(brightness(tone), label).toBeGreaterThan(200);
  else expect(brightness(tone), label).toBeLessThan(80);
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
      const body = await readColour(page.locator('body'), 'background-color');
      const header = page.getByRole('rowgroup').first();
      const tone = await readColour(header, 'background-color');
      expectTone(tone, scheme, 'the header');
      expect(tone).not.toEqual(body);
      const selector = await readColour(page.locator('[data-selector]').first(), 'background-color');
      expectTone(selector, scheme, 'the fixed corner of the header');
    });

    test('cells have visible borders', async () => {
      const page = await openGrid(scheme);
      const cell = page.locator('[data-cell="0:0"]');
      expect(await cell.evaluate((element) => getComputedStyle(element).borderRightStyle)).toBe('solid');
      const line = await readColour(cell, 'border-right-color');
      expectTone(line, scheme, 'the line');
      const ground = await readColour(page.locator('body'), 'background-color');
      expect(Math.abs(brightness(line) - brightness(ground))).toBeGreaterThan(5);
    });

    test('the row under the pointer is highlighted', async () => {
      const page = await openGrid(scheme);
      const cell = page.locator('[data-cell="1:0"]');
      const row = cell.locator('xpath=..');
      expect((await readColour(row, 'background-color')).a).toBe(0);
      await cell.hover();
      await expect.poll(async () => (await readColour(row, 'background-color')).a).toBe(1);
      expectTone(await readColour(row, 'background-color'), scheme, 'the row');
    });

    test('loading rows show placeholders', async () => {
      const page = await world.open('/', { colorScheme: scheme });
      let release = (): void => {};
      const delay = new Promise<void>((resolve) => (release = resolve));
      await page.route(/\/rest\/v1\/tips\?/, async (route) => {
        // The count is requested before the rows.
        if (route.request().method() === 'GET') await delay;
        await route.continue();
      });
      const bar = page.locator('[class*="waiting"]').first();
      await page.goto(`${world.svc.url}/dashboard/tables?table=tips`);
      await bar.waitFor();
      expectTone(await readColour(bar, 'background-color'), scheme, 'the bar');
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
