import { expect, test } from 'vitest';
import { errorWebhook } from '../environment.ts';

test('the URL must use https, unless it is a loopback URL', () => {
  expect(errorWebhook({})).toBeUndefined();
  for (const url of ['https://errors.example/in?key=1', 'http://localhost:9/x', 'http://[::1]:9/'])
    expect(errorWebhook({ SVC_ERROR_WEBHOOK: url })).toBe(url);
  for (const url of ['http://errors.example/in', 'errors.example', 'http://localhost.example/', 'https://'])
    expect(() => errorWebhook({ SVC_ERROR_WEBHOOK: url }), url).toThrow(/is not an https:\/\/ URL/);
});
