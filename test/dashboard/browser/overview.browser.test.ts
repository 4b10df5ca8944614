import { describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const BUDGET_BYTES = 250_000;

const world = dashboardWorld();

describe.skipIf(world.skipped)('overview', () => {
  test('under svc dev the page signs in without a key on the same machine and shows the health', async () => {
    const page = await world.open('/');
    await page.getByRole('heading', { name: 'Todo', level: 2 }).waitFor();
    const health = page.getByRole('region', { name: 'Health' });
    expect(await health.textContent()).toContain('ok');
    expect(await page.getByRole('link', { name: '4 Tables' }).isVisible()).toBe(true);
    await page.getByText('The database matches svc.yaml.').waitFor();
    await expectAccessible(page);
  });

  test('the publishable key can be copied, the secret key only after a click on Show', async () => {
    const page = await world.open('/', { permissions: ['clipboard-read', 'clipboard-write'] });
    const copied = () => page.evaluate(() => navigator.clipboard.readText());

    await page.getByRole('button', { name: 'Copy the publishable key' }).click();
    await expect.poll(copied).toBe(world.svc.publishableKey);

    expect(await page.content()).not.toContain(world.svc.secretKey);
    const connect = page.getByRole('region', { name: 'Connect' });
    await connect.getByRole('button', { name: 'Show' }).click();
    await page.getByRole('button', { name: 'Copy the secret key' }).click();
    await expect.poll(copied).toBe(world.svc.secretKey);

    // A reload discards the key.
    await page.reload();
    await connect.getByRole('button', { name: 'Show' }).waitFor();
    expect(await page.content()).not.toContain(world.svc.secretKey);
  });

  test('the snippets contain this project’s values, and the curl command works unchanged', async () => {
    const page = await world.open('/');
    const snippet = page.getByRole('region', { name: 'the supabase-js snippet' });
    expect(await snippet.textContent()).toContain(world.svc.publishableKey);
    await page.getByRole('tab', { name: 'curl' }).click();
    const curl = (await page.getByRole('region', { name: 'the curl command' }).textContent()) ?? '';
    const [, url = ''] = /curl '([^']+)'/.exec(curl) ?? [];
    const [, key = ''] = /apikey: (\S+)'/.exec(curl) ?? [];
    const response = await fetch(url, { headers: { apikey: key } });
    expect(response.status).toBe(200);
  });

  test('every page shows that a newer file has replaced this one', async () => {
    const page = await world.open('/');
    await page.route(/\/dashboard\/api\/session(\/local)?$/, async (route) => {
      const answer = await route.fetch();
      const superseded = {
        message: 'MIG-403 this file was replaced',
        hint: 'Build it again.',
        differs: ['+ tables.todos: create policy'],
      };
      await route.fulfill({ json: { ...(await answer.json()), superseded } });
    });
    await page.reload();
    const banner = page.getByRole('alert').filter({ hasText: 'does not serve the newest svc.yaml' });
    await banner.waitFor();
    expect(await banner.textContent()).toContain('Build it again.');
    await page.getByRole('link', { name: 'Tables', exact: true }).click();
    await page.getByRole('heading', { name: 'Tables', level: 2 }).waitFor();
    expect(await banner.isVisible()).toBe(true);
    await expectAccessible(page);
  });

  test('each page has a keyboard shortcut, and another one lists them', async () => {
    const page = await world.open('/');
    await page.getByRole('heading', { name: 'Todo', level: 2 }).waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('t');
    await page.getByRole('heading', { name: 'Tables', level: 2 }).waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    await expectAccessible(page);
  });

  test('after a sign-out, the page does not sign in automatically', async () => {
    const page = await world.open('/');
    await page.getByRole('heading', { name: 'Todo', level: 2 }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    const without = page.getByRole('button', { name: /Sign in without a key/ });
    await without.waitFor();
    await page.waitForLoadState('networkidle');
    expect(await without.isVisible()).toBe(true);
    await without.click();
    await page.getByRole('heading', { name: 'Todo', level: 2 }).waitFor();
  });

  test('the first page is smaller than its size budget', async () => {
    const page = await world.open('/');
    await page.getByRole('heading', { name: 'Todo', level: 2 }).waitFor();
    await page.waitForLoadState('networkidle');
    const bytes = await page.evaluate(() =>
      performance
        .getEntriesByType('resource')
        .filter(({ name }) => !name.includes('/dashboard/api/'))
        .reduce((sum, entry) => sum + (entry as PerformanceResourceTiming).encodedBodySize, 0),
    );
    expect(bytes).toBeGreaterThan(0);
    expect(bytes).toBeLessThan(BUDGET_BYTES);
  });
});
