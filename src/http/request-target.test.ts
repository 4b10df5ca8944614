import { expect, test } from 'vitest';
import { originForm } from './request-target.ts';

test.each([
  ['/rest/v1/t?a=eq.1', '/rest/v1/t?a=eq.1'],
  ['http://host/rest/v1/t?a=eq.1', '/rest/v1/t?a=eq.1'],
  ['HTTPS://user@host:8443/ready', '/ready'],
  ['http://host', '/'],
  ['http://host?a=1', '/?a=1'],
  ['/rest/v1/t?u=eq.http://host/x', '/rest/v1/t?u=eq.http://host/x'],
  ['*', '*'],
  ['', ''],
])('%s is the path %s', (target, path) => {
  expect(originForm(target)).toBe(path);
});
