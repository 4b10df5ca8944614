// Text files in UTF-8. Some editors and spreadsheets write a byte order mark in front, which is not part of the text.
import { readFileSync } from 'node:fs';

export function readTextFile(path: string): string {
  return decodeText(readFileSync(path));
}

export function decodeText(bytes: Buffer): string {
  return withoutByteOrderMark(bytes).toString('utf8');
}

export function withoutByteOrderMark(bytes: Buffer): Buffer {
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return hasMark ? bytes.subarray(3) : bytes;
}
