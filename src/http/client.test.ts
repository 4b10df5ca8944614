import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import type { Log } from '../log/log.ts';
import { ClientReader, FRONT_HEADER, type ClientReaderOptions } from './client.ts';

type Sent = Readonly<Record<string, string>>;

function aRequest(peer: string, headers: Sent): IncomingMessage {
  const socket = new Socket();
  Object.defineProperty(socket, 'remoteAddress', { value: peer });
  const request = new IncomingMessage(socket);
  request.rawHeaders.push(...Object.entries(headers).flat());
  Object.assign(request.headers, headers);
  return request;
}

function aReader(options: Partial<ClientReaderOptions> = {}) {
  const warnings: object[] = [];
  const log = { warn: (fields: object) => warnings.push(fields) } as unknown as Log;
  const reader = new ClientReader({ trusted: () => TRUSTED, dev: false, log, ...options });
  return {
    reader,
    warnings,
    read: (peer: string, headers: Sent = {}) => reader.read(aRequest(peer, headers)),
  };
}

const TRUSTED = ['10.0.0.0/8', '2001:db8::/32'];
const NONE: string[] = [];
const xff = (value: string): Sent => ({ 'x-forwarded-for': value });
const forwarded = (value: string): Sent => ({ forwarded: value });

test.each<[string, string, Sent, string]>([
  ['no header', '10.0.0.1', {}, '10.0.0.1'],
  ['one client', '10.0.0.1', xff('192.0.2.1'), '192.0.2.1'],
  ['an invented address of the client precedes it', '10.0.0.1', xff('8.8.8.8, 192.0.2.1'), '192.0.2.1'],
  ['a chain of trusted proxies', '10.0.0.1', xff('192.0.2.1, 10.0.0.3, 10.0.0.2'), '192.0.2.1'],
  ['a chain with something made up', '10.0.0.1', xff('10.9.9.9, 192.0.2.1, 10.0.0.2'), '192.0.2.1'],
  ['all trusted: the leftmost', '10.0.0.1', xff('10.0.0.9, 10.0.0.2'), '10.0.0.9'],
  ['several lines are one list', '10.0.0.1', xff('192.0.2.1, 10.0.0.3, 10.0.0.2'), '192.0.2.1'],
  ['no spaces', '10.0.0.1', xff('192.0.2.1,10.0.0.2'), '192.0.2.1'],
  ['empty entries', '10.0.0.1', xff(' , 192.0.2.1, ,10.0.0.2,'), '192.0.2.1'],
  ['an empty header', '10.0.0.1', xff(''), '10.0.0.1'],
  ['a port', '10.0.0.1', xff('192.0.2.1:5555'), '192.0.2.1'],
  ['garbage', '10.0.0.1', xff('garbage'), '10.0.0.1'],
  ['garbage behind a good one', '10.0.0.1', xff('192.0.2.1, garbage, 10.0.0.2'), '10.0.0.2'],
  ['unknown', '10.0.0.1', xff('unknown, 10.0.0.2'), '10.0.0.2'],
  ['a name', '10.0.0.1', xff('host.example'), '10.0.0.1'],
  ['an address with a bad port', '10.0.0.1', xff('192.0.2.1:port'), '10.0.0.1'],
  ['an octal address', '10.0.0.1', xff('0300.0.2.1'), '10.0.0.1'],
  ['SQL', '10.0.0.1', xff(`192.0.2.1'; drop table users`), '10.0.0.1'],
  ['IPv6', '10.0.0.1', xff('2001:DB9::1'), '2001:db9::1'],
  ['IPv6 in brackets', '10.0.0.1', xff('[2001:db9::1]'), '2001:db9::1'],
  ['IPv6 with a port', '10.0.0.1', xff('[2001:db9::1]:443'), '2001:db9::1'],
  ['IPv6 with a zone', '10.0.0.1', xff('fe80::1%eth0'), 'fe80::1'],
  ['IPv4 in brackets', '10.0.0.1', xff('[192.0.2.1]'), '10.0.0.1'],
  ['IPv4 in IPv6', '10.0.0.1', xff('::ffff:192.0.2.1'), '192.0.2.1'],
  ['a trusted IPv6 proxy', '2001:db8::5', xff('192.0.2.1, 2001:db8::6'), '192.0.2.1'],
  ['a peer of a socket for both families', '::ffff:10.0.0.1', xff('192.0.2.1'), '192.0.2.1'],
  ['an untrusted peer', '192.0.2.9', xff('8.8.8.8'), '192.0.2.9'],
  ['an untrusted peer of this machine', '127.0.0.1', xff('8.8.8.8'), '127.0.0.1'],
  [
    'longer than any chain',
    '10.0.0.1',
    xff(['192.0.2.1', ...Array(40).fill('10.0.0.2')].join(', ')),
    '10.0.0.2',
  ],
  ['64 KB of it', '10.0.0.1', xff(`${'8.8.8.8,'.repeat(8_000)}192.0.2.1`), '192.0.2.1'],
  ['Forwarded', '10.0.0.1', forwarded('for=192.0.2.1'), '192.0.2.1'],
  ['Forwarded with more', '10.0.0.1', forwarded('by=10.0.0.1;For="192.0.2.1:80";proto=https'), '192.0.2.1'],
  ['Forwarded, a chain', '10.0.0.1', forwarded('for=8.8.8.8, for=192.0.2.1, for=10.0.0.2'), '192.0.2.1'],
  ['Forwarded, IPv6', '10.0.0.1', forwarded('for="[2001:db9::1]:443"'), '2001:db9::1'],
  ['Forwarded, a comma in quotes', '10.0.0.1', forwarded('for=192.0.2.1;host="a, for=8.8.8.8"'), '192.0.2.1'],
  ['Forwarded, hidden', '10.0.0.1', forwarded('for=192.0.2.1, for=_proxy, for=10.0.0.2'), '10.0.0.2'],
  ['Forwarded, a quote that does not end', '10.0.0.1', forwarded('for="8.8.8.8, for=192.0.2.1'), '10.0.0.1'],
  [
    'Forwarded, 64 KB of quotes',
    '10.0.0.1',
    forwarded(`for="${'\\"'.repeat(30_000)}, for=192.0.2.1`),
    '10.0.0.1',
  ],
  ['both', '10.0.0.1', { ...xff('192.0.2.1'), ...forwarded('for=192.0.2.2') }, '192.0.2.1'],
  ['headers of others', '10.0.0.1', { 'x-real-ip': '8.8.8.8', 'cf-connecting-ip': '8.8.8.8' }, '10.0.0.1'],
])('the client, with %s', (_what, peer, headers, address) => {
  expect(aReader().read(peer, headers).address).toBe(address);
});

