// Without `--dashboard readwrite` these pages show everything and offer no changes. attack/read-only.test.ts checks
// that the server rejects changes.
import { describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const world = dashboardWorld({ command: 'serve', arguments: ['--dashboard', 'readonly'] });

async function openSignedIn(path: string, expected: RegExp[] = []) {
  const page = await world.open(path, { expected });
  await page.getByRole('textbox', { name: 'Secret key' }).fill(world.svc.secretKey);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('read only', { exact: true }).waitFor();
  return page;
}

describe.skipIf(world.skipped)('a read-only dashboard', () => {
  test('users can only be viewed', async () => {
    const id = await world.addUser('viewed@example.com');
    // The rejected request at the end causes an error in the console.
    const page = await openSignedIn('/users', [/403/]);
    await page.getByRole('link', { name: 'viewed@example.com' }).click();
    await page.getByRole('region', { name: 'Sessions' }).waitFor();
    await expectAccessible(page);
    const main = page.getByRole('main');
    expect(await main.getByRole('button', { name: /New user|Edit|Ban|Delete|Sign out/ }).count()).toBe(0);
    const refused = await page.evaluate(async (user) => {
      const session = (await (await fetch('/dashboard/api/session')).json()) as { csrf: string };
      const response = await fetch(`/dashboard/api/as/service/auth/v1/admin/users/${user}`, {
        method: 'DELETE',
        headers: { 'x-svc-csrf': session.csrf },
      });
      return { status: response.status, body: (await response.json()) as { code: string } };
    }, id);
    expect(refused).toMatchObject({ status: 403, body: { code: 'dashboard_read_only' } });
  });

  test('functions can be read but not called, created or changed', async () => {
    const page = await openSignedIn('/functions');
    await page.getByRole('link', { name: 'hello' }).waitFor();
    expect(await page.getByRole('button', { name: 'New function' }).count()).toBe(0);
    await page.getByRole('link', { name: 'hello' }).click();
    expect(await page.getByRole('button', { name: 'Invoke' }).isDisabled()).toBe(true);
  });

  test('files are listed and previewed, but cannot be added', async () => {
    const { url, secretKey } = world.svc;
    await fetch(`${url}/storage/v1/object/attachments/seen.pdf`, {
      method: 'POST',
      headers: { apikey: secretKey, authorization: `Bearer ${secretKey}`, 'content-type': 'application/pdf' },
      body: '%PDF-1.4\n%%EOF\n',
    });
    const page = await openSignedIn('/storage?bucket=attachments');
    await page.getByRole('link', { name: 'seen.pdf' }).click();
    await page.getByRole('dialog').getByText('No preview of this type.').waitFor();
    expect(await page.getByRole('button', { name: /Upload|Delete|Move|Create/ }).count()).toBe(0);
    await page.getByRole('dialog').getByRole('link', { name: 'Download' }).waitFor();
  });

  test('auth settings and templates cannot be edited', async () => {
    const page = await openSignedIn('/auth');
    expect(await page.getByLabel('Access token lifetime').isDisabled()).toBe(true);
    expect(await page.getByRole('button', { name: 'Review change' }).count()).toBe(0);
    await page.getByRole('tab', { name: 'Mail templates' }).click();
    // The preview uses POST but changes nothing, so it is allowed.
    await page
      .getByRole('region', { name: 'Preview' })
      .frameLocator('iframe')
      .getByText('Confirm email address')
      .waitFor();
    expect(await page.getByRole('button', { name: 'Review change' }).count()).toBe(0);
  });
});
