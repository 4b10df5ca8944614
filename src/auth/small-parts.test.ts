// Tests small pure parts: addresses, ban durations, metadata, imported hashes, pages.
import { describe, expect, test } from 'vitest';
import { parseBan } from './users/ban.ts';
import { makeProfile } from './provider/definition.ts';
import { readEmail, storedForms, wireAddress } from './users/email-address.ts';
import { Fields, parseJsonBody } from './fields.ts';
import { mergeMetadata } from './users/metadata.ts';
import { pageHeaders, readPage } from './http/pagination.ts';
import { checkImportedHash } from './users/imported-hash.ts';
import { checkPasswordForm, weaknesses } from './users/password.ts';
import { AuthProblem, toWire, wireVersion } from './problem.ts';

describe('addresses', () => {
  test.each([
    ['a@b.co', 'a@b.co'],
    ['A.B+c@Example.COM', 'a.b+c@example.com'],
    ["o'hara@example.ie", "o'hara@example.ie"],
    ['x@localhost', 'x@localhost'],
    ['jörg@exämple.de', 'jörg@exämple.de'],
    [' \t a@b.co\r\n', 'a@b.co'],
    ['lea@xn--mller-kva.example', 'lea@müller.example'],
    ['lea@MÜLLER.example', 'lea@müller.example'],
    ['lea@mu\u0308ller.example', 'lea@müller.example'],
    ['zoe\u0308@shop.example', 'zoë@shop.example'],
    ['a@日本。example', 'a@日本.example'],
    ['a@1.2', 'a@1.2'],
  ])('%s', (text, stored) => expect(readEmail(text)).toBe(stored));
  test.each([
    '',
    'x',
    '@b.co',
    'a@',
    'a@@b.co',
    'a@b@c.co',
    'a b@c.co',
    'a@b c.co',
    'a@b.co\u00a0',
    '\u212aelvin@b.co',
    'v\u0130ctor@b.co',
    'a@b.co\0',
    '.a@b.co',
    'a.@b.co',
    'a..b@c.co',
    'a@-b.co',
    'a@b-.co',
    'a@b..co',
    '"a"@b.co',
    '<a@b.co>',
    'a\u200b@b.co',
    'a\u00a0@b.co',
    `${'a'.repeat(65)}@b.co`,
  ])('%j is not an address', (text) => expect(readEmail(text)).toBeUndefined());
});

test('similar addresses of different mailboxes stay distinct', () => {
  const addresses = [
    'a.b@c.co',
    'ab@c.co',
    'ab+x@c.co',
    'ａb@c.co',
    'аb@c.co',
    'straße@c.co',
    'strasse@c.co',
  ];
  expect(new Set(addresses.map(readEmail)).size).toBe(addresses.length);
});

test('an account is looked up by the typed form before the canonical one', () => {
  expect(storedForms(' Lea@xn--mller-kva.example')).toEqual([
    'Lea@xn--mller-kva.example',
    'lea@xn--mller-kva.example',
    'lea@müller.example',
  ]);
  expect(storedForms('not an address')).toEqual([]);
});

test('a mail provider gets the domain in ASCII', () => {
  expect(wireAddress('zoë@müller.example')).toBe('zoë@xn--mller-kva.example');
  expect(wireAddress('a@b.co')).toBe('a@b.co');
});

describe('ban durations', () => {
  const now = new Date(0);
  test.each([
    ['1h', 3_600_000],
    ['1h30m', 5_400_000],
    ['.5h', 1_800_000],
    ['2.h', 7_200_000],
    ['1m500ms', 60_500],
    ['7d', 604_800_000],
    ['+1s', 1_000],
    ['-1s', -1_000],
  ])('%s', (text, ms) => expect(parseBan(text, now)?.getTime()).toBe(ms));
  test.each(['none', '0', '0s', '0h0m'])('%s lifts the ban', (text) =>
    expect(parseBan(text, now)).toBeNull(),
  );
  test.each(['', '1', 'h', '1 h', '1day', '1h x', 'x1h', '1h-1m', '1e3h', 'NaN'])(
    '%j is rejected',
    (text) => {
      expect(() => parseBan(text, now)).toThrow(AuthProblem);
    },
  );
  test('a very long ban still ends at a valid date', () =>
    expect(parseBan('999999999999h', now)?.getUTCFullYear()).toBe(9999));
});

test('metadata merges shallowly, null removes, prototypes stay out', () => {
  const change = JSON.parse(
    '{"a":null,"b":{"x":1},"__proto__":{"p":1},"prototype":1,"c":{"constructor":2,"d":"e"}}',
  ) as Record<string, unknown>;
  const merged = mergeMetadata({ a: 1, b: { y: 2 }, keep: true }, change);
  expect(merged).toEqual({ b: { x: 1 }, keep: true, c: { d: 'e' } });
  expect(Object.getPrototypeOf(merged)).toBe(Object.prototype);
  expect(() => mergeMetadata({}, { big: 'x'.repeat(70_000) })).toThrow(AuthProblem);
});

test.each([{ a: 'x\0y' }, { a: [{ 'k\0': 1 }] }, { a: '\ud800' }, { '\udc00': 1 }])(
  'metadata with text that the database cannot store is rejected: %j',
  (change) => expect(() => mergeMetadata({}, change)).toThrow(/NUL characters or lone surrogates/),
);

