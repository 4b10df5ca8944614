// Texts that make some parsers accept another origin than those of an allow-list.
import { describe, expect, test } from 'vitest';
import { chooseTarget, isAllowed, withFragment, withQuery } from '../../../src/auth/http/redirect.ts';

const LIST = ['https://app.x', 'http://localhost:3000', 'myapp://callback'];
const OWN = 'https://api.x/auth/v1';

describe('allowed', () => {
  test.each([
    'https://app.x',
    'https://app.x/a?b=1',
    'https://app.x:443/',
    'https://APP.X/',
    'https://app.x/#frag',
    'https://app.x?next=https://evil.com',
    'http://localhost:3000/deep/link?sb_flow_id=1',
    'myapp://callback',
    'myapp://callback/after?x=1',
    'https://api.x/anything',
  ])('%s', (target) => expect(isAllowed(target, LIST, OWN)).toBe(true));
});

describe('refused', () => {
  test.each([
    'https://app.x:8443/',
    'http://app.x/',
    'http://127.0.0.1:3000',
    'http://localhost:3001',
    'https://app.x.evil.com/',
    'https://evilapp.x/',
    'https://sub.app.x/',
    'https://app.x@evil.com/',
    'https://app.x:pass@evil.com/',
    'https://user@app.x/',
    'https://evil.com/#https://app.x',
    'https://evil.com/?https://app.x',
    'https://evil.com/https://app.x',
    'https://evil.com\\@app.x/',
    'https://app.x\\@evil.com',
    'https://app.x\\.evil.com',
    '//app.x/',
    '///app.x',
    '/relative',
    'relative',
    '',
    ' https://app.x',
    'https://app.x ',
    'https://app\t.x/',
    'https://app.x\n.evil.com',
    'https://app.x\r\nset-cookie: a=1',
    'https://app.x\0.evil.com',
    'https:app.x',
    'https:/app.x',
    'https:\\\\app.x',
    'https://app.x%2eevil.com',
    'https://app.x%00.evil.com',
    'https://app%E3%80%82x.evil.com',
    'https://аpp.x',
    'https://app.x.',
    'https://0x7f.1/',
    'javascript:alert(1)//https://app.x',
    'javascript://app.x/%0aalert(1)',
    'data:text/html,<script>1</script>',
    'vbscript:x',
    'file:///etc/passwd',
    'blob:https://app.x/uuid',
    'about:blank',
    'view-source:https://app.x',
    'myapp://other',
    'myapp:callback',
    'MYAPP2://callback',
    'ftp://app.x/',
    'ws://app.x/',
    'null',
  ])('%j', (target) => {
    expect(isAllowed(target, LIST, OWN)).toBe(false);
    expect(chooseTarget(target, { redirectUrls: LIST }, OWN)).toBe('https://app.x');
  });

  test('an empty list allows nothing but our own origin', () => {
    expect(chooseTarget('https://evil.com', { redirectUrls: [] }, OWN)).toBeUndefined();
    expect(chooseTarget('https://api.x/after', { redirectUrls: [] }, OWN)).toBe('https://api.x/after');
  });
});

describe('our own origin, where others put content', () => {
  const path = '/storage/v1/object/public/any/page';
  test.each([
    path,
    '/functions/v1/page',
    '/storage',
    '/storage/',
    '/storage/v1/render/image/public/any/page',
    '/storage/v1/object/sign/any/page?token=x',
    '/%73torage/v1/object/public/any/page',
    '/%2573torage/v1/object/public/any/page',
    '/x/../storage/v1/object/public/any/page',
    '/x/%2e%2e/storage/v1/object/public/any/page',
    '//storage/v1/object/public/any/page',
    '/./storage/v1/object/public/any/page',
    '/Storage/v1/object/public/any/page',
    '/storage%2Fv1/object/public/any/page',
    '/%2Fstorage/v1/object/public/any/page',
    '/%5Cstorage/v1/object/public/any/page',
    '/base/storage/v1/object/public/any/page',
  ])('%s', (where) => {
    for (const list of [LIST, [...LIST, 'https://api.x'], ['https://app.x', 'https://api.x/storage/v1']]) {
      expect(isAllowed(`https://api.x${where}`, list, OWN)).toBe(false);
      expect(chooseTarget(`https://api.x${where}`, { redirectUrls: list }, OWN)).toBe('https://app.x');
    }
  });

  test.each(['localhost', '127.0.0.1', '127.1.2.3', '[::1]', 'LOCALHOST', 'api.localhost'])('%s', (host) => {
    const list = ['http://localhost:3000', `http://${host}:8080`];
    expect(isAllowed(`http://${host}:8080${path}`, list, 'http://localhost:8080/auth/v1')).toBe(false);
    expect(isAllowed(`http://${host}:8080/after`, list, 'http://localhost:8080/auth/v1')).toBe(true);
  });

  test.each([
    'https://api.x/after',
    'https://api.x/docs/functions',
    'https://app.x/storage/v1',
    'https://app.x/functions',
  ])('still allowed: %s', (target) => expect(isAllowed(target, LIST, OWN)).toBe(true));
});

test('what is appended cannot break out of its place', () => {
  expect(withFragment('https://app.x/a#old', { error: 'a b&c=d#e' })).toBe(
    'https://app.x/a#error=a+b%26c%3Dd%23e&sb=',
  );
  expect(withQuery('https://app.x/a?code=old&keep=1#frag', { code: 'new&x' })).toBe(
    'https://app.x/a?code=new%26x&keep=1',
  );
});
