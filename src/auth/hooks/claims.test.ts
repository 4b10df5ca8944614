import { expect, test } from 'vitest';
import { readAnswer } from './answer.ts';
import { checkClaims, MAX_ADDED_BYTES } from './claims.ts';

const ORIGINAL = {
  iss: 'https://api.example.com/auth/v1',
  sub: '6c1a1f7e-0b43-4f0e-9a7e-0d6f2f6f6f01',
  aud: 'authenticated',
  exp: 2_000,
  iat: 1_000,
  email: 'ann@example.com',
  phone: '',
  app_metadata: { provider: 'email' },
  user_metadata: { name: 'Ann' },
  role: 'authenticated',
  aal: 'aal1',
  amr: [{ method: 'password', timestamp: 1_000 }],
  session_id: '6c1a1f7e-0b43-4f0e-9a7e-0d6f2f6f6f02',
  is_anonymous: false,
};
const without = (...names: string[]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(ORIGINAL).filter(([name]) => !names.includes(name)));

test.each<[string, Record<string, unknown>]>([
  ['the same claims', ORIGINAL],
  ['an added claim', { ...ORIGINAL, user_role: 'editor' }],
  ['an added claim that is null', { ...ORIGINAL, user_role: null }],
  ['changed metadata', { ...ORIGINAL, app_metadata: { provider: 'email', plan: 'paid' } }],
  ['keys in another order', { ...ORIGINAL, amr: [{ timestamp: 1_000, method: 'password' }] }],
  ['the required claims only', without('iss', 'amr', 'app_metadata', 'user_metadata')],
  ['an earlier end', { ...ORIGINAL, exp: 1_001 }],
  ['fewer rights', { ...ORIGINAL, role: 'anon' }],
  ['another audience', { ...ORIGINAL, aud: ['authenticated', 'internal'] }],
])('%s: accepted', (_name, returned) => {
  expect(checkClaims(ORIGINAL, returned)).toEqual({ claims: returned });
});

test.each<[string, Record<string, unknown>, RegExp]>([
  ...['aud', 'exp', 'iat', 'sub', 'email', 'phone', 'role', 'aal', 'session_id', 'is_anonymous'].map(
    (name): [string, Record<string, unknown>, RegExp] => [
      `without ${name}`,
      without(name),
      new RegExp(`claim ${name} is missing`),
    ],
  ),
  ['a null subject', { ...ORIGINAL, sub: null }, /claim sub is missing/],
  ...Object.entries({
    iss: 'https://other.example.com',
    sub: 'other',
    iat: 999,
    session_id: 'other',
    aal: 'aal2',
    amr: [{ method: 'totp', timestamp: 1_000 }],
    is_anonymous: true,
    restricted: true,
  }).map(([name, value]): [string, Record<string, unknown>, RegExp] => [
    `another ${name}`,
    { ...ORIGINAL, [name]: value },
    new RegExp(`claim ${name} must not be changed`),
  ]),
  ['a later end', { ...ORIGINAL, exp: 2_001 }, /claim exp/],
  ['an end before the start', { ...ORIGINAL, exp: 1_000 }, /claim exp/],
  ['an end that is a text', { ...ORIGINAL, exp: '1500' }, /claim exp/],
  ['a fraction as the end', { ...ORIGINAL, exp: 1_500.5 }, /claim exp/],
  ['service_role', { ...ORIGINAL, role: 'service_role' }, /claim role/],
  ['a role that is a list', { ...ORIGINAL, role: ['authenticated'] }, /claim role/],
  ['an audience that is a number', { ...ORIGINAL, aud: 1 }, /claim aud/],
  ['an address that is a number', { ...ORIGINAL, email: 1 }, /claim email/],
  ['a beginning that is a text', { ...ORIGINAL, nbf: 'now' }, /claim nbf/],
  ['too much', { ...ORIGINAL, more: 'x'.repeat(MAX_ADDED_BYTES) }, /bytes larger/],
])('%s: refused', (_name, returned, fault) => {
  expect(checkClaims(ORIGINAL, returned)).toEqual({ fault: expect.stringMatching(fault) as string });
});

test('a reduced token keeps the restriction of its session', () => {
  const original = { ...ORIGINAL, restricted: true };
  expect(checkClaims(original, ORIGINAL)).toMatchObject({ claims: { restricted: true } });
  expect(checkClaims(original, { ...ORIGINAL, restricted: false })).toHaveProperty('fault');
});

test.each<[string, unknown]>([
  ['{"claims": {}}', { kind: 'answer', body: { claims: {} } }],
  ['{"error": {"http_code": 403, "message": "no"}}', { kind: 'refusal', status: 403, message: 'no' }],
  ['{"error": {"message": "no"}}', { kind: 'refusal', status: 500, message: 'no' }],
  ['{"error": {"http_code": 200, "message": "no"}}', { kind: 'refusal', status: 500, message: 'no' }],
  ['{"error": {"http_code": 403, "message": ""}}', { kind: 'answer', body: expect.anything() }],
  ['[]', { kind: 'fault', why: expect.anything() }],
  ['null', { kind: 'fault', why: expect.anything() }],
  ['garbage', { kind: 'fault', why: expect.anything() }],
])('the answer %s', (text, expected) => {
  expect(readAnswer(text)).toEqual(expected);
});
