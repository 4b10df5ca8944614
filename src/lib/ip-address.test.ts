import { expect, test } from 'vitest';
import { AddressList, isAddressEntry, isEverything, clientNetwork, readAddress } from './ip-address.ts';

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['2001:DB8:0:0::1', '2001:db8::1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['::ffff:c000:201', '192.0.2.1'],
  ['fe80::1%eth0', 'fe80::1'],
  ['192.0.2.01', undefined],
  ['192.0.2', undefined],
  ['[2001:db8::1]', undefined],
  ['garbage', undefined],
  ['', undefined],
])('%s is read as %s', (text, address) => {
  expect(readAddress(text)).toBe(address);
});

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['::1', '0:0:0:0::/64'],
  ['2001:db8:1:2::', '2001:db8:1:2::/64'],
])('%s counts as %s', (address, network) => {
  expect(clientNetwork(address)).toBe(network);
});

test.each([
  '192.0.2.1',
  '10.0.0.0/8',
  '2001:db8::/32',
  '::ffff:192.0.2.1',
  'loopback',
  'private',
  '0.0.0.0/0',
])('%s is an entry of a list', (entry) => {
  expect(isAddressEntry(entry)).toBe(true);
});

test.each([
  '',
  'unix',
  'Loopback',
  '10.0.0.0/33',
  '10.0.0.0/',
  '10/8',
  '10.0.0.0/8/8',
  '::ffff:10.0.0.0/104',
  'fe80::1%eth0',
  'proxy.example',
])('%j is none', (entry) => {
  expect(isAddressEntry(entry)).toBe(false);
});

test('a list knows its ranges and words, and an empty one nothing', () => {
  const list = new AddressList(['10.0.0.0/8', '2001:db8::/32', 'loopback', '203.0.113.7']);
  for (const address of ['10.255.0.1', '2001:db8:ffff::1', '127.3.2.1', '::1', '203.0.113.7'])
    expect(list.has(address), address).toBe(true);
  for (const address of ['11.0.0.1', '2001:db9::1', '203.0.113.8', '::2'])
    expect(list.has(address), address).toBe(false);
  expect(new AddressList([]).has('127.0.0.1')).toBe(false);
  expect(['0.0.0.0/0', '::/0', '10.0.0.0/8'].map(isEverything)).toEqual([true, true, false]);
});
