import { expect, test } from 'vitest';
import { logSettings } from '../environment.ts';

test.each([
  [{}, 'json', true, { level: 'info', pretty: undefined }],
  [{}, 'pretty', true, { level: 'info', pretty: 'coloured' }],
  [{ SVC_LOG_FORMAT: 'json', SVC_LOG_LEVEL: 'debug' }, 'pretty', true, { level: 'debug', pretty: undefined }],
  [{ SVC_LOG_FORMAT: 'pretty' }, 'json', false, { level: 'info', pretty: 'plain' }],
] as const)('%j, where %s is usual', (env, byDefault, color, settings) => {
  expect(logSettings(env, byDefault, { color })).toEqual(settings);
});

test.each([{ SVC_LOG_FORMAT: 'xml' }, { SVC_LOG_LEVEL: 'loud' }])('%j is refused by name', (env) => {
  expect(() => logSettings(env, 'json', { color: false })).toThrow(Object.keys(env)[0]);
});
