import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { afterAll, expect, test } from 'vitest';
import { pack, unpack, type ArchiveEntry } from './archive.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-archive-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function bytes(entries: readonly ArchiveEntry[]): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of pack(entries)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const text = (path: string, content: string): ArchiveEntry => ({ path, content: Buffer.from(content) });

test('pack and unpack round-trip: long paths, binary, empty, larger than a chunk', async () => {
  const long = `${'deep/'.repeat(40)}${'x'.repeat(120)}.js`;
  const large = Buffer.alloc(300_001, 7);
  writeFileSync(join(folder, 'large'), large);
  const entries: ArchiveEntry[] = [
    text('a.js', 'a'),
    text('empty', ''),
    text(long, 'long'),
    text('ünïcode/ß.txt', 'ü'),
    { path: 'large', content: { file: join(folder, 'large'), size: large.length } },
  ];
  const target = mkdtempSync(join(folder, 'out-'));
  const paths = await unpack(Readable.from([await bytes(entries)]), target);
  expect([...paths].sort((a, b) => a.localeCompare(b))).toEqual(
    entries.map(({ path }) => path).sort((a, b) => a.localeCompare(b)),
  );
  expect(readFileSync(join(target, long), 'utf8')).toBe('long');
  expect(readFileSync(join(target, 'large')).equals(large)).toBe(true);
  expect(readFileSync(join(target, 'ünïcode/ß.txt'), 'utf8')).toBe('ü');
});

test('archives do not depend on the order of entries or the time', async () => {
  const archive = await bytes([text('b', '2'), text('a', '1')]);
  const two = await bytes([text('a', '1'), text('b', '2')]);
  const digest = (data: Buffer): string => createHash('sha256').update(data).digest('hex');
  expect(digest(archive)).toBe(digest(two));
  expect(archive[9]).toBe(255);
});

test.each(['../up', 'a/../../up', '/etc/x', 'C:/x', 'a\\b', 'dir/'])(
  'the path %s is refused',
  async (path) => {
    const target = mkdtempSync(join(folder, 'out-'));
    const archive = await bytes([text(path, 'x')]);
    await expect(unpack(Readable.from([archive]), target)).rejects.toMatchObject({ code: 'bad_archive' });
  },
);

test('a repeated name does not overwrite the first entry', async () => {
  const target = mkdtempSync(join(folder, 'out-'));
  const archive = await bytes([text('a', '1'), text('a', '2')]);
  await expect(unpack(Readable.from([archive]), target)).rejects.toThrow();
});

test.each([
  ['no gzip', Buffer.from('hello, this is not an archive')],
  ['nothing', Buffer.alloc(0)],
  ['gzip of nonsense', gzipSync(Buffer.alloc(2048, 'x'))],
])('%s is refused or empty, and never an internal error', async (_, data) => {
  const target = mkdtempSync(join(folder, 'out-'));
  const result = await unpack(Readable.from([data]), target).catch((error: unknown) => error);
  expect(Array.isArray(result) || (result as { code?: string }).code === 'bad_archive').toBe(true);
});

test('a truncated archive is refused', async () => {
  const archive = await bytes([{ path: 'a', content: Buffer.alloc(50_000, 'abc') }]);
  for (const cut of [10, 100, archive.length - 20]) {
    const target = mkdtempSync(join(folder, 'out-'));
    await expect(unpack(Readable.from([archive.subarray(0, cut)]), target)).rejects.toMatchObject({
      code: 'bad_archive',
    });
  }
});

test('links and devices are refused', async () => {
  const header = Buffer.alloc(512);
  header.write('link', 0);
  header.write('0000644\0', 100);
  header.write('00000000000\0', 124);
  header.write('        ', 148);
  header.write('2', 156);
  header.write('/etc/passwd', 157);
  let sum = 0;
  for (const byte of header) sum += byte;
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  const target = mkdtempSync(join(folder, 'out-'));
  const archive = gzipSync(Buffer.concat([header, Buffer.alloc(1024)]));
  await expect(unpack(Readable.from([archive]), target)).rejects.toThrow(/is not a regular file/);
});

test('an archive above the limits is refused', async () => {
  const archive = await bytes([text('a', 'x'.repeat(2000)), text('b', 'y')]);
  const target = mkdtempSync(join(folder, 'out-'));
  await expect(unpack(Readable.from([archive]), target, { maxBytes: 1000, maxEntries: 9 })).rejects.toThrow();
  const two = mkdtempSync(join(folder, 'out-'));
  await expect(unpack(Readable.from([archive]), two, { maxBytes: 9999, maxEntries: 1 })).rejects.toThrow();
});
