// Ways to make an allow-list of origins allow another one. Every text here has fooled some parser.
import { describe, expect, test } from 'vitest';
import { chooseTarget, isAllowed, withFragment, withQuery } from '../../src/auth/redirect.ts';

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

test('what is appended cannot break out of its place', () => {
  expect(withFragment('https://app.x/a#old', { error: 'a b&c=d#e' })).toBe(
    'https://app.x/a#error=a+b%26c%3Dd%23e',
  );
  expect(withQuery('https://app.x/a?code=old&keep=1#frag', { code: 'new&x' })).toBe(
    'https://app.x/a?code=new%26x&keep=1',
  );
});
