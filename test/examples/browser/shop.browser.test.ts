// Uses examples/shop in a browser: a guest becomes a customer, and staff sends an order. Requests that the pages do
// not offer are sent to the server directly.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import type { Page } from 'playwright-core';
import sharp from 'sharp';
import { beforeAll, expect, test } from 'vitest';
import { expectAccessible } from '../../support/browser/browser.ts';
import { runSvc } from '../../support/svc-process.ts';
import { describeExample, type RunningExample } from '../../support/browser/example.ts';

const PASSWORD = 'correct horse battery';

let shop: RunningExample;

describeExample('shop', (running) => {
  beforeAll(() => {
    shop = running();
  });

  test('a guest fills a basket, signs up, orders, and is notified when staff sends the order', async () => {
    const sue = await shop.open('Sue');
    await account(sue, 'sue');
    await sue.getByRole('button', { name: 'Sign out' }).waitFor();
    await appoint('sue@example.com');
    await sue.reload();
    const form = sue.getByRole('form', { name: 'New product' });
    const picture = await sharp({ create: { width: 40, height: 30, channels: 3, background: '#b5651d' } })
      .png()
      .toBuffer();
    for (const [name, description, price, stock] of [
      ['Rye bread', 'Dark and sour', '4.20', '3'],
      ['White bread', 'Baked in the morning', '2.80', '5'],
      ['Tea', 'A pot for two', '3', '1'],
    ] as const) {
      await form.getByLabel('Name').fill(name);
      await form.getByLabel('Description').fill(description);
      await form.getByLabel('Price in euros').fill(price);
      await form.getByLabel('Stock').fill(stock);
      if (name === 'Rye bread')
        await form
          .getByLabel('Picture')
          .setInputFiles({ name: 'rye.png', mimeType: 'image/png', buffer: picture });
      await form.getByRole('button', { name: 'Add' }).click();
      await sue.getByRole('heading', { name }).waitFor();
    }

    // Without an account: looking, searching, a basket.
    const gus = await shop.open('Gus');
    await gus.getByRole('heading', { name: 'Tea' }).waitFor();
    await expect
      .poll(() =>
        gus
          .getByRole('img', { name: 'Rye bread' })
          .evaluate((image) => (image as HTMLImageElement).naturalWidth),
      )
      .toBe(40);
    await gus.getByLabel('Search').fill('bread -rye');
    await gus.getByRole('button', { name: 'Search' }).click();
    await gus.getByRole('heading', { name: 'Tea' }).waitFor({ state: 'hidden' });
    expect(await gus.getByRole('heading', { level: 2, name: /bread|Tea/ }).allTextContents()).toEqual([
      'White bread',
    ]);
    await gus.getByRole('button', { name: 'Put White bread into the basket' }).click();
    await gus.getByText('Together €2.80').waitFor();
    await gus.getByLabel('Amount of White bread').fill('2');
    await gus.getByText('Together €5.60').waitFor();
    expect(await gus.getByRole('button', { name: 'Make an account to order' }).isDisabled()).toBe(true);

    // The basket is kept.
    await account(gus, 'gus');
    await gus.getByRole('button', { name: 'Place the order' }).click();
    await gus.getByText('Thank you. Your order has the number 1.').waitFor();
    await gus.getByText('It is empty.').waitFor();
    await gus.getByText('3 left').waitFor();
    await expectAccessible(gus);

    // Staff sees the order at once, and the customer sees its progress.
    const order = sue.getByRole('listitem', { name: 'Order 1' });
    await order.getByText('2 × White bread').waitFor();
    await expectAccessible(sue);
    await order.getByRole('button', { name: 'It is sent' }).click();
    await gus.getByRole('listitem', { name: 'Order 1' }).getByText('sent').waitFor();

    // A withdrawn product disappears for customers and stays for staff.
    await sue.getByRole('button', { name: 'Stop offering White bread' }).click();
    await sue.getByRole('button', { name: 'Offer White bread again' }).waitFor();
    await gus.getByLabel('Search').fill('white');
    await gus.getByRole('button', { name: 'Search' }).click();
    await gus.getByText('Nothing was found.').waitFor();
    expect(shop.complaints, 'errors in the console of a page').toEqual([]);
  });

  test('a customer cannot read or change data of others, or set a price', async () => {
    const eve = await signIn('eve');
    const all = createClient(shop.svc.url, shop.svc.secretKey, { auth: { persistSession: false } });
    const { data: tea } = await all.from('products').select().eq('name', 'Tea').single<{ id: number }>();
    const id = tea?.id ?? 0;
    expect((await eve.from('orders').select()).data).toEqual([]);
    expect((await eve.from('order_items').select()).data).toEqual([]);
    expect((await eve.from('basket_items').select()).data).toEqual([]);
    expect((await eve.from('staff').select()).error?.code).toBe('42501');
    expect((await eve.from('staff').insert({})).error?.code).toBe('42501');
    expect((await eve.from('products').update({ price: 1 }).eq('id', id).select()).data).toEqual([]);
    expect((await eve.from('products').insert({ name: 'Mine', price: 1 })).error?.code).toBe('42501');
    expect((await eve.from('orders').insert({ total: 0 })).error?.code).toBe('42501');
    expect((await eve.from('order_items').insert({ order_id: 1 })).error?.code).toBe('42501');
    expect((await eve.from('orders').update({ state: 'sent' }).eq('id', 1).select()).data).toEqual([]);
    expect(
      (await eve.storage.from('pictures').upload('mine.png', 'x', { contentType: 'image/png' })).error,
    ).not.toBeNull();
    const { data: gus } = await all.from('orders').select().eq('id', 1).single<{ user_id: string }>();
    const forGus = { product_id: id, user_id: gus?.user_id };
    expect((await eve.from('basket_items').insert(forGus)).error?.code).toBe('42501');
    // The price is that of the table when the order is placed.
    await eve.from('basket_items').insert({ product_id: id }).throwOnError();
    await all.from('products').update({ price: 350 }).eq('id', id).throwOnError();
    expect((await eve.rpc('place_order')).error).toBeNull();
    expect((await eve.from('orders').select('total')).data).toEqual([{ total: 350 }]);
    // The channel of another user is closed as well.
    const state = await new Promise((resolve) =>
      eve
        .channel(`user:${gus?.user_id}`, { config: { private: true } })
        .subscribe((status) => resolve(status)),
    );
    expect(state).toBe('CHANNEL_ERROR');
    await eve.removeAllChannels();
  });

  test('guests cannot order, and 20 concurrent orders do not exceed the stock', async () => {
    const all = createClient(shop.svc.url, shop.svc.secretKey, { auth: { persistSession: false } });
    const { data: made } = await all
      .from('products')
      .insert([
        { name: 'Plum cake', price: 500, stock: 7 },
        { name: 'Apple cake', price: 400, stock: 100 },
      ])
      .select('id, name')
      .throwOnError();
    const guest = createClient(shop.svc.url, shop.svc.publishableKey, { auth: { persistSession: false } });
    await guest.auth.signInAnonymously();
    await guest.from('basket_items').insert({ product_id: made?.[0]?.id }).throwOnError();
    expect((await guest.rpc('place_order')).error?.message).toBe('Make an account first.');

    const customers = await Promise.all(Array.from({ length: 20 }, (_, index) => signIn(`customer${index}`)));
    await Promise.all(
      customers.map(async (client, index) => {
        // Every second customer uses the reverse order, which must not cause a deadlock.
        const items = made.map(({ id }) => ({ product_id: id }));
        await client
          .from('basket_items')
          .insert(index % 2 === 0 ? items : items.toReversed())
          .throwOnError();
      }),
    );
    // Each customer clicks twice.
    const replies = await Promise.all(
      customers.flatMap((client) => [client.rpc('place_order'), client.rpc('place_order')]),
    );
    const messages = replies.map(({ error }) => error?.message ?? 'placed');
    const counted = (message: string): number => messages.filter((text) => text === message).length;
    expect(counted('placed')).toBe(7);
    expect(counted('The basket is empty.')).toBe(7);
    expect(counted('There is not enough left of: Plum cake.')).toBe(26);
    const { data: left } = await all.from('products').select('stock').like('name', '%cake').order('name');
    expect(left).toEqual([{ stock: 93 }, { stock: 0 }]);
  });
});

async function account(page: Page, name: string): Promise<void> {
  const form = page.getByRole('form', { name: 'Account' });
  await form.getByLabel('Email').fill(`${name}@example.com`);
  await form.getByLabel('Password').fill(PASSWORD);
  await form.getByRole('button', { name: 'Make an account' }).click();
}

/** Makes a user staff with the command of docs/shop.md. */
async function appoint(email: string): Promise<void> {
  const page = readFileSync(join(shop.folder, '../../docs/shop.md'), 'utf8');
  const [, statement = ''] = /^npx svc sql --config \S+ --write "(.+)"$/m.exec(page) ?? [];
  const done = await runSvc(
    ['sql', '--config', shop.config, '--write', '--yes', statement.replace('you@example.com', email)],
    { env: { SVC_DATABASE_URL: shop.databaseUrl } },
  );
  expect([done.code, done.output]).toEqual([0, expect.stringContaining('1')]);
}

async function signIn(name: string): Promise<SupabaseClient> {
  const client = createClient(shop.svc.url, shop.svc.publishableKey, { auth: { persistSession: false } });
  const credentials = { email: `${name}@example.com`, password: PASSWORD };
  expect((await client.auth.signUp(credentials)).error).toBeNull();
  return client;
}
