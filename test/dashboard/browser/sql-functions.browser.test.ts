import { describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const world = dashboardWorld();

describe.skipIf(world.skipped)('SQL functions', () => {
  test('the form reports missing arguments, and arguments with a default may stay empty', async () => {
    const page = await world.open('/sql-functions', { expected: [/status of 400/] });
    await page.getByRole('link', { name: /^add_numbers/ }).click();
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByText('A value is required').waitFor();
    await page.getByLabel(/^a\b/).fill('41');
    await page.getByRole('button', { name: 'Run' }).click();
    const result = page.getByRole('region', { name: 'Result' });
    await result.getByText('42', { exact: true }).waitFor();
    await expectAccessible(page);

    await page.getByLabel(/^b\b/).fill('not a number');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('alert').getByText('not a number').waitFor();
  });

  test('a function runs as the chosen caller: anon is rejected with a hint, a user gets her count', async () => {
    const ada = await world.addUser('ada@example.com');
    const [list] = (await world.rest('POST', 'lists', { owner_id: ada, title: 'Of Ada' })) as Array<{
      id: string;
    }>;
    await world.rest('POST', 'todos', { owner_id: ada, list_id: list?.id, title: 'One' });
    const page = await world.open('/sql-functions?function=todo_summary()&caller=anon', {
      expected: [/status of 40[13]/],
    });
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('alert').waitFor();
    await page.getByRole('combobox', { name: 'Caller' }).click();
    await page.getByRole('option', { name: 'ada@example.com' }).click();
    await page.getByRole('button', { name: 'Run' }).click();
    const result = page.getByRole('region', { name: 'Result' });
    await result.waitFor();
    expect(JSON.parse((await result.locator('code, pre').last().textContent()) ?? '')).toEqual({ open: 1 });
  });
});
