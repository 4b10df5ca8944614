import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const ROWS = 100_000;

const world = dashboardWorld({
  // A large table with every kind of value.
  prepare: async ({ config }) => {
    const { readFile, writeFile } = await import('node:fs/promises');
    const text = await readFile(config, 'utf8');
    const fields = [
      '{ name: id, type: bigint, primary_key: true }',
      '{ name: name, type: text, required: true }',
      '{ name: amount, type: "numeric(30,4)" }',
      '{ name: done, type: boolean, required: true, default: false }',
      '{ name: details, type: jsonb }',
      '{ name: happened_at, type: timestamptz }',
    ];
    const table = `  events:\n    rls: []\n    fields:\n${fields.map((field) => `      - ${field}\n`).join('')}\n`;
    await writeFile(config, text.replace('\nstorage:\n', `\n${table}storage:\n`));
  },
});

let ada = '';

async function fill(): Promise<void> {
  await world.query('truncate events');
  await world.query(
    `insert into events (id, name, amount, details, happened_at)
     select n, 'event ' || n, 12345678901234567890.1234, jsonb_build_object('n', 9007199254740993),
       '2026-01-01T00:00:00Z'
     from generate_series(1, $1::int) as n`,
    [ROWS],
  );
  await world.query('analyze events');
}

function findCell(page: Page, row: number, column: number) {
  return page.locator(`[data-cell="${row}:${column}"]`);
}

