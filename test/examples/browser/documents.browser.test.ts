// Uses examples/documents in browsers: `svc dev`, Vite's server, and a page each for Ann, who owns a team, and Ben, who
// is invited. Ben sends requests that his page does not offer to the server directly.
import { text } from 'node:stream/consumers';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { expectAccessible } from '../../support/browser/browser.ts';
import { describeExample, type RunningExample } from '../../support/browser/example.ts';

const PASSWORD = 'correct horse battery';

let example: RunningExample;

describeExample('documents', (running) => {
  beforeAll(() => {
    example = running();
  });

  test('invited members read or edit by role, and removed members lose access', async () => {
    const ann = await signUp('Ann');
    await ann.getByLabel('Name of a new team').fill('Kitchen');
    await ann.getByRole('button', { name: 'Create' }).click();
    await ann.getByText('You are owner.').waitFor();
    await ann.getByLabel('Title of a new document').fill('Menu');
    await ann.getByRole('button', { name: 'Add' }).click();
    await ann.getByLabel('Text').fill('Soup');
    await ann.getByRole('button', { name: 'Save' }).click();
    await ann
      .getByLabel('Attach a file')
      .setInputFiles({ name: 'häuser.txt', mimeType: 'text/plain', buffer: Buffer.from('a secret recipe') });
    await ann.getByRole('button', { name: 'häuser.txt', exact: true }).waitFor();
    await expectAccessible(ann);

    // A viewer sees the text and the file, and is offered nothing else.
    await ann.getByRole('button', { name: 'Invite a viewer' }).click();
    const link = await ann.getByLabel('Send this link').inputValue();
    const ben = await signUp('Ben', new URL(link).hash);
    await ben.getByText('You are viewer.').waitFor();
    await ben.getByText('Soup').waitFor();
    expect(await download(ben, 'häuser.txt')).toBe('a secret recipe');
    expect(await ben.getByRole('button', { name: 'Save' }).count()).toBe(0);

    const known = createClient(example.svc.url, example.svc.secretKey, { auth: { persistSession: false } });
    const menu = (await known.from('documents').select().single()).data as { id: string; team_id: string };
    const file = (await known.from('attachments').select().single()).data as { path: string };
    const direct = await signIn('Ben');
    const eve = await signIn('Eve');
    const change = async (client: SupabaseClient): Promise<unknown> =>
      (await client.from('documents').update({ body: 'Nothing' }).eq('id', menu.id).select()).data;
    const upload = async (client: SupabaseClient): Promise<boolean> =>
      (await client.storage.from('attachments').upload(`${menu.team_id}/${crypto.randomUUID()}`, 'x'))
        .error === null;
    const read = async (client: SupabaseClient): Promise<string | undefined> =>
      await (await client.storage.from('attachments').download(file.path)).data?.text();
    const add = async (client: SupabaseClient): Promise<string | undefined> =>
      (await client.from('documents').insert({ team_id: menu.team_id, title: 'Mine' })).error?.code;

    expect([await change(direct), await upload(direct), await add(direct)]).toEqual([[], false, '42501']);
    expect(await read(direct)).toBe('a secret recipe');
    expect([await change(eve), await upload(eve), await add(eve), await read(eve)]).toEqual([
      [],
      false,
      '42501',
      undefined,
    ]);
    expect(
      (await eve.rpc('accept_invitation', { invitation: new URL(link).hash.slice(6) })).error?.message,
    ).toBe('This invitation is not valid any more.');
    // Callers cannot raise their role or add members without an invitation.
    const own = { team_id: menu.team_id, role: 'owner' };
    expect((await direct.from('members').insert(own)).error?.code).toBe('42501');
    expect((await direct.from('members').update({ role: 'owner' }).eq('name', 'Ben').select()).data).toEqual(
      [],
    );

    // The edit of an editor appears on the other page, and an unseen edit is not overwritten.
    await ann.getByLabel('Role of Ben').selectOption('editor');
    await ben.getByText('You are editor.').waitFor();
    await ann.getByLabel('Text').fill('Soup and salad');
    await ben.getByLabel('Text').fill('Soup and bread');
    await ben.getByRole('button', { name: 'Save' }).click();
    await expect
      .poll(async () => (await known.from('documents').select('body').single()).data?.body)
      .toBe('Soup and bread');
    await ann.getByRole('button', { name: 'Save' }).click();
    await ann.getByText('The document has changed since you opened it.').waitFor();
    await ann.getByRole('button', { name: 'Discard' }).click();
    await expect.poll(() => ann.getByLabel('Text').inputValue()).toBe('Soup and bread');

    // A removed member loses access, with the page and without it.
    await ann.getByRole('button', { name: 'Remove Ben' }).click();
    await ben.getByText('You are in no team.').waitFor();
    expect((await direct.from('documents').select()).data).toEqual([]);
    expect([await change(direct), await upload(direct), await read(direct)]).toEqual([[], false, undefined]);

    // Deleting the document deletes its file.
    await ann.getByRole('button', { name: 'Delete this document' }).click();
    await expect
      .poll(async () => (await known.storage.from('attachments').list(menu.team_id)).data)
      .toEqual([]);

    expect(example.complaints, 'errors in the console of a page').toEqual([]);
  });
});

async function signUp(name: string, hash = ''): Promise<Page> {
  const page = await example.open(name, hash);
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Email').fill(`${name.toLowerCase()}@example.com`);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Create an account' }).click();
  return page;
}

async function download(page: Page, name: string): Promise<string> {
  const started = page.waitForEvent('download');
  await page.getByRole('button', { name, exact: true }).click();
  const saved = await started;
  expect(saved.suggestedFilename()).toBe(name);
  return await text(await saved.createReadStream());
}

/** Returns a client that works without the page. Creates the account if it does not exist. */
async function signIn(name: string): Promise<SupabaseClient> {
  const client = createClient(example.svc.url, example.svc.publishableKey, {
    auth: { persistSession: false },
  });
  const credentials = { email: `${name.toLowerCase()}@example.com`, password: PASSWORD };
  const { error } = await client.auth.signInWithPassword(credentials);
  if (error) expect((await client.auth.signUp(credentials)).error).toBeNull();
  return client;
}
