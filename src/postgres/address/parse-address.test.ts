import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { addressUrl } from '../../../test/support/provision.ts';
import { describeTarget } from './database-address.ts';
import { databaseAddresses } from './database-addresses.ts';
import { parseAddress } from './parse-address.ts';
import { writeOptions } from './session-options.ts';
import { tlsOptions } from './tls.ts';

const parse = (text: string, env: Record<string, string> = {}): Record<string, unknown> => {
  const { targets, user, password, database } = parseAddress(text, { env });
  return { at: targets.map(describeTarget).join(' '), user, password, database };
};
const base = { at: 'localhost:5432', user: 'u', password: undefined, database: 'u' };

test.each<[string, Record<string, unknown>]>([
  ['postgres://u@', base],
  ['postgresql://u:p@h:6000/d', { ...base, at: 'h:6000', password: 'p', database: 'd' }],
  ['postgres://u@h', { ...base, at: 'h:5432' }],
  ['postgres://u@h\n', { ...base, at: 'h:5432' }],
  ['postgres:///d?host=/run/pg&user=u', { ...base, at: '/run/pg/.s.PGSQL.5432', database: 'd' }],
  ['postgres:///d?user=u', { ...base, database: 'd' }],
  ['postgres://a:b@h/d?user=u&password=p', { ...base, at: 'h:5432', password: 'p', database: 'd' }],
  ['postgres://u@h/d?host=other&port=7000&dbname=e', { ...base, at: 'other:7000', database: 'e' }],
  ['postgres://u@%2Frun%2Fpg/d', { ...base, at: '/run/pg/.s.PGSQL.5432', database: 'd' }],
  ['postgres://u@%2Frun%2Fpg:5433/d', { ...base, at: '/run/pg/.s.PGSQL.5433', database: 'd' }],
  ['postgres:///d?host=@pg&user=u', { ...base, at: '@pg/.s.PGSQL.5432', database: 'd' }],
  ['postgres://u@[::1]:5433/d', { ...base, at: '[::1]:5433', database: 'd' }],
  ['postgres://u:p%40%3A%2F%25@h/d%20e', { ...base, at: 'h:5432', password: 'p@:/%', database: 'd e' }],
  ['postgres://u:p@ss@h/d', { ...base, at: 'h:5432', password: 'p@ss', database: 'd' }],
  ['postgres://u:a:b@h/d', { ...base, at: 'h:5432', password: 'a:b', database: 'd' }],
  ['postgres://u:a+b@h/d?user=x+y', { at: 'h:5432', user: 'x+y', password: 'a+b', database: 'd' }],
  ['postgres://u@a,b:6000,[::1]/d', { ...base, at: 'a:5432 b:6000 [::1]:5432', database: 'd' }],
  ['postgres://u@a:1,b:2/d', { ...base, at: 'a:1 b:2', database: 'd' }],
  ['postgres://u@a,b/d?port=7', { ...base, at: 'a:7 b:7', database: 'd' }],
  ['postgres://u@/d?host=a,/run/pg&port=1,2', { ...base, at: 'a:1 /run/pg/.s.PGSQL.2', database: 'd' }],
  ['postgres://u@h/d?', { ...base, at: 'h:5432', database: 'd' }],
  ['postgres://u@h/d?connect_timeout=3&', { ...base, at: 'h:5432', database: 'd' }],
  ['host=h user=u', { ...base, at: 'h:5432' }],
  [' user = u  dbname=d port=6000 ', { ...base, at: 'localhost:6000', database: 'd' }],
  [
    String.raw`user=u password='it\'s \\ two words' host=a,b`,
    { ...base, at: 'a:5432 b:5432', password: String.raw`it's \ two words` },
  ],
  [String.raw`user=u password=a\ b`, { ...base, password: 'a b' }],
  // The last space is part of the name, the newline is not.
  ['user=u host=h dbname=d\\ \n', { ...base, at: 'h:5432', database: 'd ' }],
  ["user=u password='' dbname=''", base],
  ['user=x user=u', base],
])('%s', (text, fields) => {
  expect(parse(text)).toEqual(fields);
});