describe.skipIf(world.skipped)('tables', () => {
  beforeAll(async () => {
    await fill();
    ada = await world.addUser('ada@example.com');
    const grace = await world.addUser('grace@example.com');
    await world.rest('POST', 'lists', [
      { owner_id: ada, title: 'Of Ada' },
      { owner_id: grace, title: 'Of Grace' },
    ]);
  });

  test('the list shows all tables, and a search narrows it', async () => {
    const page = await world.open('/tables');
    const list = page.getByRole('navigation', { name: 'Tables' });
    await list.getByRole('link', { name: 'todos' }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('even');
    await expect.poll(() => list.getByRole('link').count()).toBe(1);
    expect(await list.textContent()).toContain('100,000 rows');
    await list.getByRole('link').click();
    await page.getByRole('grid').waitFor();
    expect(page.url()).toContain('table=events');
    await expectAccessible(page);
  });

  test('one hundred thousand rows scroll, and only few of them are in the DOM', async () => {
    const page = await world.open('/tables?table=events');
    const grid = page.getByRole('grid');
    await findCell(page, 0, 1).getByText('event 1', { exact: true }).waitFor();
    expect(await grid.getAttribute('aria-rowcount')).toBe(String(ROWS + 1));
    const elements = () => grid.evaluate((element) => element.querySelectorAll('*').length);
    const atRest = await elements();

    let maxElements = 0;
    for (let step = 1; step <= 40; step += 1) {
      await grid.evaluate((element, part) => {
        element.scrollTop = (element.scrollHeight - element.clientHeight) * part;
      }, step / 40);
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
      maxElements = Math.max(maxElements, await elements());
    }
    expect(maxElements).toBeLessThan(atRest * 2);
    const last = page.getByRole('gridcell', { name: `event ${ROWS}`, exact: true });
    await last.waitFor();
    expect(await last.evaluate((cell) => cell.parentElement?.getAttribute('aria-rowindex'))).toBe(
      String(ROWS + 1),
    );
    // Windows that were scrolled past are not loaded: of 500 only those near the stops.
    const requested = await page.evaluate(
      () => performance.getEntriesByType('resource').filter(({ name }) => name.includes('offset=')).length,
    );
    expect(requested).toBeLessThan(ROWS / 200 / 2);
  });

  test('the arrow keys move the active cell, to the last row and back', async () => {
    const page = await world.open('/tables?table=events');
    await findCell(page, 0, 0).click();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowDown');
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute('data-cell'));
    await expect.poll(focused).toBe('1:1');
    await page.keyboard.press('Control+End');
    await expect.poll(focused).toBe(`${ROWS - 1}:5`);
    await page.getByRole('gridcell', { name: `event ${ROWS}`, exact: true }).waitFor();
    await page.keyboard.press('Control+Home');
    await expect.poll(focused).toBe('0:-1');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowUp');
    await expect.poll(focused).toBe('-1:0');
    // Exactly one cell of the grid is in the tab order.
    expect(await page.locator('[role=grid] [tabindex="0"]').count()).toBe(1);
  });

  test('a value is edited in place by keyboard, without losing digits', async () => {
    const page = await world.open('/tables?table=events');
    await findCell(page, 0, 2).getByText('12345678901234567890.1234').waitFor();
    await findCell(page, 0, 2).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'Edit amount' }).waitFor();
    await expectAccessible(page);
    await page.keyboard.press('Escape');
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.getAttribute('data-cell')))
      .toBe('0:2');

    await page.keyboard.press('Enter');
    await page.getByRole('textbox', { name: 'amount' }).fill('98765432109876543210.5');
    await page.keyboard.press('Enter');
    await findCell(page, 0, 2).getByText('98765432109876543210.5000').waitFor();

    await findCell(page, 0, 3).dblclick();
    await page.getByRole('combobox', { name: 'done' }).selectOption('true');
    await page.getByRole('button', { name: 'Save' }).click();
    await findCell(page, 0, 3).getByText('true').waitFor();

    await findCell(page, 0, 5).dblclick();
    await page.getByRole('button', { name: 'Set to NULL' }).click();
    await findCell(page, 0, 5).getByText('NULL').waitFor();

    const [row] = await world.query(
      'select amount::text, done, details::text, happened_at from events where id = 1',
    );
    // Unedited values keep digits that JavaScript would lose.
    expect(row).toEqual({
      amount: '98765432109876543210.5000',
      done: true,
      details: '{"n": 9007199254740993}',
      happened_at: null,
    });
  });

  test('a concurrent change of the value is not overwritten', async () => {
    const page = await world.open('/tables?table=events');
    await findCell(page, 1, 1).getByText('event 2', { exact: true }).waitFor();
    await findCell(page, 1, 1).dblclick();
    await page.getByRole('textbox', { name: 'name' }).fill('mine');
    await world.query(`update events set name = 'theirs' where id = 2`);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('alert').getByText('has changed to theirs since it was loaded').waitFor();
    expect(await world.query('select name from events where id = 2')).toEqual([{ name: 'theirs' }]);
    // After that warning a second save overwrites the value.
    await page.getByRole('button', { name: 'Save' }).click();
    await findCell(page, 1, 1).getByText('mine').waitFor();
    expect(await world.query('select name from events where id = 2')).toEqual([{ name: 'mine' }]);
  });

  test('a constraint error is shown at the cell, and the input is kept', async () => {
    const page = await world.open('/tables?table=lists', { expected: [/status of 400/] });
    await page.getByRole('gridcell', { name: 'Of Ada' }).dblclick();
    await page.getByRole('textbox', { name: 'title' }).fill('x'.repeat(300));
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('alert').getByText('violates check constraint').waitFor();
    expect(await page.getByRole('textbox', { name: 'title' }).inputValue()).toHaveLength(300);
  });

  test('shows the rows of the chosen caller: all for the service, none for anon, their own for a user', async () => {
    const page = await world.open('/tables?table=lists');
    const titles = page.getByRole('gridcell', { name: /^Of / });
    await expect.poll(() => titles.count()).toBe(2);
    const picker = page.getByRole('combobox', { name: 'Caller' });

    await picker.click();
    await page.getByRole('option', { name: /^anon/ }).click();
    await page.getByText('This caller sees no rows').waitFor();
    await expectAccessible(page);

    await picker.click();
    await page.getByRole('option', { name: 'ada@example.com' }).click();
    await expect.poll(() => titles.allTextContents()).toEqual(['Of Ada']);
    expect(page.url()).toContain(`caller=user%3A${ada}`);
  });

  test('the URL contains filter and order in the syntax of the REST API', async () => {
    const page = await world.open('/tables?table=events');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByLabel('Column').selectOption('name');
    await page.getByLabel('Operator').selectOption('ilike');
    await page.getByLabel('Value').fill('*9999');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByText('10 rows').waitFor();
    await page.getByRole('columnheader', { name: /^name/ }).getByRole('button').click();
    await page.getByRole('columnheader', { name: /^name/ }).getByRole('button').click();
    await findCell(page, 0, 1).getByText('event 99999', { exact: true }).waitFor();
    expect(decodeURIComponent(decodeURIComponent(page.url()))).toContain('name=ilike.*9999');
    await page.reload();
    await findCell(page, 0, 1).getByText('event 99999', { exact: true }).waitFor();
    expect(await page.getByRole('columnheader', { name: /^name/ }).getAttribute('aria-sort')).toBe(
      'descending',
    );
    await page.getByRole('button', { name: 'Remove the filter on name' }).click();
    await page.getByText('100,000 rows', { exact: true }).waitFor();
  });

  test('a row is added with its required values, and deleted after a confirmation that shows it', async () => {
    const page = await world.open('/tables?table=tips');
    await page.getByText('tips has no rows').waitFor();
    await page.getByRole('button', { name: 'Add row' }).click();
    const form = page.getByRole('dialog', { name: 'New row in tips' });
    await form.getByRole('button', { name: 'Add row' }).click();
    await form.getByText('A value is required').waitFor();
    await expectAccessible(page);
    await form.getByLabel(/^body/).fill('Drink water');
    await form.getByRole('button', { name: 'Add row' }).click();
    await page.getByRole('gridcell', { name: 'Drink water' }).waitFor();

    await page.getByRole('checkbox', { name: 'Select row 1' }).click();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete 1 row of tips' });
    await dialog.getByText('Drink water').waitFor();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    expect(await world.query('select body from tips')).toHaveLength(1);
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await dialog.getByRole('button', { name: 'Delete 1 row' }).click();
    await page.getByText('tips has no rows').waitFor();
    expect(await world.query('select body from tips')).toHaveLength(0);
  });

  test('a new table is an edit of svc.yaml, shown as a plan before it is written', async () => {
    const page = await world.open('/tables');
    await page.getByRole('button', { name: 'New table' }).click();
    const form = page.getByRole('dialog', { name: 'New table' });
    await form.getByLabel(/^Name/).first().fill('notes');
    await form.getByRole('button', { name: 'Review' }).click();
    const review = page.getByRole('dialog', { name: 'New table' });
    await review.getByText('Migration steps').waitFor();
    await expectAccessible(page);
    expect(await world.query(`select to_regclass('notes') as notes`)).toEqual([{ notes: null }]);
    await review.getByRole('button', { name: 'Write svc.yaml' }).click();
    await page.getByRole('navigation', { name: 'Tables' }).getByRole('link', { name: 'notes' }).waitFor();
    const [owned] = await world.query(
      `select count(*)::int as policies from pg_policies where tablename = 'notes'`,
    );
    expect(owned?.['policies']).toBeGreaterThan(0);
  });
});
