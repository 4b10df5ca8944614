import { expect, test } from 'vitest';
import { parseAdminAddress } from './admin-address.ts';

test.each([
  ['9464', { host: '127.0.0.1', port: 9464 }],
  ['0.0.0.0:0', { host: '0.0.0.0', port: 0 }],
  ['[::1]:9464', { host: '::1', port: 9464 }],
  ['svc.internal:1', { host: 'svc.internal', port: 1 }],
])('%s', (text, address) => expect(parseAdminAddress(text)).toEqual(address));

test.each(['', 'x', '70000', '::1:9464', 'http://x:1', '9464 '])('%j is not an address', (text) => {
  expect(() => parseAdminAddress(text)).toThrow(/is not an address/);
});
