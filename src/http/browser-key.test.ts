import { expect, test } from 'vitest';
import { createLog } from '../log/log.ts';
import { BrowserKeyWatch } from './browser-key.ts';

const KEY = 'svc_secret_0123456789abcdefghij';
const page = { origin: 'https://app.example', 'user-agent': 'Mozilla/5.0' };

/** Number of warnings, without the key in any of them. */
function warnings(
  ...requests: ReadonlyArray<readonly [headers: Record<string, string>, query?: string]>
): number {
  let text = '';
  const watch = new BrowserKeyWatch(
    createLog({ level: 'warn', destination: { write: (line: string) => void (text += line) } }),
  );
  for (const [headers, query = ''] of requests) watch.check(headers, query);
  expect(text).not.toContain(KEY);
  return text.split('\n').filter(Boolean).length;
}

test.each([
  ['in apikey', { ...page, apikey: KEY }, ''],
  ['as a bearer', { ...page, authorization: `Bearer ${KEY}` }, ''],
  ['in the query', page, `apikey=${KEY}&vsn=1.0.0`],
  ['with fetch metadata', { origin: 'null', 'sec-fetch-site': 'cross-site', apikey: KEY }, ''],
])('a page that sends the secret key %s is a warning', (_name, headers, query) => {
  expect(warnings([headers, query])).toBe(1);
});

test.each([
  ['a server', { apikey: KEY }],
  ['a server that forwards the origin', { origin: 'https://app.example', apikey: KEY }],
  [
    'fetch of Node',
    { origin: 'https://app.example', 'sec-fetch-mode': 'cors', 'user-agent': 'node', apikey: KEY },
  ],
  ['a page with the publishable key', { ...page, apikey: 'svc_publishable_x' }],
])('%s is not a warning', (_name, headers) => {
  expect(warnings([headers])).toBe(0);
});

test('each origin is logged once', () => {
  const first = { ...page, apikey: KEY };
  expect(warnings([first], [first], [{ ...first, origin: 'https://other.example' }])).toBe(2);
});
