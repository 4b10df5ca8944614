// Checks the database pages in both themes and at phone width: axe finds nothing serious, and nothing overflows
// horizontally.
import { beforeAll, describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const world = dashboardWorld();

const PAGES = [
  ['/', 'region', 'Health'],
  ['/config', 'textbox', 'svc.yaml'],
  ['/tables', 'navigation', 'Tables'],
  ['/tables?table=tips', 'grid', 'Rows of tips'],
  ['/tables?table=todos&tab=schema', 'region', 'Columns'],
  ['/policies', 'link', 'todos'],
  ['/policies?table=tips&key=id%3D1', 'region', 'select: allowed'],
  ['/statements', 'table', 'Statements'],
  ['/sql-functions?function=add_numbers(integer,integer)', 'heading', 'add_numbers'],
] as const;

describe.skipIf(world.skipped)('in every theme and width', () => {
  beforeAll(async () => {
    await world.rest('POST', 'tips', { id: 1, body: 'Drink water' });
  });

  const CASES = PAGES.flatMap(([path, role, name]) =>
    (['light', 'dark'] as const).map((colorScheme) => ({ path, role, name, colorScheme })),
  );
  test.each(CASES)('$path in $colorScheme', async ({ path, role, name, colorScheme }) => {
    const page = await world.open(path, { colorScheme });
    await page.getByRole(role, { name }).waitFor();
    await expectAccessible(page);
    await page.setViewportSize({ width: 375, height: 740 });
    await page.getByRole(role, { name }).waitFor();
    await expectAccessible(page);
    // The layout adapts shortly after the resize.
    await expect
      .poll(() => page.evaluate(() => document.documentElement.scrollWidth))
      .toBeLessThanOrEqual(375);
  });
});