test('what the address leaves out comes from the variables of libpq', () => {
  const env = {
    PGHOST: '/sockets',
    PGPORT: '5499',
    PGUSER: 'v',
    PGPASSWORD: 'w',
    PGDATABASE: 'e',
    PGSSLMODE: 'require',
    PGTARGETSESSIONATTRS: 'any',
  };
  const all = { at: '/sockets/.s.PGSQL.5499', user: 'v', password: 'w', database: 'e' };
  expect(parse('postgres://', env)).toEqual(all);
  expect(parse('postgres://u:p@h:1/d', env)).toEqual({ at: 'h:1', user: 'u', password: 'p', database: 'd' });
  // An empty value is one, and means the default.
  expect(parse("user=''  host=''", { ...env, USER: 'x' })).toMatchObject({ at: 'localhost:5499' });
  expect(parseAddress('postgres://u@h', { env })).toMatchObject({
    attrs: 'any',
    tls: { sslmode: 'require' },
  });
  expect(parseAddress('postgres://u@h?sslmode=disable', { env }).tls.sslmode).toBe('disable');
});

test.each<[string, RegExp]>([
  ['localhost', /is not an address/],
  ['u:secret@h/d?sslmode=require', /is not an address/],
  ['mysql://u@h/d', /starts with mysql:/],
  ['postgres://u@a,b/d?port=1,2,3', /could not match 3 port numbers to 2 hosts/],
  ['host=a,b port=1,2,3 user=u', /could not match 3 port numbers to 2 hosts/],
  ['postgres://u@h/d?options=-c%20statement_timeout%3D0', /sets statement_timeout in options/],
  ['postgres://u@h/d?options=-cROLE%3Dpostgres', /sets role in options/],
  ['postgres://u@h/d?options=--session-authorization%3Dpostgres', /sets session_authorization in options/],
  [String.raw`user=u options='-c search_path=a\\ -c\\ b -c Time\ne=x'`, /sets search_path in options/],
  ['postgres://u@h/d?options=-S%20100', /options that are not -c name=value/],
  ['postgres://u@h:port/d', /port that is not a number/],
  ['postgres://u@h:70000/d', /port that is not a number/],
  ['postgres://u:pa/secret@h/d', /port that is not a number/],
  ['postgres://u@[::1/d', /without its closing bracket/],
  ['postgres://u@[]/d', /empty brackets/],
  ['postgres://u@[::1]x/d', /something after the closing bracket/],
  ['postgres://u@h/d?sslmode=sure', /unknown sslmode "sure"/],
  ['postgres://u@h/d?sslmode=no-verify', /unknown sslmode "no-verify"/],
  ['postgres://u@h/d?shema=public', /unknown parameter "shema"/],
  ['postgres://u@h/d?w%C3%A9secret=1', /has an unknown parameter$/],
  ['postgres://u@h/d?service=x', /sets service, which is not supported/],
  ['service=x', /sets service, which is not supported/],
  ['postgres://u@h/d?passfile=/x', /sets passfile/],
  ['postgres://u@h/d?krbsrvname=x', /sets krbsrvname/],
  ['postgres://u@h/d?requiressl=1', /sets requiressl/],
  ['postgres://u@h/d?gssencmode=require', /gssencmode=require, which is not supported/],
  ['postgres://u@h/d?client_encoding=latin1', /client_encoding=latin1, which is not supported/],
  ['postgres://u@h/d?ssl=1', /sets ssl, which is not supported/],
  ['postgres://u@h/d?target_session_attrs=writable', /unknown target_session_attrs "writable"/],
  ['postgres://u@h/d?connect_timeout=5s', /connect_timeout that is not a whole number/],
  ['postgres://u@h/d?sslmode', /"sslmode" that is not name=value/],
  ['postgres://u@h/d?sslmode=a=b', /"sslmode" that is not name=value/],
  ['postgres://u@h/d?sslrootcert=system&sslmode=require', /weak sslmode=require/],
  ['postgres://u@h/d?sslnegotiation=direct', /sslnegotiation=direct with the weak sslmode=prefer/],
  ['postgres://u@h/d?sslcert=/c', /sslcert without sslkey/],
  ['postgres://u:se%cret@h/d', /percent sign in its password/],
  ['postgres://u:se%00cret@h/d', /percent sign in its password/],
  ['user=u password=se cret', /word without =/],
  ["user=u password='secret", /quote that is not closed/],
  ['postgres://u@h/d?sslrootcert=/no/such/file', /names a file as sslrootcert/],
  [`postgres://u@${Array.from({ length: 17 }, () => 'h').join()}/d`, /names 17 hosts/],
])('%s is refused', (text, message) => {
  const work = (): unknown => parseAddress(text, { env: {}, name: 'SVC_DATABASE_READ_URL' });
  expect(work).toThrow(message);
  expect(work).toThrow(/^SVC_DATABASE_READ_URL /);
  expect(work).not.toThrow(/se%|secret/);
});

