// The tags that object stores give to files, of one part and of several.
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { Checksum } from './checksum.ts';

const MIB = 1024 * 1024;
const CONTENT = Buffer.from(
  Array.from({ length: 12 * MIB }, (_, index) => (index * 31 + (index >> 12)) & 255),
);
const md5 = (bytes: Buffer) => createHash('md5').update(bytes).digest();

/** As a store makes it of parts of that size. */
function tagOf(content: Buffer, size: number): string {
  const parts: Buffer[] = [];
  for (let at = 0; at < content.length; at += size) parts.push(md5(content.subarray(at, at + size)));
  return `"${md5(Buffer.concat(parts)).toString('hex')}-${parts.length}"`;
}

function verdictOf(tag: unknown, content: Buffer, chunk = 700_001): string {
  const checksum = new Checksum(tag, CONTENT.length);
  for (let at = 0; at < content.length; at += chunk) checksum.update(content.subarray(at, at + chunk));
  return checksum.finish().verdict;
}

describe('parts', () => {
  test.each([5, 6, 8, 10, 16])('of %d MiB are found out, and damage is not taken for proven', (size) => {
    const tag = tagOf(CONTENT, size * MIB);
    const damaged = Buffer.from(CONTENT);
    damaged.writeUInt8(damaged.readUInt8(7 * MIB) ^ 1, 7 * MIB);
    expect(verdictOf(tag, CONTENT)).toBe('equal');
    expect(verdictOf(tag, damaged)).toBe('unproven');
  });

  test('of a size that nobody uses prove nothing', () => {
    expect(verdictOf(tagOf(CONTENT, 5_100_000), CONTENT)).toBe('unproven');
  });
});

test('a tag of the whole proves it or refutes it; one of another form, or none, does neither', () => {
  const tag = `"${md5(CONTENT).toString('hex')}"`;
  expect(verdictOf(tag, CONTENT)).toBe('equal');
  expect(verdictOf(tag, CONTENT.subarray(1))).toBe('different');
  expect(verdictOf('W/"1-2"', CONTENT)).toBe('unproven');
  expect(verdictOf(undefined, CONTENT)).toBe('unproven');
});
