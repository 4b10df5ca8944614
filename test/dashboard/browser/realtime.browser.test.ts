// Realtime page: open channels, and one channel as different callers.
import { readFileSync, writeFileSync } from 'node:fs';
import { createClient, type RealtimeChannel, type SupabaseClient } from '@supabase/supabase-js';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const POLICIES = `
realtime:
  rls:
    - { operations: [select], to: [authenticated], using: realtime.topic() = 'staff' }
`;

const world = dashboardWorld({
  prepare({ config }) {
    const text = readFileSync(config, 'utf8');
    const published = text.replace('  lists:\n', '  lists:\n    realtime: true\n');
    writeFileSync(config, `${published}${POLICIES}`);
  },
});

const clients: SupabaseClient[] = [];

async function join(topic: string, key: string): Promise<RealtimeChannel> {
  const client = createClient(world.svc.url, world.svc.publishableKey, { auth: { persistSession: false } });
  clients.push(client);
  const channel = client
    .channel(topic, { config: { presence: { key } } })
    .on('presence', { event: 'sync' }, () => {})
    .on('postgres_changes', { event: '*', schema: 'public', table: 'lists' }, () => {});
  await new Promise<void>((resolve) =>
    channel.subscribe((status: string) => {
      if (status === 'SUBSCRIBED') resolve();
    }),
  );
  await channel.track({ at: 'the door' });
  return channel;
}

const lines = async (page: Page): Promise<string[]> =>
  await page
    .getByRole('region', { name: 'Messages' })
    .getByRole('button', { expanded: false })
    .allTextContents();

async function as(page: Page, name: string | RegExp): Promise<void> {
  await page.getByRole('combobox', { name: 'Caller' }).click();
  await page.getByRole('option', { name }).click();
}

describe.skipIf(world.skipped)('realtime', () => {
  let ada: string;
  let eve: string;
  let room: RealtimeChannel;

  beforeAll(async () => {
    ada = await world.addUser('ada@example.com');
    eve = await world.addUser('eve@example.com');
    room = await join('room:1', 'ann');
    await join('room:1', 'ben');
    await join('room:2', 'cleo');
  });

  afterAll(async () => {
    for (const client of clients) await client.realtime.disconnect();
  });

  test('lists the open channels with their members and subscriptions', async () => {
    const page = await world.open('/realtime');
    const open = page.getByRole('region', { name: 'Open channels' });
    const first = open.getByRole('listitem').filter({ hasText: 'room:1' });
    await first.getByText('2 members').waitFor();
    for (const text of ['ann', 'ben', 'lists']) await first.getByText(text, { exact: true }).waitFor();
    await page.getByRole('region', { name: 'Sockets' }).getByText('3', { exact: true }).waitFor();
    await page.getByRole('region', { name: 'Table changes' }).getByText('live').waitFor();
    await open.getByLabel('Search channels').fill('room:2');
    await expect.poll(() => open.getByRole('listitem').count()).toBe(1);
    await expectAccessible(page);

    await room.send({ type: 'broadcast', event: 'x', payload: {} });
    await open.getByLabel('Search channels').fill('');
    await first.getByText(/^[\d.]+\/s$/).waitFor();
  });

  test('a caller receives the messages of a channel and sends to it', async () => {
    const received: unknown[] = [];
    room.on('broadcast', { event: '*' }, ({ payload }) => received.push(payload));
    const page = await world.open('/realtime');
    await page.getByRole('button', { name: 'room:1' }).click();
    await as(page, 'ada@example.com');
    await page.getByRole('combobox', { name: 'Tables' }).click();
    await page.getByRole('option', { name: 'lists' }).click();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Join', exact: true }).click();
    await page.getByText('joined', { exact: true }).first().waitFor();
    await expect.poll(() => lines(page)).toContainEqual(expect.stringMatching(/present.*ann, ben/));

    await world.rest('POST', 'lists', { owner_id: ada, title: 'Of Ada' });
    await world.rest('POST', 'lists', { owner_id: eve, title: 'Of Eve' });
    await world.rest('POST', 'lists', { owner_id: ada, title: 'Also of Ada' });
    await expect.poll(() => lines(page)).toContainEqual(expect.stringContaining('Also of Ada'));
    expect((await lines(page)).join()).toContain('Of Ada');
    expect((await lines(page)).join()).not.toContain('Of Eve');

    await page.getByLabel('Event').fill('greeting');
    await page.getByLabel('Payload').fill('{ "text": "from the page" }');
    await page.getByRole('button', { name: 'Send' }).click();
    await expect.poll(() => received).toEqual([{ text: 'from the page' }]);
    await expect.poll(() => lines(page)).toContainEqual(expect.stringContaining('from the page'));

    await page.getByRole('button', { name: /greeting/ }).click();
    await page.locator('pre').getByText('"text": "from the page"').waitFor();
    await expectAccessible(page);

    const members = page.getByRole('listitem').filter({ hasText: 'room:1' });
    await members.getByText('3 members').waitFor();
    await page.getByRole('button', { name: 'Leave' }).click();
    await members.getByText('2 members').waitFor();
  });

  test('a private channel rejects one caller with a reason, and another one may receive but not send', async () => {
    const page = await world.open('/realtime?topic=staff&private=yes&caller=anon', {
      expected: [/status of 403/],
    });
    await page.getByRole('button', { name: 'Join', exact: true }).click();
    await page.getByText('refused', { exact: true }).first().waitFor();
    await page.getByText(/Unauthorized: You do not have permissions/).waitFor();
    await as(page, 'eve@example.com');
    await page.getByRole('button', { name: 'Join', exact: true }).click();
    await page.getByText('joined', { exact: true }).first().waitFor();
    await page.getByRole('button', { name: 'Send' }).click();
    await page
      .getByRole('alert')
      .getByText(/permissions to write/)
      .waitFor();
  });

  test.each(['light', 'dark'] as const)('the page is readable on a phone, in %s', async (colorScheme) => {
    const page = await world.open('/realtime?topic=room:1', { colorScheme });
    await page.getByRole('button', { name: 'Join', exact: true }).click();
    await page.getByText('joined', { exact: true }).first().waitFor();
    await room.send({ type: 'broadcast', event: 'x', payload: { text: 'a long text '.repeat(20) } });
    await page.getByRole('button', { name: /a long text/ }).waitFor();
    await expectAccessible(page);
    await page.setViewportSize({ width: 375, height: 740 });
    await expect
      .poll(() => page.evaluate(() => document.documentElement.scrollWidth))
      .toBeLessThanOrEqual(375);
    await expectAccessible(page);
  });
});
