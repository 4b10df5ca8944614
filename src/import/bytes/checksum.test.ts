// The tags that object stores give to files, of one part and of several.
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { Checksum } from './checksum.ts';

const MIB = 1024 * 1024;
const CONTENT = Buffer.from(
  Array.from({ length: 12 * MIB }, (_, index) => (index * 31 + (index >> 12)) & 255),
);
const md5 = (bytes: Buffer) => createHash('md5').update(bytes).digest();

/** Returns the tag that a store computes for an upload in parts of `size` bytes. */
function makeTag(content: Buffer, size: number): string {
  const parts: Buffer[] = [];
  for (let at = 0; at < content.length; at += size) parts.push(md5(content.subarray(at, at + size)));
  return `"${md5(Buffer.concat(parts)).toString('hex')}-${parts.length}"`;
}

function computeVerdict(tag: unknown, content: Buffer, chunk = 700_001): string {
  const checksum = new Checksum(tag, CONTENT.length);
  for (let at = 0; at < content.length; at += chunk) checksum.update(content.subarray(at, at + chunk));
  return checksum.finish().verdict;
}

describe('parts', () => {
  test.each([5, 6, 8, 10, 16])('of %d MiB are found out, and damage is not taken for proven', (size) => {
    const tag = makeTag(CONTENT, size * MIB);
    const damaged = Buffer.from(CONTENT);
    damaged.writeUInt8(damaged.readUInt8(7 * MIB) ^ 1, 7 * MIB);
    expect(computeVerdict(tag, CONTENT)).toBe('equal');
    expect(computeVerdict(tag, damaged)).toBe('unproven');
  });

  test('of an unusual size prove nothing', () => {
    expect(computeVerdict(makeTag(CONTENT, 5_100_000), CONTENT)).toBe('unproven');
  });
});

test('a tag of the whole proves it or refutes it; one of another form, or none, does neither', () => {
  const tag = `"${md5(CONTENT).toString('hex')}"`;
  expect(computeVerdict(tag, CONTENT)).toBe('equal');
  expect(computeVerdict(tag, CONTENT.subarray(1))).toBe('different');
  expect(computeVerdict('W/"1-2"', CONTENT)).toBe('unproven');
  expect(computeVerdict(undefined, CONTENT)).toBe('unproven');
});
