// Storage and API docs.
import { readFileSync } from 'node:fs';
import { runInThisContext } from 'node:vm';
import { createClient } from '@supabase/supabase-js';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const world = dashboardWorld();
/** A picture of 10 × 10 pixels. */
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC',
  'base64',
);
const picture = (name: string) => ({ name, mimeType: 'image/png', buffer: PNG });

async function put(path: string, body: Uint8Array<ArrayBuffer>, type: string): Promise<void> {
  const { url, secretKey } = world.svc;
  const response = await fetch(`${url}/storage/v1/object/${path}`, {
    method: 'POST',
    headers: { apikey: secretKey, authorization: `Bearer ${secretKey}`, 'content-type': type },
    body,
  });
  expect(response.status).toBe(200);
}

async function upload(page: Page, ...files: Array<ReturnType<typeof picture>>): Promise<void> {
  await page.getByLabel('Files to upload').setInputFiles(files);
}

describe.skipIf(world.skipped)('storage', () => {
  test('files are uploaded, previewed, shared, moved and deleted', async () => {
    const page = await world.open('/storage', { permissions: ['clipboard-read', 'clipboard-write'] });
    await page.getByRole('link', { name: 'attachments' }).click();
    await page.getByText('Nothing here yet').waitFor();
    await expectAccessible(page);
    await upload(page, picture('one.png'), picture('two.png'));
    await page.getByText('2 of 2 uploaded').waitFor();

    await page.getByRole('link', { name: 'one.png' }).click();
    const drawer = page.getByRole('dialog');
    const image = drawer.getByRole('img', { name: 'Preview of one.png' });
    await expect.poll(() => image.evaluate((element) => (element as HTMLImageElement).naturalWidth)).toBe(10);
    await drawer.getByRole('row', { name: 'Type image/png' }).waitFor();
    await expectAccessible(page);

    await drawer.getByRole('button', { name: 'Create' }).click();
    await drawer.getByRole('button', { name: 'Copy signed URL' }).click();
    const signed = await page.evaluate(() => navigator.clipboard.readText());
    expect(Buffer.from(await (await fetch(signed)).arrayBuffer()).equals(PNG)).toBe(true);

    await drawer.getByLabel('Name in the bucket').fill('deep/er/three.png');
    await drawer.getByRole('button', { name: 'Move' }).click();
    await page.getByText('Moved to deep/er/three.png').waitFor();
    expect(new URL(page.url()).searchParams.get('folder')).toBe('deep/er/');
    // Until then the buttons still apply to the previous name.
    await drawer.getByRole('heading', { name: 'three.png' }).waitFor();
    await drawer.getByRole('button', { name: 'Delete' }).click();
    const confirmation = page.getByRole('dialog', { name: 'Delete from attachments' });
    await confirmation.getByText('deep/er/three.png').waitFor();
    await confirmation.getByRole('button', { name: 'Delete file' }).click();
    await page.getByText('The file was deleted').waitFor();
    expect(await world.query(`select name from storage.objects where bucket_id = 'attachments'`)).toEqual([
      { name: 'two.png' },
    ]);
  });

  test('a folder is deleted with its content, after its files are counted and the bucket name is typed', async () => {
    for (const name of ['a.png', 'b/c.png', 'b/d.png'])
      await put(`attachments/trip/${name}`, PNG, 'image/png');
    await put('attachments/stays.png', PNG, 'image/png');
    const page = await world.open('/storage?bucket=attachments');
    await page.getByRole('checkbox', { name: 'Choose trip' }).check();
    await page.getByRole('button', { name: 'Delete 1' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete from attachments' });
    await dialog.getByText(/These 3 files will be deleted permanently/).waitFor();
    await expectAccessible(page);
    await dialog.getByLabel('Type attachments to continue').fill('attachments');
    await dialog.getByRole('button', { name: 'Delete 3 files' }).click();
    await page.getByText('3 files were deleted').waitFor();
    const left = await world.query(
      `select name from storage.objects where name like 'trip/%' or name = 'stays.png'`,
    );
    expect(left).toEqual([{ name: 'stays.png' }]);
  });

  test('an existing file is replaced only on request, and a rejected type is reported', async () => {
    await put('attachments/twice.png', PNG, 'image/png');
    const page = await world.open('/storage?bucket=attachments', { expected: [/40[09]|415/] });
    await upload(page, picture('twice.png'));
    await page.getByText('A file with this name exists.').waitFor();
    await page.getByRole('button', { name: 'Replace' }).click();
    await page.getByText('1 of 1 uploaded').waitFor();
    await page.getByLabel('Files to upload').setInputFiles({
      name: 'notes.txt',
      mimeType: 'text/plain',
      buffer: Buffer.from('hello'),
    });
    await page
      .getByRole('alert')
      .getByText(/mime type text\/plain is not supported/i)
      .waitFor();
  });

  test('a caller sees only files that the policies allow', async () => {
    const owner = await world.addUser('owner@example.com');
    const stranger = await world.addUser('other@example.com');
    const page = await world.open(`/storage?bucket=attachments&folder=mine/&caller=user:${owner}`);
    await upload(page, picture('own.png'));
    await page.getByRole('link', { name: 'own.png' }).waitFor();
    await page.goto(
      `${world.svc.url}/dashboard/storage?bucket=attachments&folder=mine/&caller=user:${stranger}`,
    );
    await page.getByText('This caller sees no files').waitFor();
  });

  test('files are dropped on the folder', async () => {
    const page = await world.open('/storage?bucket=avatars');
    await page.getByText('Nothing here yet').waitFor();
    const data = await page.evaluateHandle(
      (bytes) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([new Uint8Array(bytes)], 'dropped.png', { type: 'image/png' }));
        return transfer;
      },
      [...PNG],
    );
    await page.getByText('Nothing here yet').dispatchEvent('drop', { dataTransfer: data });
    await page.getByRole('link', { name: 'dropped.png' }).click();
    await page.getByRole('dialog').getByLabel('public URL', { exact: true }).waitFor();
    const url = await page.getByRole('dialog').getByLabel('public URL', { exact: true }).innerText();
    expect((await fetch(url)).status).toBe(200);
  });
});

