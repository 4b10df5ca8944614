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

test.each([
  ['image/jpg', ['image/jpeg']],
  ['image/jpeg', ['image/jpg']],
  ['image/pjpeg', ['image/jpeg']],
  ['audio/mp3', ['audio/mpeg']],
  ['audio/x-m4a', ['audio/mp4']],
  ['audio/x-wav', ['audio/wav']],
  ['application/x-zip-compressed', ['application/zip']],
])('%s is one of %j', (type, allowed) => {
  expect(isAllowed(type, allowed)).toBe(true);
});

const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
const WEBM = Buffer.from('1a45dfa39f4286810142f7810142f2810442f381084282847765626d', 'hex');
const MP4 = Buffer.from('000000206674797069736f6d0000020069736f6d69736f32617663316d703431', 'hex');
const OGG = Buffer.from('4f67675300020000000000000000', 'hex');
const wide = (text: string): Buffer => Buffer.from(`\ufeff${text}`, 'utf16le');
test.each([
  ['a picture', PNG, 'image/png', ['image/*'], true],
  ['another picture than declared', PNG, 'image/jpeg', ['image/jpeg'], true],
  ['what a browser records as sound', WEBM, 'audio/webm', ['audio/webm'], true],
  ['with its codec', WEBM, 'audio/webm;codecs=opus', ['audio/webm'], true],
  ['what another browser records as sound', MP4, 'audio/mp4', ['audio/mp4'], true],
  ['sound in Ogg', OGG, 'audio/ogg', ['audio/*'], true],
  ['film in Ogg', OGG, 'video/ogg', ['video/ogg'], true],
  ['a program, which no browser runs', Buffer.from('7f454c460201', 'hex'), 'image/png', ['image/*'], true],
  ['a page', Buffer.from('  <!DOCTYPE HTML>'), 'image/png', ['image/*'], false],
  [
    'a page that begins anyhow',
    Buffer.from('\ufeff\n<marquee onstart=x>'),
    'audio/webm',
    ['audio/webm'],
    false,
  ],
  ['a page in UTF-16', wide('<html>'), 'image/png', ['image/png'], false],
  ['a PDF', Buffer.from('%PDF-1.7'), 'image/gif', ['image/gif'], false],
  ['the source of a page as text', Buffer.from('<html>'), 'text/plain', ['text/plain'], true],
  ['a page declared as one', Buffer.from('<html>'), 'text/html', ['text/html'], true],
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
])('%s', (_what, head, declared, allowed, passes) => {
  const check = (): void => checkSniffedType(head, declared, allowed);
  if (passes) expect(check).not.toThrow();
  else expect(check).toThrow(/is not supported/);
});

test.each([
  ['text/html', 'text/plain', true],
  ['application/xhtml+xml', 'text/plain', true],
  ['image/svg+xml', 'image/svg+xml', true],
  ['application/pdf', 'application/pdf', true],
  ['text/javascript', 'text/javascript', true],
  ['image/png', 'image/png', false],
  ['image/jpg', 'image/jpg', false],
  ['audio/webm;codecs=opus', 'audio/webm;codecs=opus', false],
  ['text/xsl', 'text/xsl', true],
  ['TEXT/XSL;charset=x', 'TEXT/XSL;charset=x', true],
  ['text/rdf', 'text/rdf', true],
  ['text/mathml', 'text/mathml', true],
  ['image/x+xml', 'image/x+xml', true],
  ['image/png; a=b, text/xsl', 'image/png; a=b, text/xsl', true],
  ['image/png; a="b, text/xsl"', 'image/png; a="b, text/xsl"', true],
  ['image/png; a=b, text/html', 'text/plain', true],
  ['multipart/x-mixed-replace; boundary=x', 'application/octet-stream', true],
  ['message/rfc822', 'application/octet-stream', true],
  ['application/octet-stream', 'application/octet-stream', true],
  ['text/plain;charset=UTF-8', 'text/plain;charset=UTF-8', false],
  ['text/plain ; charset="utf-8"', 'text/plain ; charset="utf-8"', false],
  ['garbage', 'application/octet-stream', true],
])('%s is served as %s, in a sandbox: %s', (stored, contentType, sandboxed) => {
  const served = servedType(stored);
  expect([served.contentType, served.policy !== undefined]).toEqual([contentType, sandboxed]);
});
