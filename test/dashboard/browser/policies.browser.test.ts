import { describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const world = dashboardWorld();

describe.skipIf(world.skipped)('policies', () => {
  test('for a row and a caller the page shows the allowed operations and the deciding policy', async () => {
    const ada = await world.addUser('ada@example.com');
    const [list] = (await world.rest('POST', 'lists', { owner_id: ada, title: 'Of Ada' })) as Array<{
      id: string;
    }>;
    const page = await world.open('/policies');
    await page.getByRole('link', { name: 'lists' }).click();
    await page.getByRole('combobox', { name: 'Row' }).click();
    await page.getByRole('option', { name: /^Of Ada/ }).click();
    expect(await page.getByRole('textbox', { name: 'id' }).inputValue()).toBe(list?.id);

    await page.getByRole('region', { name: 'select: refused' }).waitFor();
    await expectAccessible(page);
    await page.getByRole('combobox', { name: 'Caller' }).click();
    await page.getByRole('option', { name: 'ada@example.com' }).click();
    const select = page.getByRole('region', { name: 'select: allowed' });
    await select.waitFor();
    expect(await select.textContent()).toContain('owner_id = ');
    expect(await select.getByText('true', { exact: true }).count()).toBe(1);

    await page.reload();
    await select.waitFor();
  });

  test('a missing row is reported', async () => {
    const page = await world.open('/policies?table=tips', { expected: [/status of 404/] });
    await page.getByRole('textbox', { name: 'id' }).fill('4711');
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByRole('alert').waitFor();
    await expectAccessible(page);
  });

  test('a new policy is reviewed as a plan, and applies once it is written', async () => {
    await world.rest('POST', 'tips', { id: 1, body: 'Drink water' });
    const page = await world.open('/policies?table=tips&key=id%3D1&caller=anon');
    await page.getByRole('region', { name: 'delete: refused' }).waitFor();
    await page.getByRole('button', { name: 'New policy' }).click();
    const form = page.getByRole('dialog', { name: 'New policy on tips' });
    await form.getByRole('checkbox', { name: 'select' }).uncheck();
    await form.getByRole('checkbox', { name: 'delete' }).check();
    await form.getByRole('button', { name: 'Everyone' }).click();
    await form.getByRole('button', { name: 'Review' }).click();
    await page.getByText('Migration steps').waitFor();
    await page.getByRole('button', { name: 'Write svc.yaml' }).click();
    await expect
      .poll(() => world.query(`select from pg_policies where tablename = 'tips' and cmd = 'DELETE'`))
      .toHaveLength(1);
    await page.reload();
    await page.getByRole('region', { name: 'delete: allowed' }).waitFor();
  });
});
