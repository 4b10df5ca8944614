import { expect, test } from 'vitest';
import { redactor, secretMask, MIN_SECRET_CHARS } from './secret-mask.ts';

test('a secret gives way to its reference in every spelling', () => {
  const mask = secretMask([['it\'s a "secret"', '${SECRET}']]);
  expect(
    [
      'it\'s a "secret"',
      JSON.stringify('it\'s a "secret"'),
      "select 'it''s a \"secret\"'",
      'nothing to hide',
    ].map(mask),
  ).toEqual(['${SECRET}', '"${SECRET}"', "select '${SECRET}'", 'nothing to hide']);
});

test('the longer of two secrets is replaced first', () => {
  const mask = secretMask([
    ['secret', 'A'],
    ['secret-and-more', 'B'],
  ]);
  expect(mask('secret-and-more, secret')).toBe('B, A');
});

test('each line of a private key is hidden, a short value is not', () => {
  const short = 'x'.repeat(MIN_SECRET_CHARS - 1);
  const redact = redactor([`-----BEGIN-----\nMIIabcdef\n${short}`, short]);
  expect(redact(`  MIIabcdef\n${short}`)).toBe(`  [redacted]\n${short}`);
});

test('secret keys and signed tokens are hidden without being named', () => {
  const token = 'eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl';
  expect(redactor([])(`key svc_secret_ab-c1, token ${token}.`)).toBe('key [redacted], token [redacted].');
});

test.each([
  ['the key is abc-secret!', 'the key is [redacted]!'],
  ['{"a":"with \\"quote\\" in it"}', '{"a":"[redacted]"}'],
  ['longer abc-secret-and-more', 'longer [redacted]'],
  ['Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0abc.c2lnbmF0dXJl', 'Bearer [redacted]'],
  ['svc_secret_0123456789', '[redacted]'],
  ['nothing here', 'nothing here'],
  ['  second-line-of-it', '  [redacted]'],
  ["{ k: 'first\\nsecond-line-of-it' }", "{ k: '[redacted]' }"],
])('%s', (text, expected) => {
  expect(
    redactor(['abc-secret', 'abc-secret-and-more', 'with "quote" in it', 'first\nsecond-line-of-it'])(text),
  ).toBe(expected);
});
