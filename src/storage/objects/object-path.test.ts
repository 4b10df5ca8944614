import { describe, expect, test } from 'vitest';
import { isBucketName, isObjectPath, readAddress } from './object-path.ts';

test.each([
  ['a', true],
  ['a/b/c.txt', true],
  ["A-Za_09!.*'() &$@=;:+,?", true],
  ['a//b', true],
  ['.hidden', true],
  ['a/...', true],
  ['x'.repeat(1024), true],
  ['', false],
  ['/a', false],
  ['a/', false],
  ['.', false],
  ['..', false],
  ['a/../b', false],
  ['a/./b', false],
  ['a\\b', false],
  ['a%b', false],
  ['a#b', false],
  ['a~b', false],
  ['é', false],
  ['a\nb', false],
  ['a\0b', false],
  ['x'.repeat(1025), false],
])('path %j: %s', (name, allowed) => {
  expect(isObjectPath(name)).toBe(allowed);
});

test.each([
  ['avatars', true],
  ['a b', true],
  [' a', false],
  ['a ', false],
  ['a/b', false],
  ['sign', false],
  ['list-v2', false],
  ['..', false],
  ['', false],
  ['x'.repeat(101), false],
])('bucket %j: %s', (name, allowed) => {
  expect(isBucketName(name)).toBe(allowed);
});

describe('the address in a URL path', () => {
  test.each([
    ['b/a%20b', { bucket: 'b', name: 'a b' }],
    ['b/a+b', { bucket: 'b', name: 'a+b' }],
    ['b/a%2Fb/c', { bucket: 'b', name: 'a/b/c' }],
    ['b/a%252e', { bucket: 'b', name: 'a%2e' }],
    ['b', { bucket: 'b', name: '' }],
  ])('%s', (path, address) => {
    expect(readAddress(path)).toEqual(address);
  });
  test.each(['b/%', 'b/%zz', 'b/%e9'])('%s is malformed', (path) => {
    expect(() => readAddress(path)).toThrow('Invalid key');
  });
  test.each(['', '%', '%ff/a'])('%s has no bucket', (path) => {
    expect(() => readAddress(path)).toThrow('Bucket name invalid');
  });
});
