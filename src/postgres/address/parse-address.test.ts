import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { addressUrl } from '../../../test/support/provision.ts';
import { parseAddress } from './parse-address.ts';
import { tlsOptions } from './tls.ts';

const ENV = {};
const parse = (text: string, env: Record<string, string> = ENV): Record<string, unknown> => {
  const { targets, user, password, database } = parseAddress(text, { env });
  const [{ host, port }] = targets;
  return { host, port, user, password, database };
};
const base = { host: 'localhost', port: 5432, user: 'u', password: undefined, database: 'u' };

test.each<[string, Record<string, unknown>]>([
  ['postgres://u@', base],
  ['postgresql://u:p@h:6000/d', { ...base, host: 'h', port: 6000, password: 'p', database: 'd' }],
  ['postgres://u@h', { ...base, host: 'h' }],
  ['postgres:///d?host=/run/postgresql&user=u', { ...base, host: '/run/postgresql', database: 'd' }],
  ['postgres:///d?user=u', { ...base, database: 'd' }],
  ['postgres://a:b@h/d?user=u&password=p', { ...base, host: 'h', password: 'p', database: 'd' }],
  ['postgres://u@h/d?host=other&port=7000&dbname=e', { ...base, host: 'other', port: 7000, database: 'e' }],
  ['postgres://u@%2Frun%2Fpostgresql/d', { ...base, host: '/run/postgresql', database: 'd' }],
  [
    'postgres://u@%2Frun%2Fpostgresql:5433/d',
    { ...base, host: '/run/postgresql', port: 5433, database: 'd' },
  ],
  ['postgres://u@[::1]:5433/d', { ...base, host: '::1', port: 5433, database: 'd' }],
  ['postgres://u:p%40%3A%2F%25@h/d%20e', { ...base, host: 'h', password: 'p@:/%', database: 'd e' }],
  ['postgres://u:p@ss@h/d', { ...base, host: 'h', password: 'p@ss', database: 'd' }],
  ['postgres://u:a+b@h/d?user=x+y', { ...base, host: 'h', user: 'x+y', password: 'a+b', database: 'd' }],
  [
    'postgres://u@h/d?keepalives_idle=10&target_session_attrs=read-write&application_name=x',
    { ...base, host: 'h', database: 'd' },
  ],
])('%s', (text, fields) => {
  expect(parse(text)).toEqual(fields);
});

test('what the URL leaves out comes from the variables of libpq', () => {
  const env = {
    PGHOST: '/sockets',
    PGPORT: '5499',
    PGUSER: 'v',
    PGPASSWORD: 'w',
    PGDATABASE: 'e',
    PGSSLMODE: 'require',
  };
  expect(parse('postgres://', env)).toEqual({
    host: '/sockets',
    port: 5499,
    user: 'v',
    password: 'w',
    database: 'e',
  });
  expect(parse('postgres://u:p@h:1/d', env)).toEqual({
    host: 'h',
    port: 1,
    user: 'u',
    password: 'p',
    database: 'd',
  });
  expect(tlsOptions(parseAddress('postgres://u@h', { env }))).toEqual({});
  expect(tlsOptions(parseAddress('postgres://u@h?sslmode=disable', { env }))).toBe(false);
});

test.each<[string, RegExp]>([
  ['host=h user=u', /is not a URL/],
  ['mysql://u@h/d', /starts with mysql:/],
  ['postgres://u@a,b/d', /several hosts/],
  ['postgres://u@a:1,b:2/d', /several hosts/],
  ['postgres://u@/d?host=a,b', /several hosts/],
  ['postgres://u@h/d?options=-c%20statement_timeout%3D0', /sets options/],
  ['postgres://u@h/d?options=', /sets options/],
  ['postgres://u@h:port/d', /port that is no number/],
  ['postgres://u@h:70000/d', /port that is no number/],
  ['postgres://u@::1/d', /host that cannot be read/],
  ['postgres://u@h/d?sslmode=sure', /unknown sslmode "sure"/],
  ['postgres://u@h/d?shema=public', /unknown parameter "shema"/],
  ['postgres://u@h/d?service=x', /unknown parameter "service"/],
  ['postgres://u@h/d?target_session_attrs=standby', /target_session_attrs=standby, which is not supported/],
  ['postgres://u@h/d?sslmode', /"sslmode" that is not name=value/],
  ['postgres://u:se%cret@h/d', /percent sign in its password/],
  ['postgres://u:se%00cret@h/d', /percent sign in its password/],
  ['postgres://u@h/d?sslrootcert=/no/such/file', /names as sslrootcert/],
])('%s is refused', (text, message) => {
  const work = (): unknown => tlsOptions(parseAddress(text, { env: ENV }));
  expect(work).toThrow(message);
  expect(work).not.toThrow(/se%/);
});

test('the same place as another role', () => {
  for (const text of [
    'postgres://u:p@h:6000/d',
    'postgres://u@[::1]/d',
    'postgres:///d?host=/run/a%20b&user=u',
  ]) {
    const address = parseAddress(text, { env: ENV });
    const other = address.as('some one', 'p@/:%');
    expect(parseAddress(addressUrl(other), { env: ENV })).toEqual(other);
    expect(other.targets).toEqual(address.targets);
  }
});

test('an address is shown without its password', () => {
  const address = parseAddress('postgres://u:secret@h/d', { env: ENV });
  expect(address.describe()).toBe('h:5432/d as u');
  for (const shown of [inspect({ address }), JSON.stringify({ at: address.as('v', 'hidden') })])
    expect(shown).not.toMatch(/secret|hidden/);
});

test('TLS as it is asked for', () => {
  const of = (query: string): unknown => tlsOptions(parseAddress(`postgres://u@h/d?${query}`, { env: ENV }));
  expect(of('')).toBe(false);
  expect(of('sslmode=disable')).toBe(false);
  expect(of('sslmode=require')).toEqual({});
  expect(of('ssl=true')).toEqual({});
  expect(of('sslmode=no-verify')).toEqual({ rejectUnauthorized: false });
  expect(of('sslmode=require&uselibpqcompat=true')).toEqual({ rejectUnauthorized: false });
  expect(of('sslmode=verify-full&sslrootcert=system')).toEqual({});
});