test('a mistyped parameter is answered with what was meant', () => {
  const work = (): unknown => parseAddress('postgres://u@h/d?ssl_mode=require', { env: {} });
  expect(work).toThrow(expect.objectContaining({ code: 'bad_database_url', hint: 'Did you mean sslmode?' }));
});

test('the same place as another role', () => {
  for (const text of [
    'postgres://u:p@h:6000/d',
    'postgres://u@[::1]/d',
    'postgres:///d?host=/run/a%20b&user=u',
  ]) {
    const address = parseAddress(text, { env: {} });
    const renamed = address.as('some one', 'p@/:%');
    expect(parseAddress(addressUrl(renamed), { env: {} })).toEqual(renamed);
    expect(renamed.targets).toEqual(address.targets);
  }
});

test('an address is shown without its password', () => {
  const address = parseAddress('postgres://u:secret@a,b:6000/d', { env: {} });
  expect(address.describe()).toBe('a:5432,b:6000/d as u');
  for (const shown of [inspect({ address }), JSON.stringify({ at: address.as('v', 'hidden') })])
    expect(shown).not.toMatch(/secret|hidden/);
});

test.each([
  'role',
  'session_authorization',
  'search_path',
  'statement_timeout',
  'timezone',
  'datestyle',
  'intervalstyle',
  'bytea_output',
  'client_encoding',
  'standard_conforming_strings',
])('options cannot set %s', (name) => {
  const work = (): unknown => parseAddress(`postgres://u@h/d?options=-c%20${name}%3Dx`, { env: {} });
  expect(work).toThrow(`sets ${name} in options`);
});

test('other options are added, and written as the server splits them', () => {
  const { options } = parseAddress(String.raw`user=u options='-c work_mem=8MB --my-ext.note=a\\ b\\\\'`, {
    env: {},
  });
  expect(options).toEqual([
    ['work_mem', '8MB'],
    ['my_ext.note', 'a b\\'],
  ]);
  expect(writeOptions(options)).toBe(String.raw`-c work_mem=8MB -c my_ext.note=a\ b\\`);
});

test('the three addresses of a database', () => {
  const addresses = databaseAddresses({ SVC_DATABASE_URL: 'postgres://u@h/d' });
  expect(addresses).toMatchObject({
    data: { attrs: 'prefer-primary', isShuffled: false },
    direct: { attrs: 'primary', variable: 'SVC_DATABASE_URL', targets: [{ host: 'h' }] },
    read: undefined,
  });
  const three = databaseAddresses({
    SVC_DATABASE_URL: 'postgres://u@pooler/d?target_session_attrs=any',
    SVC_DATABASE_DIRECT_URL: 'postgres://u@a,b/d',
    SVC_DATABASE_READ_URL: 'postgres://u@c,d/d',
  });
  expect(three).toMatchObject({
    data: { attrs: 'any', targets: [{ host: 'pooler' }] },
    direct: { variable: 'SVC_DATABASE_DIRECT_URL', targets: [{ host: 'a' }, { host: 'b' }] },
    read: { attrs: 'prefer-standby', isShuffled: true },
  });
  expect(databaseAddresses({})).toBeUndefined();
});

test('TLS verifies what libpq verifies', () => {
  const of = (query: string): unknown =>
    tlsOptions(parseAddress(`postgres://u@h/d?${query}`, { env: {} }).tls);
  const anyName = expect.any(Function) as unknown;
  expect(of('ssl=true')).toEqual({ rejectUnauthorized: false, checkServerIdentity: anyName });
  expect(of('sslmode=require')).toEqual({ rejectUnauthorized: false, checkServerIdentity: anyName });
  expect(of('sslmode=verify-ca')).toEqual({ rejectUnauthorized: true, checkServerIdentity: anyName });
  expect(of('sslmode=verify-full')).toEqual({ rejectUnauthorized: true });
  expect(of('sslmode=require&sslrootcert=/etc/passwd')).toMatchObject({
    rejectUnauthorized: true,
    checkServerIdentity: anyName,
  });
  expect(of('sslrootcert=system')).toEqual({ rejectUnauthorized: true, ca: expect.any(Array) as unknown });
  expect(of('sslmode=verify-full&sslnegotiation=direct')).toMatchObject({ ALPNProtocols: ['postgresql'] });
});
