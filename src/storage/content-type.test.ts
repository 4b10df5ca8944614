import { expect, test } from 'vitest';
import { checkSniffedType, essence, isAllowed, servedType } from './content-type.ts';

test.each([
  ['text/plain', 'text/plain'],
  ['Text/Plain; charset=utf-8', 'text/plain'],
  ['image/svg+xml', 'image/svg+xml'],
  ['nonsense', undefined],
  ['a/b/c', undefined],
  ['/x', undefined],
  ['text/plain\r\nx: y', undefined],
  ['tëxt/plain', undefined],
  ['', undefined],
])('%j is %s', (header, expected) => {
  expect(essence(header)).toBe(expected);
});

test.each([
  ['image/png', [], true],
  ['image/png', ['image/*'], true],
  ['image/png', ['IMAGE/PNG'], true],
  ['image/png', ['image/png; q=1'], true],
  ['image/png', ['*/*'], true],
  ['image/png', ['*'], true],
  ['image/png', ['image/jpeg', 'text/*'], false],
  ['imagex/png', ['image/*'], false],
  ['text/plain', ['text'], false],
])('%s in %j: %s', (type, allowed, expected) => {
  expect(isAllowed(type, allowed)).toBe(expected);
});

const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
test.each([
  ['a picture', PNG, 'image/png', ['image/*'], true],
  ['another picture than declared, also allowed', PNG, 'image/jpeg', ['image/*'], true],
  ['a page', Buffer.from('  <!DOCTYPE HTML>'), 'image/png', ['image/*'], false],
  ['a page where text is allowed', Buffer.from('<html>'), 'text/plain', ['text/plain'], false],
  [
    'a drawing declared as one',
    Buffer.from('<?xml version="1.0"?><svg>'),
    'image/svg+xml',
    ['image/svg+xml'],
    true,
  ],
  ['a drawing in disguise', Buffer.from('<!-- x --><svg>'), 'image/png', ['image/png'], false],
  ['no signature', Buffer.from('hello'), 'text/csv', ['text/csv'], true],
  ['nothing', Buffer.alloc(0), 'image/png', ['image/*'], true],
  ['anything without a list', Buffer.from('<html>'), 'image/png', [], true],
])('%s', async (_what, head, declared, allowed, passes) => {
  const outcome = await checkSniffedType(head, declared, allowed).then(
    () => true,
    () => false,
  );
  expect(outcome).toBe(passes);
});

test.each([
  ['text/html', 'text/plain', true],
  ['application/xhtml+xml', 'text/plain', true],
  ['image/svg+xml', 'image/svg+xml', true],
  ['application/pdf', 'application/pdf', true],
  ['text/javascript', 'text/javascript', true],
  ['image/png', 'image/png', false],
  ['text/plain;charset=UTF-8', 'text/plain;charset=UTF-8', false],
  ['garbage', 'application/octet-stream', true],
])('%s is served as %s, in a sandbox: %s', (stored, contentType, sandboxed) => {
  const served = servedType(stored);
  expect([served.contentType, served.policy !== undefined]).toEqual([contentType, sandboxed]);
});