describe.skipIf(world.skipped)('API docs', () => {
  test('a snippet for supabase-js works', async () => {
    const page = await world.open('/api-docs?show=table.tips');
    const docs = page.getByRole('region', { name: 'tips', exact: true });
    await docs.getByRole('row', { name: /body\s+string\s+required/ }).waitFor();
    await expectAccessible(page);
    const insert = await docs.getByRole('region', { name: 'Insert' }).innerText();
    expect(insert).toContain(`supabase.from('tips')`);
    const { url, secretKey } = world.svc;
    const supabase = createClient(url, secretKey, { auth: { persistSession: false } });
    // Run the text of the snippet.
    const run = runInThisContext(`(async (supabase) => { ${insert}; return { data, error }; })`) as (
      client: typeof supabase,
    ) => Promise<{ data: unknown; error: unknown }>;
    expect(await run(supabase)).toMatchObject({ data: [{ body: 'text' }], error: null });
  });

  test('a function is shown with its arguments, for curl too', async () => {
    const page = await world.open('/api-docs?show=rpc.add_numbers');
    const docs = page.getByRole('region', { name: 'add_numbers', exact: true });
    await docs.getByRole('row', { name: /^a\s+int32\s+required/ }).waitFor();
    expect(await docs.getByRole('region', { name: 'Call', exact: true }).innerText()).toBe(
      `const { data, error } = await supabase.rpc('add_numbers', { a: 1 });`,
    );
    await page.getByText('curl', { exact: true }).click();
    const curl = docs.getByRole('region', { name: 'Call', exact: true });
    await curl.getByText('"$URL/rest/v1/rpc/add_numbers"').waitFor();
    expect(await curl.innerText()).toContain(`-d '{"a":1}'`);
    await expectAccessible(page);
  });

  test('the search and the caller filter the list', async () => {
    const page = await world.open('/api-docs');
    const contents = page.getByRole('navigation', { name: 'Contents' });
    await contents.getByRole('link', { name: 'todo_summary' }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('TODO');
    await contents.getByRole('link', { name: 'tips' }).waitFor({ state: 'detached' });
    await contents.getByRole('link', { name: 'todos' }).click();
    await page.getByRole('region', { name: 'todos', exact: true }).waitFor();
    const key =
      readFileSync(`${world.project.directory}/.env`, 'utf8').match(/svc_secret_\S+/)?.[0] ?? 'none';
    expect(await page.content()).not.toContain(key);
  });
});
