// The how-to pages about files, with their blocks as printed.
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { HowToPage } from '../support/documentation/how-to-page.ts';

const picture = async (red: number): Promise<Blob> => {
  const background = { r: red, g: 0, b: 0 };
  const bytes = await sharp({ create: { width: 600, height: 400, channels: 3, background } })
    .png()
    .toBuffer();
  return new Blob([new Uint8Array(bytes)], { type: 'image/png' });
};

describe('docs/how-to/avatars.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/avatars.md');
  });
  afterAll(() => page?.close());

  test('the owner uploads, replaces and removes a picture that everybody sees', async () => {
    const avatars = await page.module('export async function uploadAvatar');
    const [ann, bob] = [await page.signUp('ann'), await page.signUp('bob')];
    const path = await avatars<string>('uploadAvatar', ann.client, await picture(10));
    expect(path).toBe(`${ann.id}/avatar`);
    expect(await avatars('uploadAvatar', ann.client, await picture(200))).toBe(path);
    const shown = await fetch(await avatars<string>('avatarUrl', page.anonymous(), path, 2));
    expect(shown.status).toBe(200);
    const image = sharp(await shown.arrayBuffer());
    expect(await image.metadata()).toMatchObject({ width: 256, height: 256 });
    expect((await image.stats()).channels[0]?.mean).toBeGreaterThan(150);

    const forged = await bob.client.storage.from('avatars').upload(path, await picture(1), { upsert: true });
    expect(forged.error).toMatchObject({ statusCode: '403' });
    const stranger = await page
      .anonymous()
      .storage.from('avatars')
      .upload('x/avatar', await picture(1));
    expect(stranger.error).toMatchObject({ statusCode: '403' });
    const html = new Blob(['<script>alert(1)</script>'], { type: 'text/html' });
    await expect(avatars('uploadAvatar', ann.client, html)).rejects.toMatchObject({ statusCode: '415' });
    const disguised = new Blob(['<script>alert(1)</script>'], { type: 'image/png' });
    await expect(avatars('uploadAvatar', ann.client, disguised)).rejects.toMatchObject({ statusCode: '415' });
    const large = new Blob([new Uint8Array(3_000_000)], { type: 'image/png' });
    await expect(avatars('uploadAvatar', ann.client, large)).rejects.toMatchObject({ statusCode: '413' });

    await avatars('removeAvatar', bob.client, path);
    expect(await page.sh('svc sql')).toContain(path);
    await avatars('removeAvatar', ann.client, path);
    expect(await page.sh('svc sql')).not.toContain(path);
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/private-files.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/private-files.md');
  });
  afterAll(() => page?.close());

  test('readers of the row and holders of a link open the file, and other callers do not', async () => {
    const files = await page.module('export async function addReceipt');
    const [ann, bob, eve] = [await page.signUp('ann'), await page.signUp('bob'), await page.signUp('eve')];
    const receipt = await files<{ id: string; file: string }>('addReceipt', ann.client, await picture(5));
    const open = async (client: unknown): Promise<number> =>
      (await files<Blob>('openReceipt', client, receipt.file)).size;
    expect(await open(ann.client)).toBeGreaterThan(100);
    for (const client of [bob.client, eve.client, page.anonymous()])
      await expect(open(client)).rejects.toThrow();
    await files('setReaders', eve.client, receipt.id, [eve.id]);
    await expect(open(eve.client)).rejects.toThrow();
    await files('setReaders', ann.client, receipt.id, [bob.id]);
    expect(await open(bob.client)).toBeGreaterThan(100);
    await files('setReaders', ann.client, receipt.id, []);
    await expect(open(bob.client)).rejects.toThrow();

    const link = await files<string>('shareLink', ann.client, receipt.file, 60);
    expect((await fetch(link)).status).toBe(200);
    const short = await files<string>('shareLink', ann.client, receipt.file, 1);
    await expect.poll(async () => (await fetch(short)).status).toBe(400);
    await expect(files('shareLink', eve.client, receipt.file, 60)).rejects.toThrow();
    expect(await page.sh('svc sql --as anon')).toMatch(/0 rows/);

    await ann.client.from('receipts').delete().eq('id', receipt.id);
    await expect
      .poll(async () => (await page.admin().storage.from('receipts').list(ann.id)).data)
      .toEqual([]);
    expect(page.unused()).toEqual([]);
  });
});
