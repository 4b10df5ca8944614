import { describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const world = dashboardWorld();

describe.skipIf(world.skipped)('statements', () => {
  test('the page shows the counters of svc, and how to enable those of PostgreSQL', async () => {
    await world.rest('GET', 'lists?title=eq.never%20shown');
    await world.rest('GET', 'lists?title=eq.never%20shown');
    const page = await world.open('/statements');
    await page.getByText('Counted by this instance').waitFor();
    await page.getByText('create extension pg_stat_statements').waitFor();
    const row = page.getByRole('row').filter({ hasText: 'service_role' }).filter({ hasText: '"lists"' });
    await row.first().waitFor();
    expect(await page.getByRole('main').textContent()).not.toContain('never shown');
    const statement = row.first().getByRole('button');
    await statement.click();
    expect(await statement.getAttribute('aria-expanded')).toBe('true');
    await page.getByRole('searchbox', { name: 'Search statements' }).fill('nothing like it');
    await page.getByText('No statement contains “nothing like it”').waitFor();
    await page.getByRole('searchbox', { name: 'Search statements' }).fill('');
    await page.getByText('Mean', { exact: true }).first().click();
    await expect.poll(() => new URL(page.url()).searchParams.get('order')).toBe('meanMs');
    await expectAccessible(page);
  });
});
