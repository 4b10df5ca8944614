import { describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const world = dashboardWorld({ command: 'serve', arguments: ['--migrate', '--dashboard', 'readonly'] });
const UNAUTHORIZED = { expected: [/status of 40[13]/] };

describe.skipIf(world.skipped)('sign-in to a read-only dashboard', () => {
  test('nothing is shown without the secret key, and a wrong key shows an error', async () => {
    const page = await world.open('/tables', UNAUTHORIZED);
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(await page.getByRole('navigation').count()).toBe(0);
    await expectAccessible(page);

    await page.getByLabel(/^Secret key/).fill('svc_secret_wrong');
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('alert').waitFor();

    await page.getByLabel(/^Secret key/).fill(world.svc.secretKey);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('heading', { name: 'Tables', level: 2 }).waitFor();
    await page.getByText('read only', { exact: true }).waitFor();
    // The session survives a reload and ends with the sign-out.
    await page.reload();
    await page.getByRole('heading', { name: 'Tables', level: 2 }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  });

  test('read-only mode hides every change, and the server rejects changes', async () => {
    await world.rest('POST', 'tips', { body: 'Look, do not touch' });
    const page = await world.open('/tables?table=tips', UNAUTHORIZED);
    await page.getByLabel(/^Secret key/).fill(world.svc.secretKey);
    await page.keyboard.press('Enter');
    const cell = page.getByRole('gridcell', { name: 'Look, do not touch' });
    await cell.dblclick();
    expect(await page.getByRole('dialog').count()).toBe(0);
    expect(await page.getByRole('checkbox').count()).toBe(0);
    for (const name of ['Add row', 'New table', 'Delete'])
      expect(await page.getByRole('button', { name }).count(), name).toBe(0);

    await page.goto(`${world.svc.url}/dashboard/config`);
    await page.getByText('this dashboard is read-only').waitFor();
    expect(await page.getByRole('button', { name: 'Review' }).count()).toBe(0);
    await page.getByLabel('svc.yaml').waitFor();
    await expectAccessible(page);

    const status = await page.evaluate(async () => {
      const session = (await (await fetch('/dashboard/api/session')).json()) as { csrf: string };
      const response = await fetch('/dashboard/api/as/service/rest/v1/tips', {
        method: 'DELETE',
        headers: { 'x-svc-csrf': session.csrf },
      });
      return response.status;
    });
    expect(status).toBe(403);
    expect(await world.query('select body from tips')).toEqual([{ body: 'Look, do not touch' }]);
  });
});