test.each<[Sent, 'http' | 'https']>([
  [{ ...xff('192.0.2.1'), 'x-forwarded-proto': 'https' }, 'https'],
  [{ ...xff('192.0.2.1'), 'x-forwarded-proto': 'HTTPS' }, 'https'],
  [{ ...xff('192.0.2.1'), 'x-forwarded-proto': 'ftp' }, 'http'],
  [{ 'x-forwarded-proto': 'https' }, 'https'],
  // The client used https, the proxy http.
  [{ ...xff('192.0.2.1'), 'x-forwarded-proto': 'https, http' }, 'http'],
  // Two proxies: TLS ended at the first.
  [{ ...xff('192.0.2.1, 10.0.0.2'), 'x-forwarded-proto': 'https, http' }, 'https'],
  [forwarded('for=192.0.2.1;proto=https, for=10.0.0.2;proto=http'), 'https'],
])('the scheme with %j', (headers, proto) => {
  expect(aReader().read('10.0.0.1', headers).proto).toBe(proto);
  expect(aReader().read('192.0.2.9', headers).proto).toBe('http');
});

test('an address of this machine is proven by the absence of proxies', () => {
  const via = (options: Partial<ClientReaderOptions>, headers: Sent = {}, peer = '127.0.0.1') =>
    aReader(options).read(peer, headers).via;
  expect(via({ trusted: () => NONE })).toBe('local');
  expect(via({ trusted: () => NONE }, {}, '::1')).toBe('local');
  expect(via({ trusted: () => NONE }, {}, '192.0.2.1')).toBe('peer');
  expect(via({ trusted: () => NONE }, xff('127.0.0.1'))).toBe('peer');
  expect(via({ trusted: () => NONE }, { via: '1.1 proxy' })).toBe('peer');
  expect(via({ trusted: () => NONE }, { 'x-real-ip': '127.0.0.1' })).toBe('peer');
  expect(via({})).toBe('peer');
  expect(via({ dev: true })).toBe('local');
  expect(via({ trusted: () => ['loopback'] }, xff('127.0.0.1'))).toBe('proxy');
});

test('a peer that is not trusted is named once, with the line that trusts it', () => {
  const { read, warnings } = aReader();
  for (let i = 0; i < 3; i++) read('172.20.0.4', xff('192.0.2.1'));
  expect(warnings).toEqual([{ peer: '172.20.0.4', add: 'server: { trusted_proxies: ["172.20.0.4"] }' }]);
});

test('two headers that name different clients are reported once', () => {
  const { read, warnings } = aReader();
  read('10.0.0.1', { ...xff('192.0.2.1'), ...forwarded('for=192.0.2.1') });
  expect(warnings).toHaveLength(0);
  for (let i = 0; i < 3; i++) read('10.0.0.1', { ...xff('192.0.2.1'), ...forwarded('for=192.0.2.2') });
  expect(warnings).toHaveLength(1);
});

test('another list counts from the next request on, on connections that are open already too', () => {
  let trusted: readonly string[] = [];
  const { reader } = aReader({ trusted: () => trusted });
  const request = aRequest('10.0.0.1', xff('192.0.2.1'));
  expect(reader.read(request).address).toBe('10.0.0.1');
  trusted = TRUSTED;
  expect(reader.read(request).address).toBe('192.0.2.1');
});

test('behind `svc receive` only a front with the secret may forward, and the secret is removed', () => {
  const { read, reader, warnings } = aReader({ frontSecret: 'the secret', trusted: () => ['loopback'] });
  const sent = { ...xff('192.0.2.1'), 'x-forwarded-proto': 'https' };
  const request = aRequest('127.0.0.1', { [FRONT_HEADER]: 'the secret', ...sent });
  expect(reader.read(request)).toEqual({ address: '192.0.2.1', proto: 'https', via: 'proxy' });
  expect(request.headers[FRONT_HEADER]).toBeUndefined();
  expect(request.rawHeaders.join()).not.toContain('secret');
  for (const wrong of [{}, { [FRONT_HEADER]: 'the secrex' }, { [FRONT_HEADER]: '' }]) {
    expect(read('127.0.0.1', { ...sent, ...wrong })).toEqual({
      address: '127.0.0.1',
      proto: 'http',
      via: 'peer',
    });
  }
  expect(read('127.0.0.1').via).toBe('peer');
  expect(warnings).toHaveLength(0);
});
