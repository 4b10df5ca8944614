// Uses examples/chat in browsers: `svc dev`, Vite's server, and a page each for Ann and Ben. Eve is a stranger who
// sends requests without the page, because the page sends only the intended ones.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { expectAccessible } from '../../support/browser/browser.ts';
import { describeExample, type RunningExample } from '../../support/browser/example.ts';

const PASSWORD = 'correct horse battery';

let example: RunningExample;

describeExample('chat', (running) => {
  beforeAll(() => {
    example = running();
  });

  test('members see messages, presence and typing; strangers and removed members receive nothing', async () => {
    const ann = await signUp('Ann');
    await ann.getByLabel('Name of a new room').fill('Kitchen');
    await ann.getByRole('button', { name: 'Create' }).click();
    await live(ann, 'Kitchen');
    await ann.getByRole('button', { name: 'Invite' }).click();
    const link = await ann.getByLabel('Send this link').inputValue();

    const ben = await signUp('Ben', new URL(link).hash);
    await live(ben, 'Kitchen');

    // Presence, in both directions.
    for (const page of [ann, ben]) {
      await expect.poll(() => present(page)).toEqual(['Ann', 'Ben']);
    }

    // Typing is a broadcast; the message that ends it is a row.
    await ben.getByLabel('Message', { exact: true }).fill('Hello');
    await ann.getByText('Ben is typing…').waitFor();
    await ben.getByRole('button', { name: 'Send' }).click();
    await expect.poll(() => messages(ann)).toEqual(['Hello']);
    await ann.getByText('Ben is typing…').waitFor({ state: 'detached' });
    await post(ann, 'Hello Ben');
    await expect.poll(() => messages(ben)).toEqual(['Hello', 'Hello Ben']);
    await expectAccessible(ann);

    await ben.getByRole('button', { name: 'Delete “Hello”' }).click();
    await expect.poll(() => messages(ann)).toEqual(['Hello Ben']);

    // A stranger who requests everything.
    const eve = await hostile('Eve');
    const benElsewhere = await hostile('Ben', 'sign in');
    expect(eve.room).toMatch(/Unauthorized/);
    expect(benElsewhere.room).toBe('SUBSCRIBED');
    await post(ann, 'For the kitchen');
    await expect.poll(() => benElsewhere.received).toEqual(['For the kitchen']);

    // Closing the page leaves the room.
    const second = await ben.context().newPage();
    await ben.close();
    await expect.poll(() => present(ann)).toEqual(['Ann']);
    await second.goto(example.address);
    await live(second, 'Kitchen');
    await expect.poll(() => present(ann)).toEqual(['Ann', 'Ben']);
    example.pages.push(second);

    await ann.getByRole('button', { name: 'Remove Ben' }).click();
    await second.getByText('You are in no room.').waitFor();
    await expect.poll(() => members(ann)).toEqual(['Ann']);
    await post(ann, 'Only for me');

    // Messages arrive in the order of commits: after a message to themselves, all earlier ones were delivered or not.
    for (const person of [eve, benElsewhere]) await person.postToMyself('The end');
    await expect.poll(() => eve.received).toEqual(['The end']);
    await expect.poll(() => benElsewhere.received).toEqual(['For the kitchen', 'The end']);
    expect((await benElsewhere.client.from('messages').select()).data).toMatchObject([{ body: 'The end' }]);

    // The old invitation leads nowhere, the new one back.
    await second.goto(link);
    await second.getByText('This invitation is not valid any more.').waitFor();
    await ann.getByRole('button', { name: 'Invite' }).click();
    await second.goto(await ann.getByLabel('Send this link').inputValue());
    await expect.poll(() => messages(second)).toEqual(['Hello Ben', 'For the kitchen', 'Only for me']);

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

async function live(page: Page, room: string): Promise<void> {
  await page.getByRole('heading', { name: room }).waitFor();
  await page.getByText('Live', { exact: true }).waitFor();
}

async function post(page: Page, text: string): Promise<void> {
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
}

const messages = async (page: Page): Promise<string[]> =>
  await page.getByRole('list', { name: 'Messages' }).locator('.body').allTextContents();

const members = async (page: Page): Promise<string[]> =>
  (await page.getByLabel('Members').locator('.name').allTextContents()).map(
    (text) => text.split(' ')[0] ?? '',
  );

async function present(page: Page): Promise<string[]> {
  const items = page.getByLabel('Members').getByRole('listitem');
  const here = items.filter({ has: page.getByRole('img', { name: 'here' }) });
  return (await here.locator('.name').allTextContents()).map((text) => text.split(' ')[0] ?? '');
}

type Hostile = {
  readonly client: SupabaseClient;
  /** Result of joining the channel of the only room. */
  readonly room: string;
  /** Bodies of the messages of all rooms, in their order. */
  readonly received: readonly string[];
  /** Sends a message to a new room without other members. */
  postToMyself(text: string): Promise<void>;
};

/** Subscribes to all messages, and joins a room whose id only its members should know. */
async function hostile(name: string, way: 'sign up' | 'sign in' = 'sign up'): Promise<Hostile> {
  const client = createClient(example.svc.url, example.svc.publishableKey, {
    auth: { persistSession: false },
  });
  const credentials = { email: `${name.toLowerCase()}@example.com`, password: PASSWORD };
  const { data, error } = await (way === 'sign up'
    ? client.auth.signUp({ ...credentials, options: { data: { name } } })
    : client.auth.signInWithPassword(credentials));
  expect(error).toBeNull();
  await client.realtime.setAuth();
  const received: string[] = [];
  await new Promise<void>((resolve) => {
    client
      .channel(`user:${data.user?.id}`, { config: { private: true } })
      .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'messages' }, ({ new: row }) => {
        received.push(String(row['body']));
      })
      .subscribe((status: string) => {
        if (status === 'SUBSCRIBED') resolve();
      });
  });
  const known = createClient(example.svc.url, example.svc.secretKey, { auth: { persistSession: false } });
  const rooms = await known.from('rooms').select('id').eq('name', 'Kitchen').single();
  const channel = client.channel(`room:${rooms.data?.id}`, { config: { private: true } });
  const room = await new Promise<string>((resolve) => {
    channel.subscribe((status, problem) => resolve(problem ? problem.message : status));
  });
  return {
    client,
    room,
    received,
    async postToMyself(text) {
      const own = await client.rpc('create_room', { name: `Of ${name}` });
      expect((await client.from('messages').insert({ room_id: own.data, body: text })).error).toBeNull();
    },
  };
}
