// The how-to pages about functions and realtime, with their blocks as printed.
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { HowToPage } from '../support/documentation/how-to-page.ts';

describe('docs/how-to/payment-webhook.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/payment-webhook.md');
  });
  afterAll(() => page?.close());

  const deliver = async (body: string, signature?: string): Promise<[number, string]> => {
    const response = await fetch(`${page.world.url}/functions/v1/payment`, {
      method: 'POST',
      body,
      headers: signature === undefined ? {} : { 'x-signature': signature },
    });
    return [response.status, await response.text()];
  };
  const sign = (body: string): string => createHmac('sha256', 'whsec_test').update(body).digest('hex');
  const paid = async (): Promise<unknown> =>
    (await page.admin().from('orders').select('id').eq('status', 'paid').order('id')).data;

  test('a delivery changes the order once, and only with a valid signature', async () => {
    const body = '{"id": "evt_0", "order": 1}';
    expect(await deliver(body, sign(body)), 'without a secret').toMatchObject([401, expect.anything()]);
    expect(await deliver(body), 'without a secret and a signature').toMatchObject([401, expect.anything()]);
    await page.sh('svc sql --write --yes "insert into webhook_secrets');
    expect(await page.sh("svc sql --write --yes 'insert into orders")).toMatch(/\{"changed":true\}/);
    expect(await page.sh("svc sql --write --yes 'insert into orders")).toMatch(/\{"changed":false\}/);
    expect(await paid()).toEqual([{ id: 1 }]);

    await page.admin().from('orders').insert({ id: 2 });
    const second = '{"id": "evt_2", "order": 2}';
    for (const signature of [undefined, '', 'x', sign(body), sign(`${second} `), sign(second).toUpperCase()])
      expect((await deliver(second, signature))[0], signature).toBe(401);
    expect(await paid()).toEqual([{ id: 1 }]);
    expect(await deliver(second, sign(second))).toEqual([200, '{"changed":true}']);
    expect(await deliver(second, sign(second))).toEqual([200, '{"changed":false}']);
    const secrets = await page.anonymous().from('webhook_secrets').select();
    expect(secrets.error?.code).toBe('42501');
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/call-a-service.md', () => {
  let page: HowToPage;
  let service: Server;
  const keys: Array<string | undefined> = [];
  beforeAll(async () => {
    service = createServer((request, response) => {
      keys.push(request.headers.authorization);
      response.setHeader('content-type', 'text/plain');
      if (request.headers.authorization !== 'Bearer a-planted-key') response.statusCode = 403;
      request.resume().on('end', () => response.end('a summary'));
    }).listen(0, '127.0.0.1');
    await once(service, 'listening');
    page = await HowToPage.open('docs/how-to/call-a-service.md', {
      env: {
        SVC_ENV_MODEL_URL: `http://127.0.0.1:${(service.address() as AddressInfo).port}`,
        SVC_ENV_MODEL_KEY: 'a-planted-key',
      },
    });
  });
  afterAll(async () => {
    await page?.close();
    service?.close();
  });

  test('a signed-in user gets the response of the service until the quota is used up', async () => {
    expect(await page.sh('curl -s -o')).toBe('401\n');
    expect(keys).toEqual([]);
    const call = await page.module('export async function summarize');
    const ann = await page.signUp('ann');
    expect(await call('summarize', ann.client, 'a long text')).toBe('a summary');
    expect(keys).toEqual(['Bearer a-planted-key']);
    await page.world.owner.query(sql`update usage set calls = 20`);
    await expect(call('summarize', ann.client, 'again')).rejects.toMatchObject({
      context: expect.objectContaining({ status: 429 }),
    });
    expect(keys).toHaveLength(1);
    expect((await ann.client.from('usage').update({ calls: 0 }).gt('calls', 0)).error?.code).toBe('42501');
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/live-list.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/live-list.md');
  });
  afterAll(() => page?.close());

  test('rows that are inserted during the load appear once, and removed rows disappear', async () => {
    type Row = { id: number; title: string };
    const { owner } = page.world;
    await owner.query(sql`insert into tasks select n, 'old' from generate_series(1, 100) n`);
    const live = await page.module('export async function liveList');
    const client = page.anonymous();
    let shown: Row[] = [];
    let isShown = false;
    const show = (rows: Row[]): void => {
      shown = rows;
      isShown = true;
    };
    await live<unknown>('liveList', client, show);
    for (let id = 101; id <= 300; id++)
      await owner.query(sql`insert into tasks (id, title) values (${id}, 'new')`);
    await expect.poll(() => isShown && shown.length).toBe(300);
    expect(new Set(shown.map(({ id }) => id)).size).toBe(300);
    await owner.query(sql`delete from tasks where id <= 100`);
    await owner.query(sql`update tasks set title = 'changed' where id = 101`);
    await page.sh('svc sql --write');
    await expect.poll(() => shown.map(({ id }) => id).at(-1)).toBe(1000);
    await expect.poll(() => shown.length).toBe(201);
    expect(shown[0]).toEqual({ id: 101, title: 'changed' });
    await client.removeAllChannels();
    expect(page.unused()).toEqual([]);
  });
});
