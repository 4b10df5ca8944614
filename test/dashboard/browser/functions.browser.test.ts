// Code functions and the log: call, edit and create functions, filter log lines.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const world = dashboardWorld();
const sourceFile = (): string => join(world.project.directory, 'functions/hello.js');

/** Replaces the whole text with the keyboard. */
async function type(page: Page, label: string, text: string): Promise<void> {
  const editor = page.getByLabel(label, { exact: true });
  await editor.click();
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Delete');
  await page.keyboard.insertText(text);
}

describe.skipIf(world.skipped)('code functions', () => {
  test('the list shows what is loaded, and links to the function', async () => {
    const page = await world.open('/functions');
    const row = page.getByRole('row', { name: /hello/ });
    await row.getByText('loaded').waitFor();
    await row.getByText('functions/hello.js').waitFor();
    await expectAccessible(page);
    await row.getByRole('link', { name: 'hello' }).click();
    await page.getByRole('tab', { name: 'Invoke' }).waitFor();
    expect(new URL(page.url()).searchParams.get('name')).toBe('hello');
  });

  test('a call shows status, body and headers of the answer', async () => {
    const page = await world.open('/functions?name=hello');
    await page.getByLabel('Body', { exact: true }).fill('{"name":"Ada"}');
    await page.getByRole('button', { name: 'Invoke' }).click();
    const answer = page.getByRole('region', { name: 'Answer', exact: true });
    await answer.getByText('200 OK').waitFor();
    expect(await answer.getByRole('region', { name: 'Body of the answer' }).innerText()).toContain(
      'Hello Ada',
    );
    await answer.getByText(/^\d+ headers$/).click();
    await answer.getByRole('row', { name: /content-type.*application\/json/ }).waitFor();
    await expectAccessible(page);
  });

  test('the function sees the chosen caller, and the page never receives their token', async () => {
    const id = await world.addUser('caller@example.com');
    const page = await world.open(`/functions?name=hello&caller=user:${id}`);
    await page.getByRole('button', { name: 'Invoke' }).click();
    await page.getByText('200 OK').waitFor();
    await page.getByRole('tab', { name: 'Logs' }).click();
    const line = page.getByRole('button', { name: /hello was called/ }).last();
    await line.click();
    await page.getByText('"signedIn": true').waitFor();
    await expectAccessible(page);
  });

  test('an invalid header is reported, and nothing is called', async () => {
    const page = await world.open('/functions?name=hello');
    await page.getByLabel('Headers').fill('not a header');
    await page.getByText('Not “name: value”: not a header').waitFor();
    expect(await page.getByRole('button', { name: 'Invoke' }).isDisabled()).toBe(true);
  });

  test('the next call runs the saved source', async () => {
    const before = readFileSync(sourceFile(), 'utf8');
    const page = await world.open('/functions?name=hello&tab=source');
    await type(page, 'Source of hello', before.replace('Hello $', 'Good morning $'));
    await page.getByText('· not saved').waitFor();
    await expectAccessible(page);
    await page.keyboard.press('Control+s');
    await page.getByText('functions/hello.js was saved').waitFor();
    expect(readFileSync(sourceFile(), 'utf8')).toContain('Good morning $');
    await page.getByRole('tab', { name: 'Invoke' }).click();
    await expect
      .poll(async () => {
        await page.getByRole('button', { name: 'Invoke' }).click();
        await page.getByText('200 OK').waitFor();
        return await page.getByRole('region', { name: 'Body of the answer' }).innerText();
      })
      .toContain('Good morning world');
    writeFileSync(sourceFile(), before);
  });

  test('a file changed elsewhere is not overwritten, and the edited text is kept', async () => {
    const before = readFileSync(sourceFile(), 'utf8');
    const page = await world.open('/functions?name=hello&tab=source', { expected: [/409/] });
    await type(page, 'Source of hello', `${before}// mine\n`);
    writeFileSync(sourceFile(), `${before}// theirs\n`);
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('The file has been changed elsewhere').waitFor();
    expect(readFileSync(sourceFile(), 'utf8')).toContain('// theirs');
    expect(await page.getByLabel('Source of hello').innerText()).toContain('// mine');
    expect(await page.getByLabel('Current file').innerText()).toContain('// theirs');
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Overwrite it with my text' }).click();
    await page.getByText('functions/hello.js was saved').waitFor();
    expect(readFileSync(sourceFile(), 'utf8')).toContain('// mine');
    writeFileSync(sourceFile(), before);
  });

  test('a new function is declared in svc.yaml, written, and answers', async () => {
    const page = await world.open('/functions');
    await page.getByRole('button', { name: 'New function' }).click();
    const dialog = page.getByRole('dialog', { name: 'New function' });
    await dialog.getByLabel('Name').fill('hello');
    await dialog.getByText('A function with this name exists').waitFor();
    await dialog.getByLabel('Name').fill('fresh');
    await dialog.getByText('TypeScript').click();
    await dialog.getByLabel('Only for signed-in users').uncheck({ force: true });
    await dialog.getByText('functions/fresh.ts').waitFor();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Create function' }).click();
    await page.getByLabel('Source of fresh').waitFor();
    expect(readFileSync(world.project.config, 'utf8')).toMatch(
      /fresh:\s+runtime: node\s+file: functions\/fresh\.ts/,
    );
    await expect.poll(async () => (await fetch(`${world.svc.url}/functions/v1/fresh`)).status).toBe(200);
  });
});

describe.skipIf(world.skipped)('the log', () => {
  test('a new line appears without a reload, and expands to its fields', async () => {
    const page = await world.open('/logs');
    await page.getByText('live').waitFor();
    await fetch(`${world.svc.url}/rest/v1/no_such_table_at_all`);
    const line = page.getByRole('button', { name: /GET \/rest\/v1\/no_such_table_at_all/ });
    await line.click();
    await page.getByText('"status": 401').waitFor();
    await expectAccessible(page);
  });

  test('level, source and text filter the lines', async () => {
    await fetch(`${world.svc.url}/functions/v1/hello`, { method: 'POST' });
    const page = await world.open('/logs?source=function');
    await page
      .getByRole('button', { name: /hello was called/ })
      .first()
      .waitFor();
    expect(await page.getByRole('button', { name: /POST \/functions/ }).count()).toBe(0);
    await page.getByLabel('Minimum level').selectOption('error');
    await page.getByText('No matching lines').waitFor();
    await page.getByLabel('Minimum level').selectOption('trace');
    await page.getByLabel('Source').selectOption('all');
    await page.getByLabel('Search the lines').fill('HELLO was');
    await page
      .getByRole('button', { name: /hello was called/ })
      .first()
      .waitFor();
    expect(await page.getByRole('button', { name: /POST \/functions/ }).count()).toBe(0);
  });

  test('while paused, it shows the number of new lines', async () => {
    const page = await world.open('/logs');
    await page.getByText('live').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await fetch(`${world.svc.url}/rest/v1/while_paused`);
    await page.getByRole('button', { name: /Continue \(\d+ new\)/ }).waitFor();
    expect(await page.getByRole('button', { name: /while_paused/ }).count()).toBe(0);
    await page.getByRole('button', { name: /Continue/ }).click();
    await page.getByRole('button', { name: /while_paused/ }).waitFor();
  });
});