test('claims lose characters that the database cannot store, and the sign-in succeeds', () => {
  const { claims } = makeProfile({
    subject: 'a',
    issuer: 'https://login.example',
    emails: [],
    name: 'Zo\0e \ud800',
    more: {},
  });
  expect(claims['name']).toBe('Zoe \ufffd');
  expect(mergeMetadata({}, claims)['name']).toBe('Zoe \ufffd');
});

describe('imported hashes', () => {
  test.each([
    `$2a$10$${'a'.repeat(53)}`,
    `$2y$14$${'./'.repeat(26)}x`,
    '$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g',
    '$argon2i$v=19$m=262144,t=20,p=16$c2FsdA$aGFzaA',
    '$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=c2lnbmVy$c2FsdA==$aGFzaA==',
  ])('%s', (hash) => expect(() => checkImportedHash(hash)).not.toThrow());
  test.each([
    '',
    'plain',
    `$2a$15$${'a'.repeat(53)}`,
    `$2x$10$${'a'.repeat(53)}`,
    `$2a$10$${'a'.repeat(52)}`,
    '$argon2d$v=19$m=1024,t=2,p=1$c2FsdA$aGFzaA',
    '$argon2id$v=16$m=1024,t=2,p=1$c2FsdA$aGFzaA',
    '$argon2id$v=19$m=262145,t=2,p=1$c2FsdA$aGFzaA',
    '$argon2id$v=19$m=1024,t=21,p=1$c2FsdA$aGFzaA',
    '$argon2id$v=19$m=1024,t=2,p=17$c2FsdA$aGFzaA',
    '$argon2id$v=19$m=1024,t=2,p=1$$aGFzaA',
    '$fbscrypt$v=1,n=18,r=8,p=1$c2FsdA==$aGFzaA==',
    '$fbscrypt$v=1,n=0,r=8,p=1$c2FsdA==$aGFzaA==',
    '$fbscrypt$v=1,n=17,r=999,p=1$c2FsdA==$aGFzaA==',
  ])('%j is rejected', (hash) => expect(() => checkImportedHash(hash)).toThrow(AuthProblem));
});

test('passwords are counted in characters and bounded in bytes', () => {
  expect(weaknesses('ééééé')).toEqual(['length']);
  expect(weaknesses('éééééé')).toEqual([]);
  expect(weaknesses('😀😀😀')).toEqual(['length']);
  expect(() => checkPasswordForm('é'.repeat(36))).not.toThrow();
  for (const bad of ['', 'é'.repeat(37), 'abc\0def'])
    expect(() => checkPasswordForm(bad)).toThrow(AuthProblem);
});

test('fields: null is absent, a wrong type is a 400, own keys only', () => {
  const fields = parseJsonBody(Buffer.from('{"a":null,"b":"x","c":5,"d":true,"e":{},"f":""}'));
  expect([
    fields.text('a'),
    fields.text('b'),
    fields.flag('d'),
    fields.object('e'),
    fields.filled('f'),
  ]).toEqual([undefined, 'x', true, {}, undefined]);
  expect(fields.text('constructor')).toBeUndefined();
  for (const read of [() => fields.text('c'), () => fields.flag('b'), () => fields.object('b')])
    expect(read).toThrow(AuthProblem);
  for (const text of ['[]', '1', 'null', '{', '"x"'])
    expect(() => parseJsonBody(Buffer.from(text))).toThrow(AuthProblem);
});

test('pages are read from the query and written to the Link header', () => {
  const page = (query: Record<string, string>) => readPage(new Fields(query));
  expect(page({ page: '', per_page: '' })).toEqual({ page: 1, perPage: 50, offset: 0 });
  expect(page({ page: '3', per_page: '9999' })).toEqual({ page: 3, perPage: 1000, offset: 2000 });
  expect(page({ page: '0', per_page: '0' })).toEqual({ page: 1, perPage: 50, offset: 0 });
  expect(pageHeaders('/p', page({}), 0)).toEqual({
    'x-total-count': '0',
    link: '</p?page=1&per_page=50>; rel="last"',
  });
  for (const bad of ['-1', 'x', '1.5', '1e3']) expect(() => page({ page: bad })).toThrow(AuthProblem);
});

test.each([
  [undefined, 'initial'],
  ['2023-01-01', 'initial'],
  ['garbage', 'initial'],
  ['2024-01-01', '2024-01-01'],
  ['2030-05-05', '2024-01-01'],
])('version header %s selects %s', (header, version) => expect(wireVersion(header)).toBe(version));

test('a fault carries the request id on the initial wire and never a cause', () => {
  const problem = new AuthProblem('unexpected_failure', 500, 'Internal Server Error', {
    cause: new Error('secret'),
  });
  expect(toWire(problem, 'initial', 'r1')).toEqual({
    code: 500,
    error_code: 'unexpected_failure',
    msg: 'Internal Server Error',
    error_id: 'r1',
  });
  expect(JSON.stringify(toWire(problem, '2024-01-01', 'r1'))).not.toContain('secret');
});
